#include "base/recent_times.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace ropeway::base {
namespace {

constexpr double kLeast = 1e-4;  // Seconds: the lower edge of the first bucket.
constexpr double kWidth = 1.1;   // The upper edge of a bucket over its lower one.

int64_t SecondOf(TimePoint now) {
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

int64_t MinuteOf(TimePoint now) {
  return std::chrono::duration_cast<std::chrono::minutes>(now).count();
}

}  // namespace

int RecentTimes::BucketOf(Duration value) {
  const double ratio = ToSeconds(value) / kLeast;
  if (!(ratio > 1.0)) return 0;
  static const double kScale = 1.0 / std::log(kWidth);
  return std::min(static_cast<int>(std::log(ratio) * kScale), kBuckets - 1);
}

double RecentTimes::MiddleOf(int bucket) { return kLeast * std::pow(kWidth, bucket + 0.5); }

void RecentTimes::AddTo(Window* window, int64_t number, int bucket) {
  Slot& slot = (*window)[static_cast<size_t>(number % kSlots)];
  if (slot.number != number) {
    slot.number = number;
    slot.counts.fill(0);
  }
  ++slot.counts[static_cast<size_t>(bucket)];
}

void RecentTimes::Add(Duration value, TimePoint now) {
  const int bucket = BucketOf(value);
  const std::lock_guard lock(mutex_);
  AddTo(&seconds_, SecondOf(now), bucket);
  AddTo(&minutes_, MinuteOf(now), bucket);
}

RecentTimes::Summary RecentTimes::Summarize(const Window& window, int64_t number) {
  std::array<uint64_t, kBuckets> counts{};
  Summary summary;
  for (const Slot& slot : window) {
    if (slot.number < 0 || slot.number <= number - kSlots || slot.number > number) continue;
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += slot.counts[i];
  }
  for (const uint64_t count : counts) summary.count += count;
  if (summary.count == 0) return summary;
  const auto at = [&](double share) {
    const auto rank = static_cast<uint64_t>(std::ceil(share * static_cast<double>(summary.count)));
    uint64_t seen = 0;
    for (int i = 0; i < kBuckets; ++i) {
      seen += counts[static_cast<size_t>(i)];
      if (seen >= rank) return MiddleOf(i);
    }
    return MiddleOf(kBuckets - 1);
  };
  summary.p50 = at(0.50);
  summary.p95 = at(0.95);
  summary.p99 = at(0.99);
  return summary;
}

RecentTimes::Summary RecentTimes::LastMinute(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return Summarize(seconds_, SecondOf(now));
}

RecentTimes::Summary RecentTimes::LastHour(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return Summarize(minutes_, MinuteOf(now));
}

}  // namespace ropeway::base
