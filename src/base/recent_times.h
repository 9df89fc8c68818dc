// The times that were measured in the last minute and in the last hour, as percentiles.
#ifndef ROPEWAY_BASE_RECENT_TIMES_H_
#define ROPEWAY_BASE_RECENT_TIMES_H_

#include <array>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace ropeway::base {

// Times between 0.1 ms and half an hour, counted in buckets of a tenth of their width: 20 ns a
// value, 50 KB. Thread-safe.
class RecentTimes {
 public:
  // Of the values in a window. Percentiles are exact to 5 %; 0 where there is no value.
  struct Summary {
    uint64_t count = 0;
    double p50 = 0;  // Seconds.
    double p95 = 0;
    double p99 = 0;
  };

  void Add(Duration value, TimePoint now);
  // Of the last 60 seconds; the oldest second may be cut.
  Summary LastMinute(TimePoint now) const;
  // Of the last 60 minutes; the oldest minute may be cut.
  Summary LastHour(TimePoint now) const;

 private:
  static constexpr int kBuckets = 176;
  static constexpr int kSlots = 60;
  struct Slot {
    int64_t number = -1;  // Of the second or the minute that it counts; -1: none yet.
    std::array<uint32_t, kBuckets> counts{};
  };
  using Window = std::array<Slot, kSlots>;

  static int BucketOf(Duration value);
  static double MiddleOf(int bucket);
  static void AddTo(Window* window, int64_t number, int bucket);
  static Summary Summarize(const Window& window, int64_t number);

  mutable std::mutex mutex_;
  Window seconds_;  // GUARDED_BY(mutex_)
  Window minutes_;  // GUARDED_BY(mutex_)
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_RECENT_TIMES_H_
