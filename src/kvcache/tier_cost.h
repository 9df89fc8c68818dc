// What a tier costs: whether a read is faster than computing, and how fast it may be written.
#ifndef ROPEWAY_KVCACHE_TIER_COST_H_
#define ROPEWAY_KVCACHE_TIER_COST_H_

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace ropeway::kvcache {

// Decides whether a block is read from a tier or recomputed, by two moving averages: seconds per
// byte read, and seconds per token of prefill steps. Until both are measured, reading counts as
// cheaper, so that it gets measured.
//
// Thread rule: the engine thread.
class ReadCost {
 public:
  // Reading `bytes` took `took`.
  void OnRead(int64_t bytes, base::Duration took);
  // A step of `tokens` prompt tokens, and little else, took `took`.
  void OnPrefill(int32_t tokens, base::Duration took);

  // Whether reading `bytes` is expected to take less time than computing `tokens`. After
  // kProbeAfter negative answers in a row a read is tried again: the disk may have been busy.
  bool ReadIsCheaper(int64_t bytes, int32_t tokens);

  // The time limit for reading `bytes`: ten times the expected time, between kLeastLimit and 20 s,
  // which is less than the watchdog's limit.
  base::Duration ReadLimit(int64_t bytes) const;

  static constexpr int kProbeAfter = 50;
  static constexpr base::Duration kLeastLimit = std::chrono::seconds(2);

 private:
  double seconds_per_byte_ = 0;   // 0: not measured.
  double seconds_per_token_ = 0;  // 0: not measured.
  int rejected_ = 0;              // Negative answers in a row.
};

// Limits the rate of writes with a token bucket. A write of any size may begin while the bucket is
// not in debt, and takes its bytes from it; so in the long run no more than the rate is written,
// plus one bucket and one write.
//
// The rate is fixed, or keeps the measured CPU time of writing at a share of the cores:
// share * cores / (CPU seconds per byte), the latter over about the last 64 MiB.
//
// Thread rule: one thread.
class WriteRate {
 public:
  static constexpr double kCpuShare = 0.03;
  static constexpr double kBucketSeconds = 0.25;  // Size of the bucket, in seconds of the rate.
  // Before the first measurement (docs/performance.md).
  static constexpr double kFirstCpuSecondsPerByte = 3e-9;

  // `bytes_per_second` 0: by CPU time. `clock` must outlive it.
  WriteRate(const base::Clock* clock, int64_t bytes_per_second, int cores);

  // How long the next write must wait; 0: it may begin.
  base::Duration Wait();

  // `bytes` were written in `cpu_seconds`. Either may be 0: the cost of a flush is known only after
  // its writes.
  void Wrote(size_t bytes, double cpu_seconds);

  double bytes_per_second() const;

 private:
  void Refill();

  const base::Clock* const clock_;
  const double fixed_rate_;
  const double cpu_rate_;  // CPU seconds that may be spent per second.
  double cost_cpu_;        // Cost of about the last 64 MiB: CPU seconds ...
  double cost_bytes_;      // ... and bytes.
  double tokens_;          // Bytes; negative: debt.
  base::TimePoint refilled_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_TIER_COST_H_
