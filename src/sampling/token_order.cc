#include "sampling/token_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace ropeway::sampling {
namespace {

// TokenOrder adds keys in kWindows windows of this width below their maximum, then all others above
// minus infinity.
constexpr float kWindow = 2.0F;
constexpr int kWindows = 16;
constexpr size_t kOrderBlock =
    64;  // Ids whose largest key is kept, so that a block can be skipped.

constexpr float kLowestKey = -std::numeric_limits<float>::infinity();

float NanToLowest(float x) { return std::isnan(x) ? kLowestKey : x; }

bool Before(const TokenOrder::Entry& a, const TokenOrder::Entry& b) {
  return a.key != b.key ? a.key > b.key : a.id < b.id;
}
bool After(const TokenOrder::Entry& a, const TokenOrder::Entry& b) { return Before(b, a); }

// The largest of [begin, end), NaN ignored. In lanes, so that the compiler vectorizes it.
float LargestOf(const float* begin, const float* end) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  for (; end - begin >= static_cast<std::ptrdiff_t>(kLanes); begin += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = begin[i] > lanes[i] ? begin[i] : lanes[i];
  }
  for (; begin != end; ++begin) lanes[0] = *begin > lanes[0] ? *begin : lanes[0];
  return *std::max_element(lanes.begin(), lanes.end());
}

}  // namespace

TokenOrder::TokenOrder(size_t capacity) : block_max_((capacity + kOrderBlock - 1) / kOrderBlock) {
  sorted_.reserve(capacity);
  waiting_.reserve(capacity);
}

void TokenOrder::Begin(std::span<const float> keys, float max) {
  keys_ = keys;
  max_ = max;
  windows_ = 0;
  floor_ = std::numeric_limits<float>::quiet_NaN();
  rest_added_ = false;
  next_lowest_ = 0;
  sorted_.clear();
  waiting_.clear();
  for (size_t begin = 0; begin < keys.size(); begin += kOrderBlock) {
    const size_t end = std::min(begin + kOrderBlock, keys.size());
    block_max_[begin / kOrderBlock] = LargestOf(keys.data() + begin, keys.data() + end);
  }
}

void TokenOrder::Ensure(size_t count) {
  while (sorted_.size() < count) {
    if (waiting_.empty() && windows_ < kWindows) {
      AddDownTo(max_ - kWindow * static_cast<float>(++windows_));
    } else if (waiting_.empty()) {
      if (rest_added_) return AppendLowest(count);
      AddRest();
    } else if (waiting_.size() / 8 < count - sorted_.size()) {  // A large part: sort all.
      std::sort(waiting_.begin(), waiting_.end(), Before);
      sorted_.insert(sorted_.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
    } else {
      std::pop_heap(waiting_.begin(), waiting_.end(), After);
      sorted_.push_back(waiting_.back());
      waiting_.pop_back();
    }
  }
}

void TokenOrder::AddDownTo(float low) {
  low = std::max(low, std::numeric_limits<float>::lowest());
  for (size_t begin = 0; begin < keys_.size(); begin += kOrderBlock) {
    if (!(block_max_[begin / kOrderBlock] >= low)) continue;
    const size_t end = std::min(begin + kOrderBlock, keys_.size());
    for (size_t i = begin; i < end; ++i) {
      if (keys_[i] >= low && !(keys_[i] >= floor_)) {
        waiting_.push_back({keys_[i], static_cast<TokenId>(i)});
      }
    }
  }
  floor_ = low;
  std::make_heap(waiting_.begin(), waiting_.end(), After);
}

void TokenOrder::AddRest() {
  AddDownTo(std::numeric_limits<float>::lowest());
  rest_added_ = true;
}

void TokenOrder::AppendLowest(size_t count) {
  for (; next_lowest_ < keys_.size() && sorted_.size() < count; ++next_lowest_) {
    if (keys_[next_lowest_] > kLowestKey) continue;
    sorted_.push_back({kLowestKey, static_cast<TokenId>(next_lowest_)});
  }
}

void TokenOrder::KeepWeights(size_t kept, std::span<float> scratch,
                             std::span<float> weights) const {
  for (size_t rank = 0; rank < kept; ++rank) {
    scratch[rank] = weights[static_cast<size_t>(sorted_[rank].id)];
  }
  std::fill(weights.begin(), weights.end(), 0.0F);
  for (size_t rank = 0; rank < kept; ++rank) {
    weights[static_cast<size_t>(sorted_[rank].id)] = scratch[rank];
  }
}

RankBuckets::RankBuckets(size_t capacity)
    : bucket_of_(capacity), counts_(kBuckets), sums_(kBuckets) {
  sorted_.reserve(capacity);
}

void RankBuckets::Begin(std::span<const float> keys, float max, float width) {
  keys_ = keys;
  sorted_bucket_ = kBuckets;
  std::fill(counts_.begin(), counts_.end(), 0U);
  constexpr auto kLast = static_cast<float>(kBuckets - 1);
  const float scale = static_cast<float>(kBuckets) / width;
  for (size_t i = 0; i < keys.size(); ++i) {
    // Each operation is monotonic, so equal keys share a bucket and larger ones stand before. False
    // for NaN: the last bucket.
    const float at = (max - keys[i]) * scale;
    const size_t bucket = at < kLast ? (at > 0.0F ? static_cast<size_t>(at) : 0) : kBuckets - 1;
    bucket_of_[i] = static_cast<uint16_t>(bucket);
    ++counts_[bucket];
  }
}

RankBuckets::Cut RankBuckets::First(size_t count) {
  size_t bucket = 0;
  while (bucket < kBuckets && counts_[bucket] <= count) count -= counts_[bucket++];
  return {bucket, count};
}

void RankBuckets::SortBucket(size_t bucket) {
  if (sorted_bucket_ == bucket) return;
  sorted_bucket_ = bucket;
  sorted_.clear();
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (bucket_of_[i] == bucket) {
      sorted_.push_back({NanToLowest(keys_[i]), static_cast<TokenId>(i)});
    }
  }
  std::sort(sorted_.begin(), sorted_.end(), Before);
}

