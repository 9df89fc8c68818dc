#include "executor/token_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ropeway {
namespace {

// Wide enough to hold few tokens near the maximum, where it matters.
constexpr size_t kBuckets = 1024;
constexpr float kBucketsPerUnit = 32.0F;

float NanToLowest(float x) { return std::isnan(x) ? -std::numeric_limits<float>::infinity() : x; }

size_t BucketOf(float key, float max) {
  const float distance = (max - key) * kBucketsPerUnit;
  // Written so that NaN (from a NaN key, or infinity minus infinity) goes to the last one.
  if (!(distance < static_cast<float>(kBuckets - 1))) return kBuckets - 1;
  return distance > 0.0F ? static_cast<size_t>(distance) : 0;
}

}  // namespace

TokenOrder::TokenOrder(size_t capacity) : bucket_size_(kBuckets) { sorted_.reserve(capacity); }

void TokenOrder::Begin(std::span<const float> keys, float max) {
  keys_ = keys;
  max_ = max;
  sorted_.clear();
  buckets_sorted_ = 0;
  std::fill(bucket_size_.begin(), bucket_size_.end(), 0);
  for (const float key : keys) ++bucket_size_[BucketOf(key, max)];
}

void TokenOrder::Ensure(size_t count) {
  if (sorted_.size() >= count) return;
  const size_t begin = buckets_sorted_;
  const size_t old_size = sorted_.size();
  for (size_t size = old_size; size < count; ++buckets_sorted_) {
    size += static_cast<size_t>(bucket_size_[buckets_sorted_]);
  }
  for (size_t i = 0; i < keys_.size(); ++i) {
    const size_t bucket = BucketOf(keys_[i], max_);
    if (bucket >= begin && bucket < buckets_sorted_) {
      sorted_.push_back({NanToLowest(keys_[i]), static_cast<TokenId>(i)});
    }
  }
  std::sort(
      sorted_.begin() + static_cast<std::ptrdiff_t>(old_size), sorted_.end(),
      [](const Entry& a, const Entry& b) { return a.key != b.key ? a.key > b.key : a.id < b.id; });
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

}  // namespace ropeway
