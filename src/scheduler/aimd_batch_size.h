// A limit by the time of a step.
#ifndef ROPEWAY_SCHEDULER_AIMD_BATCH_SIZE_H_
#define ROPEWAY_SCHEDULER_AIMD_BATCH_SIZE_H_

#include <array>
#include <cstddef>

#include "scheduler/batch_size_control.h"

namespace ropeway {

// The classic controller: at the end of each window of kWindow steps it takes the window's p99 (by
// nearest rank: of 50 steps the longest), and the mean of the last kWindows of these. Above kHigh x
// step_target the limit falls by kChange, below kLow x step_target it rises by kChange. It starts
// at, and stays within, kLeast to kMost, and never exceeds max_num_seqs (which is the limit where
// it is below kLeast). The mean makes it slow: after a change of load it follows within kWindows
// windows.
class AimdBatchSize final : public BatchSizeControl {
 public:
  static constexpr size_t kWindow = 50;
  static constexpr size_t kWindows = 20;
  static constexpr double kHigh = 1.2;
  static constexpr double kLow = 0.7;
  static constexpr int kChange = 4;
  static constexpr int kLeast = 8;
  static constexpr int kMost = 64;

  AimdBatchSize(int max_num_seqs, Duration step_target);
  int limit() const override { return limit_; }
  void OnStep(Duration step, double free_share) override;

 private:
  void EndWindow();

  const int least_;
  const int most_;
  const double target_;  // Seconds.
  int limit_;
  std::array<double, kWindow> steps_{};
  size_t num_steps_ = 0;
  std::array<double, kWindows> p99s_{};  // A ring.
  size_t num_windows_ = 0;               // Ever.
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_AIMD_BATCH_SIZE_H_