double RankBuckets::error() const {
  // Each of the two sums of n numbers has n roundings of at most 2^-53 of it (Higham 2002, section
  // 4.2); twice that covers what is rounded on top.
  return 4.0 * static_cast<double>(keys_.size() + kBuckets) * 0x1p-53;
}

void RankBuckets::Sum(std::span<const float> weights, float least, Cut end) {
  weights_ = weights;
  least_ = least;
  end_ = end;
  std::fill(sums_.begin(), sums_.end(), 0.0);
  for (size_t i = 0; i < keys_.size(); ++i) {
    sums_[bucket_of_[i]] += weights[i] >= least ? double{weights[i]} : 0.0;
  }
  if (end.within > 0) {
    SortBucket(end.bucket);
    double& sum = sums_[end.bucket] = 0.0;
    for (size_t rank = 0; rank < end.within; ++rank) {
      const float w = weights[static_cast<size_t>(sorted_[rank].id)];
      sum += w >= least ? double{w} : 0.0;
    }
  }
  const size_t buckets = end.bucket + (end.within > 0 ? 1 : 0);
  std::fill(sums_.begin() + static_cast<std::ptrdiff_t>(buckets), sums_.end(), 0.0);
  total_ = 0.0;
  for (const double sum : sums_) total_ += sum;
}

std::optional<RankBuckets::Cut> RankBuckets::Reach(double enough, double slack) {
  const double more = 1.0 + error();
  const double less = 1.0 - error();
  double sum = 0.0;
  size_t bucket = 0;
  // Buckets after which the sum surely is too small.
  while (bucket < kBuckets && (sum + sums_[bucket]) * more + slack < enough) sum += sums_[bucket++];
  while (bucket < kBuckets && !(sums_[bucket] > 0.0)) ++bucket;
  if (bucket == kBuckets) return std::nullopt;
  SortBucket(bucket);
  const size_t count = bucket == end_.bucket ? end_.within : sorted_.size();
  for (size_t rank = 0; rank < count; ++rank) {
    const float w = weights_[static_cast<size_t>(sorted_[rank].id)];
    if (!(w >= least_) || !(w > 0.0F)) continue;
    sum += double{w};
    if (sum * more + slack < enough) continue;
    if (sum * less - slack > enough) return Cut{bucket, rank + 1};
    return std::nullopt;
  }
  return std::nullopt;
}

float RankBuckets::Largest(std::span<const float> weights, Cut end) {
  float largest = 0.0F;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const float w = bucket_of_[i] < end.bucket ? weights[i] : 0.0F;
    largest = w > largest ? w : largest;
  }
  if (end.within > 0) SortBucket(end.bucket);
  for (size_t rank = 0; rank < end.within; ++rank) {
    largest = std::max(largest, weights[static_cast<size_t>(sorted_[rank].id)]);
  }
  return largest;
}

TokenId RankBuckets::LastOf(Cut end) {
  SortBucket(end.bucket);
  return sorted_[end.within - 1].id;
}

void RankBuckets::KeepWeights(Cut end, std::span<float> weights) {
  if (end.within > 0) SortBucket(end.bucket);
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (bucket_of_[i] > end.bucket || (bucket_of_[i] == end.bucket && end.within == 0)) {
      weights[i] = 0.0F;
    }
  }
  if (end.within == 0) return;
  for (size_t rank = end.within; rank < sorted_.size(); ++rank) {
    weights[static_cast<size_t>(sorted_[rank].id)] = 0.0F;
  }
}

}  // namespace ropeway::sampling
