#include "policy/output_predictor.h"

#include <algorithm>
#include <bit>

namespace ropeway::policy {

void OutputPredictor::Mean::Add(double value) {
  ++count;
  // The first lengths have equal weight; otherwise the very first would dominate for too long.
  tokens += (value - tokens) * std::max(kNewest, 1.0 / static_cast<double>(count));
}

size_t OutputPredictor::BucketOf(int32_t max_tokens) {
  return static_cast<size_t>(std::bit_width(static_cast<uint32_t>(std::max(max_tokens, 0))));
}

void OutputPredictor::Learn(int32_t max_tokens, int32_t generated) {
  buckets_[BucketOf(max_tokens)].Add(generated);
  all_.Add(generated);
}

int32_t OutputPredictor::Remaining(const core::JobRequest& request, int32_t generated) const {
  const int32_t left = request.max_tokens - generated;
  if (left <= 0) return 0;
  if (RunsToItsLimit(request)) return left;
  const Mean& bucket = buckets_[BucketOf(request.max_tokens)];
  double total = kFirstGuess;
  if (bucket.count >= kMinLengths) {
    total = bucket.tokens;
  } else if (all_.count > 0) {
    total = all_.tokens;
  }
  if (generated >= total) total = 2.0 * generated;
  // In double: 2 * generated may not fit an int32_t.
  return static_cast<int32_t>(std::clamp<double>(total - generated, 1.0, left));
}

}  // namespace ropeway::policy
