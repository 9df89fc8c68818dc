#include "gateway/dispatch_batches.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ropeway::gateway {

void DispatchBatches::Reserve() {
  if (!spare_.empty()) return;
  ByNumber one;
  one.try_emplace(0);
  spare_ = one.extract(one.begin());
}

uint64_t DispatchBatches::Start(const Starting& starting, base::TimePoint now) {
  const uint64_t number = ++counts_.batches;
  counts_.batched += static_cast<uint64_t>(starting.members);
  counts_.batch_sizes += starting.size;
  spare_.key() = number;
  spare_.mapped() = {starting.members, now, starting.joins};
  batches_.insert(std::move(spare_));
  if (starting.joins) {
    joined_ += starting.members;
    return number;
  }
  ++running_;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  former_.OnStarted(starting.members, static_cast<int32_t>(std::min(starting.prompt_tokens, kMost)),
                    now);
  return number;
}

void DispatchBatches::Leave(uint64_t number, base::TimePoint now) {
  const auto batch = batches_.find(number);
  if (batch->second.joins) --joined_;
  if (--batch->second.left > 0) return;
  ++counts_.batches_ended;
  counts_.batch_seconds += base::ToSeconds(now - batch->second.began);
  if (!batch->second.joins) {
    --running_;
    former_.OnBatchEnded(now);
  }
  spare_ = batches_.extract(batch);
}

void DispatchBatches::AddTo(EngineStats* stats) const {
  stats->total_batches = counts_.batches;
  stats->total_requests = counts_.batched;
  if (counts_.batches > 0) {
    stats->avg_batch_size = counts_.batch_sizes / static_cast<double>(counts_.batches);
  }
  if (counts_.batches_ended > 0) {
    stats->avg_batch_duration_ms =
        1000.0 * counts_.batch_seconds / static_cast<double>(counts_.batches_ended);
  }
}

std::map<uint64_t, int32_t> DispatchBatches::Members() const {
  std::map<uint64_t, int32_t> members;
  for (const auto& [number, batch] : batches_) members[number] = batch.left;
  return members;
}

}  // namespace ropeway::gateway
