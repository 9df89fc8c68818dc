#include "kvcache/kv_cache_manager.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace ropeway::kvcache {
namespace {

std::span<const TokenId> BlockIds(const core::Sequence& sequence, int32_t block) {
  return std::span(sequence.ids())
      .subspan(static_cast<size_t>(block) * base::kBlockTokens, base::kBlockTokens);
}

BlockWorth WorthOf(const core::Sequence& sequence) {
  return {.chain_tokens = sequence.computed, .reused = false, .retention = sequence.retention};
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
    : options_(options),
      windows_(options.windows),
      pool_(options.num_blocks, options.eviction),
      store_(options.num_blocks) {
  evicted_.reserve(static_cast<size_t>(options.num_blocks));
  if (options.events == nullptr) return;
  const auto whole = std::find(options.windows.begin(), options.windows.end(), 0);
  options.events->set_group(
      whole == options.windows.end() ? 0 : static_cast<int32_t>(whole - options.windows.begin()));
  pool_.set_watcher(options.events);
}

void KvCacheManager::Reserve(core::Sequence* sequence, int32_t positions, int32_t groups) {
  const auto blocks = static_cast<size_t>(BlocksFor(positions));
  const auto reserve = [](auto* list, size_t size) {
    if (list->capacity() < size) list->reserve(std::max(size, 2 * list->capacity()));
  };
  reserve(&sequence->kv.blocks, blocks * static_cast<size_t>(groups));
  reserve(&sequence->kv.names, blocks);
  reserve(&sequence->kv.claims, blocks * static_cast<size_t>(groups));
}

void KvCacheManager::NameUpTo(core::Sequence* sequence, int32_t blocks) const {
  for (auto i = static_cast<int32_t>(sequence->kv.names.size()); i < blocks; ++i) {
    const core::BlockName& parent = i == 0 ? sequence->cache_root : sequence->kv.names.back();
    sequence->kv.names.push_back(core::ChildName(parent, BlockIds(*sequence, i)));
  }
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

void KvCacheManager::Start(core::Sequence* sequence, const CachedPrefix& prefix,
                           int32_t positions) {
  const bool resumed = sequence->state == core::SequenceState::kPreempted;
  core::KvState& kv = sequence->kv;
  const int32_t blocks = BlocksFor(positions);
  kv.blocks.assign(Entry(blocks, 0), core::kNoBlock);
  MapHits(sequence, prefix);
  DropClaims(sequence);
  if (resumed && !prefix.partial) ForgetTail(*sequence);
  if (prefix.partial) TakeTails(sequence, prefix.blocks);
  const int32_t read_end = (prefix.blocks + prefix.tier_blocks) * base::kBlockTokens;
  for (int32_t i = prefix.blocks; i < blocks; ++i) {
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      const int32_t begin = std::max(prefix.blocks, windows_.FirstKept(group, read_end));
      if (i < begin || i >= begin + windows_.MostTaken(group, begin, positions)) continue;
      core::BlockId& block = At(sequence, i, group);
      if (block == core::kNoBlock) block = Take();
    }
  }
  sequence->computed = kv.window_at = prefix.tokens;
  kv.published = prefix.blocks;
  if (!options_.cache.prefix_caching) return;
  const int32_t full = sequence->num_ids() / base::kBlockTokens;
  NameUpTo(sequence, full);
  NamePending(sequence, prefix.blocks, full);
  AnnounceHits(*sequence, prefix.blocks);
}

// Those behind the prefix, which only a model with windows has, stay where they are while the rest
// is read.
void KvCacheManager::MapHits(core::Sequence* sequence, const CachedPrefix& prefix) {
  const bool resumed = sequence->state == core::SequenceState::kPreempted;
  const int32_t end = prefix.blocks + prefix.tier_blocks;
  for (int32_t i = 0; i < end; ++i) {
    const int32_t of = i < prefix.blocks ? prefix.blocks : end;
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      if (i < windows_.FirstKept(group, of * base::kBlockTokens)) continue;
      const core::BlockId block = pool_.Find(NameOf(*sequence, i, group));
      if (block < 0 || pool_.pending(block)) continue;
      pool_.Ref(block);
      if (!resumed) pool_.SetReused(block);
      At(sequence, i, group) = block;
    }
  }
}

// A tail is private and will be written again, so it leaves the cache. Take returns it, since it is
// the last block on the free list.
void KvCacheManager::TakeTails(core::Sequence* sequence, int32_t index) {
  for (int32_t group = 0; group < windows_.groups(); ++group) {
    const core::BlockId tail = pool_.Find(core::GroupName(PartialName(*sequence), group));
    store_.Remove(tail);
    pool_.ForgetName(tail);
    At(sequence, index, group) = Take();
    if (At(sequence, index, group) == tail) continue;
    base::Check(
        {StatusCode::kInternal, fmt::format("sequence {} lost its parked tail", sequence->id())});
  }
}

void KvCacheManager::NamePending(core::Sequence* sequence, int32_t begin, int32_t end) {
  for (int32_t i = begin; i < end; ++i) {
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      const core::BlockId block = At(sequence, i, group);
      if (block == core::kNoBlock || pool_.named(block)) continue;
      const core::BlockName name = NameOf(*sequence, i, group);
      if (pool_.Find(name) < 0) pool_.SetName(block, name, sequence->id());
    }
  }
}

