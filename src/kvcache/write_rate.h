// How fast the disk tier may write: a token bucket of bytes.
#ifndef ROPEWAY_KVCACHE_WRITE_RATE_H_
#define ROPEWAY_KVCACHE_WRITE_RATE_H_

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace ropeway {

// A write of any size may begin while the bucket is not in debt, and takes its bytes from it; so in
// the long run no more than the rate is written, plus one bucket and one write.
//
// The rate is the given one, or what keeps the CPU time that writing is measured to cost at a share
// of the cores: share * cores / (CPU seconds per byte), the latter over about the last 64 MiB.
//
// Thread rule: one thread.
class WriteRate {
 public:
  static constexpr double kCpuShare = 0.03;
  static constexpr double kBucketSeconds = 0.25;  // The bucket holds so much of the rate.
  // Until something was measured (docs/performance.md).
  static constexpr double kFirstCpuSecondsPerByte = 3e-9;

  // `bytes_per_second` 0: by the CPU time. `clock` must outlive it.
  WriteRate(const Clock* clock, int64_t bytes_per_second, int cores);

  // How long the next write has to wait; 0: it may begin.
  Duration Wait();

  // `bytes` were written, and `cpu_seconds` spent. Either may be 0: what a flush costs is known
  // only after the writes that it was for.
  void Wrote(size_t bytes, double cpu_seconds);

  double bytes_per_second() const;

 private:
  void Refill();

  const Clock* const clock_;
  const double fixed_rate_;
  const double cpu_rate_;  // CPU seconds that may be spent per second.
  double cost_cpu_;        // Of the last about 64 MiB: CPU seconds ...
  double cost_bytes_;      // ... and bytes.
  double tokens_;          // Bytes; negative: debt.
  TimePoint refilled_;
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_WRITE_RATE_H_
