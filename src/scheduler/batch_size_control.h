// How many sequences may run at once.
#ifndef ROPEWAY_SCHEDULER_BATCH_SIZE_CONTROL_H_
#define ROPEWAY_SCHEDULER_BATCH_SIZE_CONTROL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

#include "base/clock.h"
#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::scheduler {

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
  virtual void OnStep(base::Duration step, double free_share) = 0;

  // A request completed `latency` after its arrival.
  virtual void OnRequest(base::Duration /*latency*/) {}
};

// InvalidArgument with field "batch_control" for an unknown name, and with field "aimd_start",
// "step_target" or "request_target" for a value out of range, under every control.
Status CheckBatchSize(const BatchSizeOptions& options);

// REQUIRES: CheckBatchSize(options) is OK; max_num_seqs is at least 1.
std::unique_ptr<BatchSizeControl> MakeBatchSizeControl(const BatchSizeOptions& options,
                                                       int max_num_seqs);

// Always max_num_seqs.
class FixedBatchSize final : public BatchSizeControl {
 public:
  explicit FixedBatchSize(int max_num_seqs) : limit_(max_num_seqs) {}
  int limit() const override { return limit_; }
  void OnStep(base::Duration, double) override {}

 private:
  const int limit_;
};

// Additive increase and decrease by the time of a step, and by the latency of a request if it has a
// target. For each of the two, at the end of each window of kWindow samples it takes the window's
// p99 (nearest rank: of 20 samples the longest), and the mean of the last kWindows of these. If
// that is above kHigh x its target, the limit falls by kChange. If it is below kLow x its target,
// and the other's mean is below kLow x the other's target too, the limit rises by kChange. The
// limit starts at `start` and stays within kLeast to kMost, and never exceeds max_num_seqs (which
// is the limit if it is below kLeast). The mean makes it slow: it follows a change of load within
// kWindows windows.
class AimdBatchSize final : public BatchSizeControl {
 public:
  static constexpr size_t kWindow = 20;
  static constexpr size_t kWindows = 20;
  static constexpr double kHigh = 1.2;
  static constexpr double kLow = 0.7;
  static constexpr int kChange = 4;
  static constexpr int kLeast = 8;
  static constexpr int kMost = 64;

  AimdBatchSize(const BatchSizeOptions& options, int max_num_seqs);
  int limit() const override { return limit_; }
  void OnStep(base::Duration step, double free_share) override;
  void OnRequest(base::Duration latency) override;

 private:
  // The tail of one kind of times, against its target.
  class Tail {
   public:
    explicit Tail(base::Duration target) : target_(base::ToSeconds(target)) {}
    bool watched() const { return target_ > 0; }
    // Takes a sample; true: a window ended.
    bool Add(base::Duration sample);
    // The mean p99 over the target; 0 before the first window ended.
    double load() const { return load_; }

   private:
    const double target_;  // Seconds.
    double load_ = 0.0;
    std::array<double, kWindow> samples_{};
    size_t num_samples_ = 0;
    std::array<double, kWindows> p99s_{};  // A ring.
    size_t num_windows_ = 0;               // Since the start.
  };

  void Adjust(double load);

  const int least_;
  const int most_;
  int limit_;
  Tail steps_;
  Tail requests_;
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
  void OnStep(base::Duration /*step*/, double free_share) override {
    if (free_share > kMuchFree) limit_ = std::min(kMany, max_num_seqs_);
    if (free_share < kLittleFree) limit_ = std::min(kFew, max_num_seqs_);
  }

 private:
  const int max_num_seqs_;
  int limit_;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_BATCH_SIZE_CONTROL_H_