int32_t KvCacheManager::NumMissing(const core::Sequence& sequence, int32_t begin,
                                   int32_t end) const {
  const std::vector<core::BlockId>& blocks = sequence.kv.blocks;
  int32_t missing = 0;
  for (size_t entry = Entry(begin, 0); entry < Entry(end, 0); ++entry) {
    if (entry >= blocks.size() || blocks[entry] == core::kNoBlock) ++missing;
  }
  return missing;
}

void KvCacheManager::Fill(core::Sequence* sequence, int32_t begin, int32_t end) {
  std::vector<core::BlockId>& blocks = sequence->kv.blocks;
  if (blocks.size() < Entry(end, 0)) blocks.resize(Entry(end, 0), core::kNoBlock);
  for (size_t entry = Entry(begin, 0); entry < Entry(end, 0); ++entry) {
    if (blocks[entry] == core::kNoBlock) blocks[entry] = Take();
  }
}

bool KvCacheManager::Extend(core::Sequence* sequence, int32_t positions) {
  const int32_t begin = sequence->computed / base::kBlockTokens;
  const int32_t end = BlocksFor(positions);
  if (!Has(NumMissing(*sequence, begin, end))) return false;
  Fill(sequence, begin, end);
  return true;
}

int32_t KvCacheManager::Cover(core::Sequence* sequence, int32_t tokens) {
  if (!windows_.any()) return tokens;
  const int32_t computed = sequence->computed;
  const int32_t begin = computed / base::kBlockTokens;
  const int32_t most = BlocksFor(computed + tokens);
  int32_t end = begin;
  while (end < most && Has(NumMissing(*sequence, end, end + 1))) {
    Fill(sequence, end, end + 1);
    ++end;
  }
  if (options_.cache.prefix_caching) {
    NamePending(sequence, begin, std::min(end, sequence->num_ids() / base::kBlockTokens));
  }
  return std::clamp(end * base::kBlockTokens - computed, 0, tokens);
}

void KvCacheManager::Publish(core::Sequence* sequence, int32_t index, int32_t group) {
  core::BlockId& block = At(sequence, index, group);
  if (block == core::kNoBlock) return;
  const core::BlockName name = NameOf(*sequence, index, group);
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
  } else {
    return;  // The other sequence will publish it, and this block stays private.
  }
  Announce(*sequence, index, group);
}

void KvCacheManager::Announce(const core::Sequence& sequence, int32_t index, int32_t group) const {
  if (options_.events == nullptr || group != options_.events->group()) return;
  const std::vector<core::BlockName>& names = sequence.kv.names;
  const auto i = static_cast<size_t>(index);
  options_.events->Stored(names[i], i > 0 ? &names[i - 1] : nullptr, BlockIds(sequence, index));
}

// They are known, unless readers had to forget all since.
void KvCacheManager::AnnounceHits(const core::Sequence& sequence, int32_t end) const {
  if (options_.events == nullptr) return;
  const int32_t group = options_.events->group();
  for (int32_t i = 0; i < end; ++i) {
    if (sequence.kv.blocks[Entry(i, group)] != core::kNoBlock) Announce(sequence, i, group);
  }
}

core::BlockId KvCacheManager::PublishLate(core::Sequence* sequence, int32_t index, int32_t group) {
  const core::BlockId& block = At(sequence, index, group);
  if (block == core::kNoBlock) return -1;
  if (!pool_.named(block)) Publish(sequence, index, group);
  return pool_.named(block) && !pool_.pending(block) ? block : -1;
}

void KvCacheManager::OnComputed(core::Sequence* sequence) {
  core::KvState& kv = sequence->kv;
  kv.high_water = std::max(kv.high_water, sequence->computed);
  if (options_.cache.prefix_caching) {
    const int32_t full = sequence->computed / base::kBlockTokens;
    NameUpTo(sequence, full);
    for (; kv.published < full; ++kv.published) {
      for (int32_t group = 0; group < windows_.groups(); ++group) {
        Publish(sequence, kv.published, group);
      }
    }
  }
  GiveBackUnseen(sequence);
}

void KvCacheManager::GiveBackUnseen(core::Sequence* sequence) {
  core::KvState& kv = sequence->kv;
  for (int32_t group = 0; group < windows_.groups(); ++group) {
    const int32_t kept = windows_.FirstKept(group, sequence->computed);
    for (int32_t i = windows_.FirstKept(group, kv.window_at); i < kept; ++i) {
      core::BlockId& block = At(sequence, i, group);
      if (block != core::kNoBlock) pool_.Unref(block, WorthOf(*sequence));
      block = core::kNoBlock;
    }
  }
  kv.window_at = sequence->computed;
}

