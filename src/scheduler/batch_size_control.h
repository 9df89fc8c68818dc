// How many sequences may run at once.
#ifndef ROPEWAY_SCHEDULER_BATCH_SIZE_CONTROL_H_
#define ROPEWAY_SCHEDULER_BATCH_SIZE_CONTROL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "base/clock.h"
#include "ropeway/status.h"

namespace ropeway {

// Adjusts the limit on running sequences after each step. The scheduler applies it when it starts
// sequences: those that run go on when the limit falls below their number.
//
// Thread rule: the engine thread.
class BatchSizeControl {
 public:
  virtual ~BatchSizeControl() = default;

  // At least 1, at most max_num_seqs.
  virtual int limit() const = 0;

  // A step took `step`. `free_share`: the part of the pool's blocks that no sequence holds (free or
  // cached), 0 to 1.
  virtual void OnStep(Duration step, double free_share) = 0;
};

struct BatchSizeOptions {
  std::string name = "fixed";                             // Or "aimd", "memory".
  int max_num_seqs = 1;                                   // At least 1.
  Duration step_target = std::chrono::milliseconds(100);  // For "aimd".
};

// InvalidArgument with field "batch_control" for another name, and with field "step_target" for a
// target that is not above 0, under every control.
StatusOr<std::unique_ptr<BatchSizeControl>> MakeBatchSizeControl(const BatchSizeOptions& options);

// Always max_num_seqs.
class FixedBatchSize final : public BatchSizeControl {
 public:
  explicit FixedBatchSize(int max_num_seqs) : limit_(max_num_seqs) {}
  int limit() const override { return limit_; }
  void OnStep(Duration, double) override {}

 private:
  const int limit_;
};

// Additive increase and decrease by the time of a step: at the end of each window of kWindow steps
// it takes the window's p99 (nearest rank: of 50 steps the longest), and the mean of the last
// kWindows of these. Above kHigh x step_target the limit falls by kChange, below kLow x step_target
// it rises by kChange. It starts at, and stays within, kLeast to kMost, and never exceeds
// max_num_seqs (which is the limit if it is below kLeast). The mean makes it slow: it follows a
// change of load within kWindows windows.
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
  size_t num_windows_ = 0;               // Since the start.
};

// By the free part of the KV pool: kMany above 90 %, kFew below 50 %, unchanged between; at most
// max_num_seqs. Starts at kMany.
class MemoryBatchSize final : public BatchSizeControl {
 public:
  static constexpr int kMany = 16;
  static constexpr int kFew = 4;
  static constexpr double kMuchFree = 0.9;
  static constexpr double kLittleFree = 0.5;

  explicit MemoryBatchSize(int max_num_seqs)
      : max_num_seqs_(max_num_seqs), limit_(std::min(kMany, max_num_seqs)) {}
  int limit() const override { return limit_; }
  void OnStep(Duration /*step*/, double free_share) override {
    if (free_share > kMuchFree) limit_ = std::min(kMany, max_num_seqs_);
    if (free_share < kLittleFree) limit_ = std::min(kFew, max_num_seqs_);
  }

 private:
  const int max_num_seqs_;
  int limit_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SCHEDULER_BATCH_SIZE_CONTROL_H_
