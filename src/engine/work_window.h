// Utilization and throughput over the last seconds.
#ifndef ROPEWAY_ENGINE_WORK_WINDOW_H_
#define ROPEWAY_ENGINE_WORK_WINDOW_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace ropeway::engine {

// Sums the work of steps in slices of a second. The last kSlices count; the newest is under way.
// Adding and reading take constant time and no memory.
//
// Thread rule: the owner's lock.
class WorkWindow {
 public:
  static constexpr base::Duration kSlice = std::chrono::seconds(1);
  static constexpr int64_t kSlices = 10;

  struct Rates {
    double utilization = 0.0;  // Share of the time in which a step ran.
    double prompt_tokens_per_second = 0.0;
    double generation_tokens_per_second = 0.0;
  };

  explicit WorkWindow(base::TimePoint now) : begin_(now) {}

  // A step that took `busy` ended at `now`. Times must not go back.
  void Add(base::TimePoint now, base::Duration busy, uint64_t prompt_tokens,
           uint64_t generated_tokens) {
    const int64_t number = NumberOf(now);
    Slice& slice = slices_[static_cast<size_t>(number % kSlices)];
    if (slice.number != number) slice = {.number = number};
    slice.busy += busy;
    slice.prompt_tokens += prompt_tokens;
    slice.generated_tokens += generated_tokens;
  }

  Rates At(base::TimePoint now) const {
    const int64_t newest = NumberOf(now);
    Slice sum;
    for (const Slice& slice : slices_) {
      if (slice.number <= newest - kSlices || slice.number > newest) continue;
      sum.busy += slice.busy;
      sum.prompt_tokens += slice.prompt_tokens;
      sum.generated_tokens += slice.generated_tokens;
    }
    const int64_t oldest = std::max<int64_t>(0, newest - kSlices + 1);
    // Just after the start a few steps say nothing of a second.
    const double seconds = base::ToSeconds(std::max(now - begin_ - oldest * kSlice, kSlice));
    return {std::min(1.0, base::ToSeconds(sum.busy) / seconds),
            static_cast<double>(sum.prompt_tokens) / seconds,
            static_cast<double>(sum.generated_tokens) / seconds};
  }

 private:
  struct Slice {
    int64_t number = -1;  // Since begin_; -1: unused.
    base::Duration busy{};
    uint64_t prompt_tokens = 0;
    uint64_t generated_tokens = 0;
  };

  int64_t NumberOf(base::TimePoint now) const { return (now - begin_) / kSlice; }

  const base::TimePoint begin_;
  std::array<Slice, kSlices> slices_{};
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_WORK_WINDOW_H_
