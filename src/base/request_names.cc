#include "ropeway/request.h"

namespace ropeway {

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kFailed:
      return "failed";
  }
  return "failed";
}

const char* PriorityName(Priority priority) {
  switch (priority) {
    case Priority::kHigh:
      return "high";
    case Priority::kMedium:
      return "medium";
    case Priority::kLow:
      return "low";
  }
  return "unknown";
}

std::optional<Priority> PriorityOf(std::string_view name) {
  for (const Priority priority : {Priority::kHigh, Priority::kMedium, Priority::kLow}) {
    if (name == PriorityName(priority)) return priority;
  }
  return std::nullopt;
}

}  // namespace ropeway
