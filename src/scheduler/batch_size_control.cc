#include "scheduler/batch_size_control.h"

#include <cstdint>
#include <numeric>
#include <string>

namespace ropeway::scheduler {
namespace {

using std::chrono::milliseconds;

Status CheckTarget(const char* field, milliseconds target, milliseconds least,
                   const char* expected) {
  if (target >= least) return {};
  return InvalidArgument(std::string(field) + " " + std::to_string(target.count()) +
                             "ms: expected " + expected + ", such as 100ms",
                         field);
}

}  // namespace

Status CheckBatchSize(const BatchSizeOptions& options) {
  const std::string& name = options.name;
  const int start = options.start;
  if (name != "fixed" && name != "aimd" && name != "memory") {
    return InvalidArgument(
        "batch_control \"" + name + "\" is unknown: expected fixed, aimd or memory",
        "batch_control");
  }
  if (start < AimdBatchSize::kLeast || start > AimdBatchSize::kMost) {
    return InvalidArgument("aimd_start must be between " + std::to_string(AimdBatchSize::kLeast) +
                               " and " + std::to_string(AimdBatchSize::kMost) + ", not " +
                               std::to_string(start),
                           "aimd_start");
  }
  Status status =
      CheckTarget("step_target", options.step_target, milliseconds(1), "a time above 0");
  if (!status.ok()) return status;
  return CheckTarget("request_target", options.request_target, milliseconds(0),
                     "0, or a time above 0");
}

std::unique_ptr<BatchSizeControl> MakeBatchSizeControl(const BatchSizeOptions& options,
                                                       int max_num_seqs) {
  if (options.name == "aimd") return std::make_unique<AimdBatchSize>(options, max_num_seqs);
  if (options.name == "memory") return std::make_unique<MemoryBatchSize>(max_num_seqs);
  return std::make_unique<FixedBatchSize>(max_num_seqs);
}

AimdBatchSize::AimdBatchSize(const BatchSizeOptions& options, int max_num_seqs)
    : least_(std::min(kLeast, max_num_seqs)),
      most_(std::min(kMost, max_num_seqs)),
      limit_(std::clamp(options.start, least_, most_)),
      steps_(options.step_target),
      requests_(options.request_target) {}

void AimdBatchSize::OnStep(base::Duration step, double /*free_share*/) {
  if (steps_.Add(step)) Adjust(steps_.load());
}

void AimdBatchSize::OnRequest(base::Duration latency) {
  if (requests_.watched() && requests_.Add(latency)) Adjust(requests_.load());
}

void AimdBatchSize::Adjust(double load) {
  if (load > kHigh) {
    limit_ = std::max(least_, limit_ - kChange);
  } else if (steps_.load() < kLow && requests_.load() < kLow) {
    limit_ = std::min(most_, limit_ + kChange);
  }
}

bool AimdBatchSize::Tail::Add(base::Duration sample) {
  samples_[num_samples_++] = base::ToSeconds(sample);
  if (num_samples_ < kWindow) return false;
  num_samples_ = 0;
  constexpr size_t kRank = (kWindow * 99 + 99) / 100;  // Nearest rank, counted from 1.
  std::nth_element(samples_.begin(), samples_.begin() + (kRank - 1), samples_.end());
  p99s_[num_windows_++ % kWindows] = samples_[kRank - 1];
  const size_t count = std::min(num_windows_, kWindows);
  const double sum =
      std::accumulate(p99s_.begin(), p99s_.begin() + static_cast<int64_t>(count), 0.0);
  load_ = sum / static_cast<double>(count) / target_;
  return true;
}

}  // namespace ropeway::scheduler
