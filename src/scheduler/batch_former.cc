#include "scheduler/batch_former.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace ropeway {
namespace {

// 1 + floor(log2(value)), within the table.
size_t BucketOf(int32_t value, size_t buckets) {
  const int width = std::bit_width(static_cast<uint32_t>(std::max(value, 0)));
  return std::min(static_cast<size_t>(width), buckets - 1);
}

Duration ToDuration(double seconds) { return Duration(std::llround(seconds * 1e9)); }

}  // namespace

void BatchFormer::OnArrival(TimePoint now) {
  if (arrivals_++ > 0) {
    // Beyond the target all gaps are too long alike: a night without requests is not to be in the
    // mean for the next fifty.
    const double gap = ToSeconds(std::min(now - last_arrival_, options_.target_latency));
    gap_ = arrivals_ == 2 ? gap : gap_ + (gap - gap_) * kNewestGap;
  }
  last_arrival_ = now;
}

int BatchFormer::Places(const QueueView& view, TimePoint now) {
  next_look_ = TimePoint::max();
  if (options_.kind == Kind::kContinuous) return view.places;
  const bool batch = options_.kind != Kind::kSerial;
  const int size = std::min(batch ? options_.max_batch_size : 1, view.places);
  if (view.running > 0 || view.waiting == 0 || size <= 0) {
    collecting_since_ = TimePoint::max();
    return 0;
  }
  if (view.waiting >= size || view.urgent || view.flush) return std::min(size, view.waiting);
  const TimePoint starts_at = StartsAt(view, size);
  if (now >= starts_at) return view.waiting;
  next_look_ = starts_at;
  collecting_since_ = std::min(collecting_since_, now);
  return 0;
}

TimePoint BatchFormer::StartsAt(const QueueView& view, int size) const {
  if (options_.kind == Kind::kStatic || !options_.auto_timeout) {
    return view.oldest + options_.timeout;
  }
  if (arrivals_ < 2) return view.oldest;
  const double missing = size - view.waiting;
  // Of (latest - now) and of (now - last arrival), all from the last arrival on, in seconds.
  const Duration predicted = PredictedTime(view.waiting, view.prompt_tokens);
  const double latest =
      ToSeconds(view.oldest + options_.target_latency - predicted - last_arrival_);
  // The first time at which now + missing x gap > latest: by the mean gap, or, earlier, by the time
  // that has gone since the last arrival.
  const double by_mean = latest - missing * gap_;
  const double by_silence = latest / (1.0 + missing);
  return last_arrival_ + ToDuration(std::min(by_mean, by_silence));
}

void BatchFormer::OnStarted(int count, int32_t prompt_tokens, TimePoint now) {
  collecting_since_ = TimePoint::max();
  rows_ = count;
  prompt_tokens_ = prompt_tokens;
  began_ = now;
}

void BatchFormer::OnBatchEnded(TimePoint now) {
  if (rows_ == 0) return;
  double& mean = TimeOf(rows_, prompt_tokens_);
  const double took = ToSeconds(now - began_);
  mean = mean > 0.0 ? mean + (took - mean) * kNewestBatch : took;
  rows_ = 0;
}

double& BatchFormer::TimeOf(int rows, int32_t prompt_tokens) {
  return times_[BucketOf(rows, kRowBuckets)][BucketOf(prompt_tokens, kTokenBuckets)];
}

Duration BatchFormer::PredictedTime(int rows, int32_t prompt_tokens) const {
  const auto row = static_cast<int>(BucketOf(rows, kRowBuckets));
  const auto token = static_cast<int>(BucketOf(prompt_tokens, kTokenBuckets));
  double nearest = 0.0;
  int least = std::numeric_limits<int>::max();
  for (int r = 0; r < static_cast<int>(kRowBuckets); ++r) {
    for (int t = 0; t < static_cast<int>(kTokenBuckets); ++t) {
      const double time = times_[static_cast<size_t>(r)][static_cast<size_t>(t)];
      const int distance = std::abs(r - row) + std::abs(t - token);
      if (time > 0.0 && distance < least) {
        least = distance;
        nearest = time;
      }
    }
  }
  return ToDuration(nearest);
}

}  // namespace ropeway