void KvCacheManager::SkipAhead(core::Sequence* sequence) {
  if (!options_.cache.prefix_caching || sequence->spec.needs_all_rows()) return;
  const int32_t full = (sequence->num_ids() - 1) / base::kBlockTokens;
  while (sequence->computed % base::kBlockTokens == 0 &&
         sequence->computed / base::kBlockTokens < full) {
    const int32_t index = sequence->computed / base::kBlockTokens;
    NameUpTo(sequence, index + 1);
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      const core::BlockId known = pool_.Find(NameOf(*sequence, index, group));
      if (known < 0 || known == At(sequence, index, group) || pool_.pending(known)) return;
    }
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      const core::BlockId known = pool_.Find(NameOf(*sequence, index, group));
      core::BlockId& block = At(sequence, index, group);
      pool_.Ref(known);
      pool_.SetReused(known);
      if (block != core::kNoBlock) pool_.Unref(block, {});
      block = known;
    }
    sequence->computed += base::kBlockTokens;
    OnComputed(sequence);
  }
}

void KvCacheManager::ForgetPending(core::Sequence* sequence) {
  for (size_t i = Entry(sequence->kv.published, 0); i < sequence->kv.blocks.size(); ++i) {
    const core::BlockId block = sequence->kv.blocks[i];
    if (block == core::kNoBlock) continue;
    if (pool_.pending(block) && pool_.writer(block) == sequence->id()) pool_.ForgetName(block);
  }
}

void KvCacheManager::ReadEnded(core::Sequence* sequence) {
  // Without windows the table has only its own blocks there.
  if (!windows_.any()) return;
  core::KvState& kv = sequence->kv;
  for (size_t i = Entry(sequence->computed / base::kBlockTokens, 0); i < kv.blocks.size(); ++i) {
    if (kv.blocks[i] == core::kNoBlock || !IsShared(*sequence, kv.blocks[i])) continue;
    pool_.Unref(kv.blocks[i], WorthOf(*sequence));
    kv.blocks[i] = core::kNoBlock;
  }
}

void KvCacheManager::ClaimBlock(core::Sequence* sequence, core::BlockId block) {
  pool_.Claim(block);
  sequence->kv.claims.push_back({block, pool_.epoch(block)});
  const bool at_once = options_.cache.preempt_checkpoint == "always";
  if (at_once && options_.tier != nullptr) store_.Add(block);
}

void KvCacheManager::Park(core::Sequence* sequence) {
  ForgetPending(sequence);
  core::KvState& kv = sequence->kv;
  kv.parked = options_.cache.prefix_caching ? sequence->computed : 0;
  for (int32_t i = 0; options_.cache.prefix_caching && i < kv.published; ++i) {
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      const core::BlockId block = PublishLate(sequence, i, group);
      if (block >= 0) ClaimBlock(sequence, block);
    }
  }
  for (int32_t group = 0; HasParkedTail(*sequence) && group < windows_.groups(); ++group) {
    const core::BlockId tail = At(sequence, kv.published, group);
    pool_.SetName(tail, core::GroupName(PartialName(*sequence), group), sequence->id());
    pool_.SetComputed(tail);
    ClaimBlock(sequence, tail);
  }
  DropReferences(sequence);
}

void KvCacheManager::Release(core::Sequence* sequence) {
  // One that is preempted is stored as if it had ended while it ran.
  const bool runs = sequence->state != core::SequenceState::kPreempted;
  const int32_t computed = runs ? sequence->computed : sequence->kv.parked;
  const int32_t full = runs ? sequence->kv.published : computed / base::kBlockTokens;
  if (runs) ForgetPending(sequence);
  for (int32_t i = 0; i < full; ++i) {
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      if (runs) PublishLate(sequence, i, group);
      if (!IsWorthStoring(*sequence, computed, i, group)) continue;
      const core::BlockId block = pool_.Find(NameOf(*sequence, i, group));
      if (block >= 0 && !pool_.pending(block)) StoreIfMissing(block);
    }
  }
  if (runs) {
    DropReferences(sequence);
  } else {
    DropClaims(sequence);
    ForgetTail(*sequence);
  }
}

bool KvCacheManager::IsWorthStoring(const core::Sequence& sequence, int32_t computed, int32_t index,
                                    int32_t group) const {
  const int32_t prompt = sequence.prompt_len - 1;
  return index >= windows_.FirstKept(group, computed) ||
         (index >= windows_.FirstKept(group, prompt) && index < prompt / base::kBlockTokens);
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
  if (!HasParkedTail(sequence)) return;
  for (int32_t group = 0; group < windows_.groups(); ++group) {
    const core::BlockId block = pool_.Find(core::GroupName(PartialName(sequence), group));
    if (block < 0) continue;
    store_.Remove(block);
    pool_.ForgetName(block);
  }
}

void KvCacheManager::DropReferences(core::Sequence* sequence) {
  core::KvState& kv = sequence->kv;
  const BlockWorth worth = WorthOf(*sequence);
  // Backwards, so that the last block of a chain is evicted first: a block is useless without those
  // before it.
  for (auto it = kv.blocks.rbegin(); it != kv.blocks.rend(); ++it) {
    if (*it != core::kNoBlock) pool_.Unref(*it, worth);
  }
  kv.blocks.clear();
  sequence->computed = 0;
  kv.window_at = 0;
  kv.published = 0;
}

}  // namespace ropeway::kvcache
