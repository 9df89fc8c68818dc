#include "kvcache/kv_cache_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"

namespace ropeway::kvcache {
namespace {

std::span<const TokenId> BlockIds(const core::Sequence& sequence, int32_t block) {
  return std::span(sequence.ids)
      .subspan(static_cast<size_t>(block) * base::kBlockTokens, base::kBlockTokens);
}

BlockWorth WorthOf(const core::Sequence& sequence) {
  return {.chain_tokens = sequence.kv.computed,
          .reused = false,
          .retention = sequence.request.retention};
}

Status Broken(const core::Sequence& sequence, const std::string& what) {
  return {StatusCode::kInternal, fmt::format("sequence {} {}", sequence.id(), what)};
}

}  // namespace

bool WriteBackQueue::Remove(core::BlockId block) {
  if (!blocks_.queued(block)) return false;
  blocks_.Remove(block);
  return true;
}

void WriteBackQueue::Clear() {
  while (size() > 0) blocks_.Pop();
}

bool WriteBackQueue::Next(const BlockPool& pool, const KvTier* tier, core::BlockId* block) {
  while (size() > 0) {
    *block = blocks_.Pop();
    if (pool.named(*block) && !pool.pending(*block) && !tier->Contains(pool.name(*block))) {
      return true;
    }
  }
  return false;
}

KvCacheManager::KvCacheManager(const KvCacheOptions& options)
    : options_(options), pool_(options.num_blocks, options.eviction), store_(options.num_blocks) {
  evicted_.reserve(static_cast<size_t>(options.num_blocks));
}

void KvCacheManager::Reserve(core::Sequence* sequence, int32_t positions) {
  const auto blocks = static_cast<size_t>(BlocksFor(positions));
  const auto reserve = [blocks](auto* list) {
    if (list->capacity() < blocks) list->reserve(std::max(blocks, 2 * list->capacity()));
  };
  reserve(&sequence->kv.blocks);
  reserve(&sequence->kv.names);
  reserve(&sequence->kv.claims);
}

void KvCacheManager::NameUpTo(core::Sequence* sequence, int32_t blocks) const {
  for (auto i = static_cast<int32_t>(sequence->kv.names.size()); i < blocks; ++i) {
    const core::BlockName& parent =
        i == 0 ? sequence->request.cache_root : sequence->kv.names.back();
    sequence->kv.names.push_back(core::ChildName(parent, BlockIds(*sequence, i)));
  }
}

core::BlockName KvCacheManager::PartialName(const core::Sequence& sequence) {
  const auto full = static_cast<size_t>(sequence.kv.parked / base::kBlockTokens);
  const auto tail = static_cast<size_t>(sequence.kv.parked % base::kBlockTokens);
  const core::BlockName& parent =
      full == 0 ? sequence.request.cache_root : sequence.kv.names[full - 1];
  const auto ids = std::span(sequence.ids).subspan(full * base::kBlockTokens, tail);
  const std::array<TokenId, 2> owner = {static_cast<TokenId>(sequence.id()),
                                        static_cast<TokenId>(sequence.id() >> 32)};
  return core::ChildName(core::ChildName(parent, ids), owner);
}

int32_t KvCacheManager::MostHits(const core::Sequence& sequence) const {
  // The next token is sampled from the last id's row, which must be computed.
  const int32_t most = sequence.num_ids() - 1;
  if (sequence.request.spec.num_prompt_logprobs < 0) return most;
  if (sequence.preemptions == 0) return 0;
  // The row before the first id that is not scored must be computed.
  if (sequence.scored >= sequence.prompt_len) return most;
  return std::max(0, sequence.scored - 1);
}

CachedPrefix KvCacheManager::Lookup(core::Sequence* sequence) const {
  CachedPrefix prefix;
  if (!options_.caching) return prefix;
  const int32_t most = MostHits(*sequence);
  const int32_t full = most / base::kBlockTokens;
  NameUpTo(sequence, full);
  core::BlockId block = -1;
  while (prefix.blocks < full) {
    block = pool_.Find(sequence->kv.names[static_cast<size_t>(prefix.blocks)]);
    if (block < 0 || pool_.pending(block)) break;
    ++prefix.blocks;
  }
  prefix.tokens = prefix.blocks * base::kBlockTokens;
  if (prefix.blocks < full && block >= 0) {
    const uint64_t writer = pool_.writer(block);
    prefix.pending_end = prefix.blocks;
    while (prefix.pending_end < full) {
      block = pool_.Find(sequence->kv.names[static_cast<size_t>(prefix.pending_end)]);
      if (block < 0 || !pool_.pending(block) || pool_.writer(block) != writer) break;
      ++prefix.pending_end;
    }
    return prefix;
  }
  if (HasTail(*sequence) && prefix.blocks == sequence->kv.parked / base::kBlockTokens) {
    prefix.partial = pool_.Find(PartialName(*sequence));
    if (prefix.partial >= 0) prefix.tokens = sequence->kv.parked;
  }
  return prefix;
}

bool KvCacheManager::HasTail(const core::Sequence& sequence) const {
  return sequence.state == core::SequenceState::kPreempted &&
         sequence.kv.parked % base::kBlockTokens != 0 && sequence.kv.parked <= MostHits(sequence);
}

void KvCacheManager::LookInTier(const core::Sequence& sequence, CachedPrefix* prefix) const {
  prefix->tier_blocks = prefix->tier_tokens = 0;
  prefix->tier_partial = false;
  if (options_.tier == nullptr || !options_.caching || prefix->partial >= 0) return;
  const int32_t full = MostHits(sequence) / base::kBlockTokens;
  const int32_t begin = std::max(prefix->blocks, prefix->pending_end);
  int32_t end = begin;
  while (end < full) {
    const core::BlockName& name = sequence.kv.names[static_cast<size_t>(end)];
    // SkipAhead takes blocks that are in the pool when the read has ended.
    if (!options_.tier->Contains(name) || pool_.Find(name) >= 0) break;
    ++end;
  }
  prefix->tier_blocks = end - begin;
  prefix->tier_tokens = prefix->tier_blocks * base::kBlockTokens;
  if (HasTail(sequence) && end == sequence.kv.parked / base::kBlockTokens &&
      options_.tier->Contains(PartialName(sequence))) {
    prefix->tier_partial = true;
    prefix->tier_tokens += sequence.kv.parked % base::kBlockTokens;
  }
}

bool KvCacheManager::StillPending(const core::Sequence& sequence, uint64_t* writer) const {
  const core::BlockId block =
      pool_.Find(sequence.kv.names[static_cast<size_t>(sequence.sched.follows) - 1]);
  if (block < 0 || !pool_.pending(block)) return false;
  *writer = pool_.writer(block);
  return true;
}

core::BlockId KvCacheManager::Take() {
  BlockPool::Evicted evicted;
  const core::BlockId block = pool_.Take(&evicted);
  if (evicted.block >= 0) {
    const bool waited = store_.Remove(evicted.block);
    if (options_.tier != nullptr && (waited || evicted.claimed)) evicted_.push_back(evicted);
  }
  return block;
}

bool KvCacheManager::Fits(const core::Sequence& sequence, const CachedPrefix& prefix,
                          int32_t positions, int32_t more) const {
  int32_t revived = 0;  // Cached hits, which can no longer be evicted.
  for (int32_t i = 0; i < prefix.blocks; ++i) {
    const core::BlockId block = pool_.Find(sequence.kv.names[static_cast<size_t>(i)]);
    if (pool_.references(block) == 0) ++revived;
  }
  return Has(BlocksFor(positions) - prefix.blocks + revived - more);
}

int32_t KvCacheManager::HeldAlone(const core::Sequence& sequence, const core::Sequence& urgent,
                                  const CachedPrefix& prefix) const {
  int32_t count = 0;
  for (size_t i = 0; i < sequence.kv.blocks.size(); ++i) {
    const core::BlockId block = sequence.kv.blocks[i];
    // A block that two chains share has the same index in both.
    const bool hit =
        i < static_cast<size_t>(prefix.blocks) && pool_.Find(urgent.kv.names[i]) == block;
    if (!hit && pool_.references(block) == 1) ++count;
  }
  return count;
}

void KvCacheManager::Start(core::Sequence* sequence, const CachedPrefix& prefix,
                           int32_t positions) {
  const bool resumed = sequence->state == core::SequenceState::kPreempted;
  for (int32_t i = 0; i < prefix.blocks; ++i) {
    const core::BlockId block = pool_.Find(sequence->kv.names[static_cast<size_t>(i)]);
    pool_.Ref(block);
    if (!resumed) pool_.SetReused(block);
    sequence->kv.blocks.push_back(block);
  }
  DropClaims(sequence);
  if (resumed && prefix.partial < 0) ForgetTail(*sequence);
  if (prefix.partial >= 0) {
    // The tail is private and will be written again, so it leaves the cache. Take returns it, since
    // it is the last block on the free list.
    store_.Remove(prefix.partial);
    pool_.ForgetName(prefix.partial);
    sequence->kv.blocks.push_back(Take());
    if (sequence->kv.blocks.back() != prefix.partial)
      base::Check(Broken(*sequence, "lost its parked tail"));
  }
  while (static_cast<int32_t>(sequence->kv.blocks.size()) < BlocksFor(positions)) {
    sequence->kv.blocks.push_back(Take());
  }
  sequence->kv.computed = prefix.tokens;
  sequence->kv.published = prefix.blocks;
  if (!options_.caching) return;
  const int32_t full = sequence->num_ids() / base::kBlockTokens;
  NameUpTo(sequence, full);
  for (int32_t i = prefix.blocks; i < full; ++i) {
    const core::BlockName& name = sequence->kv.names[static_cast<size_t>(i)];
    if (pool_.Find(name) >= 0) continue;
    pool_.SetName(sequence->kv.blocks[static_cast<size_t>(i)], name, sequence->id());
  }
}

bool KvCacheManager::Extend(core::Sequence* sequence, int32_t positions) {
  const int32_t missing = BlocksFor(positions) - static_cast<int32_t>(sequence->kv.blocks.size());
  if (!Has(missing)) return false;
  for (int32_t i = 0; i < missing; ++i) sequence->kv.blocks.push_back(Take());
  return true;
}

void KvCacheManager::Publish(core::Sequence* sequence, int32_t index) {
  const core::BlockName& name = sequence->kv.names[static_cast<size_t>(index)];
  core::BlockId& block = sequence->kv.blocks[static_cast<size_t>(index)];
  const core::BlockId known = pool_.Find(name);
  if (known == block) {
    pool_.SetComputed(block);
  } else if (known < 0) {
    pool_.SetName(block, name, sequence->id());
    pool_.SetComputed(block);
  } else if (!pool_.pending(known)) {
    // Two sequences computed the same block, to the same bits: keep one.
    pool_.Ref(known);
    pool_.SetReused(known);
    pool_.Unref(block, {});
    block = known;
  }
  // Else the other sequence will publish it, and this block stays private.
}

core::BlockId KvCacheManager::PublishLate(core::Sequence* sequence, int32_t index) {
  const core::BlockId& block = sequence->kv.blocks[static_cast<size_t>(index)];
  if (!pool_.named(block)) Publish(sequence, index);
  return pool_.named(block) && !pool_.pending(block) ? block : -1;
}

void KvCacheManager::OnComputed(core::Sequence* sequence) {
  sequence->kv.high_water = std::max(sequence->kv.high_water, sequence->kv.computed);
  if (!options_.caching) return;
  const int32_t full = sequence->kv.computed / base::kBlockTokens;
  NameUpTo(sequence, full);
  for (; sequence->kv.published < full; ++sequence->kv.published) {
    Publish(sequence, sequence->kv.published);
  }
}

void KvCacheManager::SkipAhead(core::Sequence* sequence) {
  if (!options_.caching || sequence->request.spec.num_prompt_logprobs >= 0) return;
  const int32_t full = (sequence->num_ids() - 1) / base::kBlockTokens;
  while (sequence->kv.computed % base::kBlockTokens == 0 &&
         sequence->kv.computed / base::kBlockTokens < full) {
    const auto index = static_cast<size_t>(sequence->kv.computed / base::kBlockTokens);
    NameUpTo(sequence, static_cast<int32_t>(index) + 1);
    const core::BlockId known = pool_.Find(sequence->kv.names[index]);
    if (known < 0 || known == sequence->kv.blocks[index] || pool_.pending(known)) return;
    pool_.Ref(known);
    pool_.SetReused(known);
    pool_.Unref(sequence->kv.blocks[index], {});
    sequence->kv.blocks[index] = known;
    sequence->kv.computed += base::kBlockTokens;
    OnComputed(sequence);
  }
}

void KvCacheManager::ForgetPending(core::Sequence* sequence) {
  for (size_t i = static_cast<size_t>(sequence->kv.published); i < sequence->kv.blocks.size();
       ++i) {
    const core::BlockId block = sequence->kv.blocks[i];
    if (pool_.pending(block) && pool_.writer(block) == sequence->id()) pool_.ForgetName(block);
  }
}

void KvCacheManager::ClaimBlock(core::Sequence* sequence, core::BlockId block) {
  pool_.Claim(block);
  sequence->kv.claims.push_back({block, pool_.epoch(block)});
  if (options_.checkpoint_always && options_.tier != nullptr) store_.Add(block);
}

void KvCacheManager::Park(core::Sequence* sequence) {
  ForgetPending(sequence);
  sequence->kv.parked = options_.caching ? sequence->kv.computed : 0;
  if (options_.caching) {
    for (int32_t i = 0; i < sequence->kv.published; ++i) {
      if (const core::BlockId block = PublishLate(sequence, i); block >= 0)
        ClaimBlock(sequence, block);
    }
    if (sequence->kv.parked % base::kBlockTokens != 0) {
      const core::BlockId tail = sequence->kv.blocks[static_cast<size_t>(sequence->kv.published)];
      pool_.SetName(tail, PartialName(*sequence), sequence->id());
      pool_.SetComputed(tail);
      ClaimBlock(sequence, tail);
    }
  }
  DropReferences(sequence);
}

void KvCacheManager::Release(core::Sequence* sequence) {
  if (sequence->state == core::SequenceState::kPreempted) {
    // Stored as if the sequence had ended while it ran.
    for (int32_t i = 0; i < sequence->kv.parked / base::kBlockTokens; ++i) {
      const core::BlockId block = pool_.Find(sequence->kv.names[static_cast<size_t>(i)]);
      if (block >= 0 && !pool_.pending(block)) StoreIfMissing(block);
    }
    DropClaims(sequence);
    ForgetTail(*sequence);
    return;
  }
  ForgetPending(sequence);
  for (int32_t i = 0; i < sequence->kv.published; ++i) {
    if (const core::BlockId block = PublishLate(sequence, i); block >= 0) StoreIfMissing(block);
  }
  DropReferences(sequence);
}

void KvCacheManager::StoreIfMissing(core::BlockId block) {
  if (options_.tier == nullptr || options_.tier->Contains(pool_.name(block))) return;
  store_.Add(block);
}

void KvCacheManager::DropClaims(core::Sequence* sequence) {
  // Backwards, like references: a child must be evicted before its parent.
  for (auto it = sequence->kv.claims.rbegin(); it != sequence->kv.claims.rend(); ++it) {
    if (pool_.epoch(it->block) == it->epoch) pool_.Unclaim(it->block);
  }
  sequence->kv.claims.clear();
}

void KvCacheManager::ForgetTail(const core::Sequence& sequence) {
  if (sequence.kv.parked % base::kBlockTokens == 0) return;
  const core::BlockId block = pool_.Find(PartialName(sequence));
  if (block < 0) return;
  store_.Remove(block);
  pool_.ForgetName(block);
}

void KvCacheManager::DropReferences(core::Sequence* sequence) {
  const BlockWorth worth = WorthOf(*sequence);
  // Backwards: of one chain the last block is evicted first, since a block is useless without those
  // before it.
  for (auto it = sequence->kv.blocks.rbegin(); it != sequence->kv.blocks.rend(); ++it) {
    pool_.Unref(*it, worth);
  }
  sequence->kv.blocks.clear();
  sequence->kv.computed = 0;
  sequence->kv.published = 0;
}

bool KvCacheManager::ReadIsCheaper(const CachedPrefix& prefix) {
  if (prefix.tier_tokens == 0) return false;
  const int64_t blocks = prefix.tier_blocks + (prefix.tier_partial ? 1 : 0);
  return read_cost_.ReadIsCheaper(blocks * static_cast<int64_t>(options_.block_bytes),
                                  prefix.tier_tokens);
}

Status KvCacheManager::CheckIntegrity(std::span<const core::Sequence* const> sequences) const {
  if (Status status = pool_.CheckIntegrity(); !status.ok()) return status;
  if (Status status = CheckCounts(sequences); !status.ok()) return status;
  for (const core::Sequence* sequence : sequences) {
    if (Status status = CheckWritable(*sequence); !status.ok()) return status;
  }
  return {};
}

Status KvCacheManager::CheckCounts(std::span<const core::Sequence* const> sequences) const {
  const auto n = static_cast<size_t>(pool_.num_blocks());
  std::vector<int32_t> references(n, 0);
  std::vector<int32_t> claims(n, 0);
  for (const core::Sequence* sequence : sequences) {
    for (const core::BlockId block : sequence->kv.blocks) {
      if (block < 0 || static_cast<size_t>(block) >= n) {
        return Broken(*sequence, fmt::format("has block {}, which does not exist", block));
      }
      ++references[static_cast<size_t>(block)];
    }
    for (const core::BlockClaim& claim : sequence->kv.claims) {
      if (pool_.epoch(claim.block) == claim.epoch) ++claims[static_cast<size_t>(claim.block)];
    }
  }
  for (core::BlockId block = 0; block < pool_.num_blocks(); ++block) {
    const auto index = static_cast<size_t>(block);
    if (pool_.references(block) != references[index]) {
      return {StatusCode::kInternal,
              fmt::format("KV block {} has {} references, {} block tables name it", block,
                          pool_.references(block), references[index])};
    }
    if (pool_.claims(block) != claims[index]) {
      return {StatusCode::kInternal,
              fmt::format("KV block {} has {} claims, {} preempted sequences have one", block,
                          pool_.claims(block), claims[index])};
    }
  }
  return {};
}

Status KvCacheManager::CheckWritable(const core::Sequence& sequence) const {
  const auto first = static_cast<size_t>(sequence.kv.computed / base::kBlockTokens);
  for (size_t i = first; i < sequence.kv.blocks.size(); ++i) {
    const core::BlockId block = sequence.kv.blocks[i];
    const bool own =
        !pool_.named(block) || (pool_.pending(block) && pool_.writer(block) == sequence.id());
    if (pool_.references(block) != 1 || !own) {
      return Broken(sequence, fmt::format("would write block {}, which is shared", block));
    }
  }
  for (size_t i = 0; i < static_cast<size_t>(sequence.kv.published); ++i) {
    const core::BlockId block = sequence.kv.blocks[i];
    if (pool_.named(block) && pool_.name(block) != sequence.kv.names[i]) {
      return Broken(sequence, fmt::format("has block {} of another name", block));
    }
  }
  return {};
}

}  // namespace ropeway::kvcache
