// The KV cache manager with its sequences, for its tests.
#ifndef ROPEWAY_KVCACHE_TEST_KV_CACHE_H_
#define ROPEWAY_KVCACHE_TEST_KV_CACHE_H_

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kvcache/kv_cache_manager.h"
#include "kvcache/test_tier.h"

namespace ropeway::kvcache {

class KvCacheTest : public testing::Test {
 protected:
  void Make(int32_t blocks, KvCacheOptions options = {}) {
    options.num_blocks = blocks;
    options.block_bytes = 4;
    kv_ = std::make_unique<KvCacheManager>(options);
  }

  // A sequence with `ids` ids: 0, 1, ... below `from`, and ids of its own from there on.
  core::Sequence* New(int32_t ids, int32_t from = 1 << 20) {
    auto sequence = std::make_unique<core::Sequence>();
    sequence->request.id = sequences_.size() + 1;
    const auto own = static_cast<TokenId>(1000 * sequence->id());
    for (int32_t i = 0; i < ids; ++i) sequence->Append(i < from ? i : i + own);
    sequence->prompt_len = ids;
    KvCacheManager::Reserve(sequence.get(), 10 * (ids + 16), kv_->windows().groups());
    sequences_.push_back(std::move(sequence));
    return sequences_.back().get();
  }

  bool Start(core::Sequence* sequence) {
    const CachedPrefix prefix = kv_->Lookup(sequence);
    const bool started = kv_->Fits(*sequence, prefix, sequence->num_ids() + 1);
    if (started) {
      kv_->Start(sequence, prefix, sequence->num_ids() + 1);
      sequence->state = core::SequenceState::kPrefilling;
    }
    CheckSound();
    return started;
  }

  CachedPrefix LookupAll(core::Sequence* sequence) {
    CachedPrefix prefix = kv_->Lookup(sequence);
    kv_->LookInTier(*sequence, &prefix);
    return prefix;
  }

  void Compute(core::Sequence* sequence, int32_t to) {
    sequence->computed = to;
    kv_->OnComputed(sequence);
    CheckSound();
  }

  // Starts it, computes all its ids.
  core::Sequence* Run(core::Sequence* sequence) {
    EXPECT_TRUE(Start(sequence));
    Compute(sequence, sequence->num_ids());
    return sequence;
  }

  void Park(core::Sequence* sequence) {
    kv_->Park(sequence);
    sequence->state = core::SequenceState::kPreempted;
    ++sequence->preemptions;
    CheckSound();
  }

  void Release(core::Sequence* sequence) {
    kv_->Release(sequence);
    sequence->state = core::SequenceState::kFinished;
    CheckSound();
  }

  void CheckSound() {
    const Status status = kv_->CheckIntegrity(All());
    EXPECT_TRUE(status.ok()) << status.message();
  }

  std::vector<const core::Sequence*> All() const {
    std::vector<const core::Sequence*> all;
    for (const auto& sequence : sequences_) all.push_back(sequence.get());
    return all;
  }

  TestTier tier_;
  std::unique_ptr<KvCacheManager> kv_;
  std::vector<std::unique_ptr<core::Sequence>> sequences_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_TEST_KV_CACHE_H_
