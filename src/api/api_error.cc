#include <nlohmann/json.hpp>
#include <string_view>

#include "api/api_format.h"
#include "api/json.h"

namespace ropeway::api {

using Json = nlohmann::ordered_json;

const char* AnswerStateName(AnswerState state) {
  switch (state) {
    case AnswerState::kQueued:
      return "queued";
    case AnswerState::kInProgress:
      return "in_progress";
    case AnswerState::kCompleted:
      return "completed";
    case AnswerState::kIncomplete:
      return "incomplete";
    case AnswerState::kFailed:
      return "failed";
    case AnswerState::kCancelled:
      return "cancelled";
  }
  return "failed";
}

ApiError ToApiError(const Status& status) {
  const auto error = [&](int http_status, const char* type, const char* code) -> ApiError {
    return {http_status, status.message(), type, status.field(), code};
  };
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      return error(status.api_code() == std::string_view(kConversationBusy) ? 409 : 400,
                   "invalid_request_error", status.api_code());
    case StatusCode::kUnimplemented:
      if (status.api_code() == std::string_view(kNoTokenizer)) {
        return error(501, "invalid_request_error", kNoTokenizer);
      }
      return error(400, "invalid_request_error", "unsupported_parameter");
    case StatusCode::kNotFound:
      if (!status.field().empty() && status.field() != "model") {
        return error(404, "invalid_request_error", "not_found");
      }
      return {404, status.message(), "invalid_request_error", "model", "model_not_found"};
    case StatusCode::kResourceExhausted:
      return error(429, "rate_limit_error", "rate_limit_exceeded");
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:  // By the server: a client that cancels is gone.
      return error(503, "service_unavailable_error", "unavailable");
    case StatusCode::kDeadlineExceeded:
      return error(408, "timeout_error", "timeout");
    case StatusCode::kOk:
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      break;
  }
  return error(500, "server_error", "internal_error");
}

Json ErrorObject(const ApiError& error) {
  const auto or_null = [](const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); };
  return {{"message", error.message},
          {"type", error.type},
          {"param", or_null(error.param)},
          {"code", or_null(error.code)}};
}

std::string ErrorJson(const ApiError& error) { return DumpJson({{"error", ErrorObject(error)}}); }

}  // namespace ropeway::api
