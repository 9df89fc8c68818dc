#include "executor/token_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace ropeway {
namespace {

// The keys are added in windows of so much below their maximum, so many times; then all that is
// left.
constexpr float kWindow = 2.0F;
constexpr int kWindows = 16;

constexpr size_t kBlock = 64;
constexpr size_t kLanes = 16;

float NanToLowest(float x) { return std::isnan(x) ? -std::numeric_limits<float>::infinity() : x; }

// Whether `a` stands before `b` in the order.
bool Before(const TokenOrder::Entry& a, const TokenOrder::Entry& b) {
  return a.key != b.key ? a.key > b.key : a.id < b.id;
}
bool After(const TokenOrder::Entry& a, const TokenOrder::Entry& b) { return Before(b, a); }

// Of [begin, end); NaN is passed over. Written in lanes so that the compiler may compute them
// together.
float LargestOf(const float* begin, const float* end) {
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  for (; end - begin >= static_cast<std::ptrdiff_t>(kLanes); begin += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = begin[i] > lanes[i] ? begin[i] : lanes[i];
  }
  for (; begin != end; ++begin) lanes[0] = *begin > lanes[0] ? *begin : lanes[0];
  return *std::max_element(lanes.begin(), lanes.end());
}

}  // namespace

TokenOrder::TokenOrder(size_t capacity) : block_max_((capacity + kBlock - 1) / kBlock) {
  sorted_.reserve(capacity);
  waiting_.reserve(capacity);
}

void TokenOrder::Begin(std::span<const float> keys, float max) {
  keys_ = keys;
  max_ = max;
  windows_ = 0;
  floor_ = std::numeric_limits<float>::quiet_NaN();
  all_added_ = false;
  sorted_.clear();
  waiting_.clear();
  for (size_t begin = 0; begin < keys.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, keys.size());
    block_max_[begin / kBlock] = LargestOf(keys.data() + begin, keys.data() + end);
  }
}

void TokenOrder::Ensure(size_t count) {
  while (sorted_.size() < count) {
    if (waiting_.empty() && windows_ < kWindows) {
      AddDownTo(max_ - kWindow * static_cast<float>(++windows_));
    } else if (waiting_.empty()) {
      if (all_added_) return;
      AddRest();
    } else if (waiting_.size() / 8 < count - sorted_.size()) {  // A good part of it: by sorting.
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
  for (size_t begin = 0; begin < keys_.size(); begin += kBlock) {
    if (!(block_max_[begin / kBlock] >= low)) continue;
    const size_t end = std::min(begin + kBlock, keys_.size());
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
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (!(keys_[i] >= floor_)) {
      waiting_.push_back({NanToLowest(keys_[i]), static_cast<TokenId>(i)});
    }
  }
  all_added_ = true;
  std::make_heap(waiting_.begin(), waiting_.end(), After);
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
