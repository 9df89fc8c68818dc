#include "bench/replay/virtual_executor.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace ropeway {

StatusOr<KvLayout> VirtualExecutor::Init(int64_t kv_cache_bytes, int /*max_num_batched_tokens*/,
                                         int /*max_num_seqs*/) {
  return KvLayout{static_cast<int32_t>(kv_cache_bytes), kBlockBytes};
}

StatusOr<StepResult> VirtualExecutor::Wait() {
  clock_->Advance(cost_.OfBatch(*batch_));
  ++steps_;
  StepResult result;
  for (const BatchItem& item : batch_->items) {
    rows_ += static_cast<int64_t>(item.tokens.size());
    if (!item.sample) continue;
    Sampled sampled;
    sampled.sequence = item.sequence;
    const uint64_t position = static_cast<uint64_t>(item.start) + item.tokens.size();
    sampled.token =
        kFirstGenerated + static_cast<TokenId>(Mix64(item.sequence, position) % kFirstGenerated);
    result.sampled.push_back(std::move(sampled));
  }
  return result;
}

void VirtualExecutor::ReadBlock(BlockId /*block*/, std::span<std::byte> bytes) const {
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
}

void VirtualExecutor::WriteBlock(BlockId /*block*/, std::span<const std::byte> /*bytes*/) {}

}  // namespace ropeway
