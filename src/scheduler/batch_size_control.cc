#include "scheduler/batch_size_control.h"

#include <cstdint>
#include <numeric>

namespace ropeway {

StatusOr<std::unique_ptr<BatchSizeControl>> MakeBatchSizeControl(const BatchSizeOptions& options) {
  if (options.step_target <= Duration(0)) {
    const auto given =
        std::chrono::duration_cast<std::chrono::milliseconds>(options.step_target).count();
    return InvalidArgument(
        "step_target " + std::to_string(given) + "ms: expected a time above 0, such as 100ms",
        "step_target");
  }
  std::unique_ptr<BatchSizeControl> control;
  if (options.name == "fixed") control = std::make_unique<FixedBatchSize>(options.max_num_seqs);
  if (options.name == "aimd") {
    control = std::make_unique<AimdBatchSize>(options.max_num_seqs, options.step_target);
  }
  if (options.name == "memory") control = std::make_unique<MemoryBatchSize>(options.max_num_seqs);
  if (control == nullptr) {
    return InvalidArgument(
        "batch_control \"" + options.name + "\" is unknown: expected fixed, aimd or memory",
        "batch_control");
  }
  return control;
}

AimdBatchSize::AimdBatchSize(int max_num_seqs, Duration step_target)
    : least_(std::min(kLeast, max_num_seqs)),
      most_(std::min(kMost, max_num_seqs)),
      target_(ToSeconds(step_target)),
      limit_(most_) {}

void AimdBatchSize::OnStep(Duration step, double /*free_share*/) {
  steps_[num_steps_++] = ToSeconds(step);
  if (num_steps_ == kWindow) EndWindow();
}

void AimdBatchSize::EndWindow() {
  num_steps_ = 0;
  constexpr size_t kRank = (kWindow * 99 + 99) / 100;  // Nearest rank, counted from 1.
  std::nth_element(steps_.begin(), steps_.begin() + (kRank - 1), steps_.end());
  p99s_[num_windows_++ % kWindows] = steps_[kRank - 1];
  const size_t count = std::min(num_windows_, kWindows);
  const double sum =
      std::accumulate(p99s_.begin(), p99s_.begin() + static_cast<int64_t>(count), 0.0);
  const double mean = sum / static_cast<double>(count);
  if (mean > kHigh * target_) {
    limit_ = std::max(least_, limit_ - kChange);
  } else if (mean < kLow * target_) {
    limit_ = std::min(most_, limit_ + kChange);
  }
}

}  // namespace ropeway
