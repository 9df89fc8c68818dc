// The part of KvCacheManager that looks, and changes nothing: hits, what fits, what is read, and
// whether pool and sequences agree.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "kvcache/kv_cache_manager.h"

namespace ropeway::kvcache {
namespace {

// Where a beginning of [begin, end) ends for which `is` holds, and for nothing behind it.
template <typename Is>
int32_t FirstWithout(int32_t begin, int32_t end, const Is& is) {
  while (begin < end) {
    const int32_t middle = begin + (end - begin) / 2;
    if (is(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// The last of the blocks [begin, end) that the row behind them sees and that is not there in some
// group with a window; has(block, group). begin - 1: none is missing.
template <typename Has>
int32_t LastMissing(const KvWindows& windows, int32_t begin, int32_t end, const Has& has) {
  int32_t missing = begin - 1;
  for (int32_t group = 0; group < windows.groups(); ++group) {
    if (windows.window(group) == 0) continue;
    const int32_t first = windows.FirstKept(group, end * base::kBlockTokens);
    for (int32_t i = end - 1; i > missing && i >= first; --i) {
      if (!has(i, group)) missing = i;
    }
  }
  return missing;
}

// The longest prefix of at most `most` blocks behind which a sequence can go on, if it can behind
// `begin` blocks.
template <typename Has>
int32_t LongestPrefix(const KvWindows& windows, int32_t begin, int32_t most, const Has& has) {
  const auto has_whole = [&](int32_t block) {
    for (int32_t group = 0; group < windows.groups(); ++group) {
      if (windows.window(group) == 0 && !has(block, group)) return false;
    }
    return true;
  };
  int32_t end = begin;
  while (end < most && has_whole(end)) ++end;
  while (end > begin) {
    // A prefix that ends behind the missing block, but before `end`, needs that one too.
    const int32_t missing = LastMissing(windows, begin, end, has);
    if (missing < begin) break;
    end = missing;
  }
  return end;
}

Status Broken(const core::Sequence& sequence, const std::string& what) {
  return {StatusCode::kInternal, fmt::format("sequence {} {}", sequence.id(), what)};
}

}  // namespace

core::BlockName KvCacheManager::PartialName(const core::Sequence& sequence) {
  const auto full = static_cast<size_t>(sequence.kv.parked / base::kBlockTokens);
  const auto tail = static_cast<size_t>(sequence.kv.parked % base::kBlockTokens);
  const core::BlockName& parent = full == 0 ? sequence.cache_root : sequence.kv.names[full - 1];
  const auto ids = std::span(sequence.ids()).subspan(full * base::kBlockTokens, tail);
  const std::array<TokenId, 2> owner = {static_cast<TokenId>(sequence.id()),
                                        static_cast<TokenId>(sequence.id() >> 32)};
  return core::ChildName(core::ChildName(parent, ids), owner);
}

int32_t KvCacheManager::MostHits(const core::Sequence& sequence) const {
  // The next token is sampled from the last id's row, which must be computed.
  const int32_t most = sequence.num_ids() - 1;
  if (!sequence.spec.needs_all_rows()) return most;
  if (sequence.preemptions == 0) return 0;
  // The row before the first id that is not scored must be computed, and the first that is not
  // pooled.
  if (sequence.spec.pooling) return std::min(most, sequence.left_to_pool().begin);
  if (sequence.scored >= sequence.prompt_len) return most;
  return std::max(0, sequence.scored - 1);
}

CachedPrefix KvCacheManager::Lookup(core::Sequence* sequence) const {
  CachedPrefix prefix;
  if (!options_.cache.prefix_caching) return prefix;
  const int32_t full = MostHits(*sequence) / base::kBlockTokens;
  NameUpTo(sequence, full);
  const auto has = [&](int32_t index, int32_t group) {
    const core::BlockId block = pool_.Find(NameOf(*sequence, index, group));
    return block >= 0 && !pool_.pending(block);
  };
  prefix.blocks = LongestPrefix(windows_, 0, full, has);
  prefix.tokens = prefix.blocks * base::kBlockTokens;
  prefix.pending_end = PendingEnd(*sequence, prefix.blocks, full);
  if (prefix.pending_end > 0) return prefix;
  if (HasTail(*sequence) && prefix.blocks == sequence->kv.parked / base::kBlockTokens) {
    const core::BlockName name = PartialName(*sequence);
    prefix.partial = true;
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      prefix.partial = prefix.partial && pool_.Find(core::GroupName(name, group)) >= 0;
    }
    if (prefix.partial) prefix.tokens = sequence->kv.parked;
  }
  return prefix;
}

// Group 0 tells of all: a sequence names and publishes the blocks of all groups together.
int32_t KvCacheManager::PendingEnd(const core::Sequence& sequence, int32_t begin,
                                   int32_t full) const {
  if (begin == full) return 0;
  core::BlockId block = pool_.Find(NameOf(sequence, begin, 0));
  if (block < 0 || !pool_.pending(block)) return 0;
  const uint64_t writer = pool_.writer(block);
  int32_t end = begin + 1;
  for (; end < full; ++end) {
    block = pool_.Find(NameOf(sequence, end, 0));
    if (block < 0 || !pool_.pending(block) || pool_.writer(block) != writer) break;
  }
  return end;
}

bool KvCacheManager::HasTail(const core::Sequence& sequence) const {
  return sequence.state == core::SequenceState::kPreempted && HasParkedTail(sequence) &&
         sequence.kv.parked <= MostHits(sequence);
}

void KvCacheManager::LookInTier(const core::Sequence& sequence, CachedPrefix* prefix) const {
  prefix->ForgetTier();
  if (options_.tier == nullptr || !options_.cache.prefix_caching || prefix->partial) return;
  const int32_t full = MostHits(sequence) / base::kBlockTokens;
  const int32_t begin = std::max(prefix->blocks, prefix->pending_end);
  // What the row behind the pending blocks sees may be gone when these are computed.
  if (windows_.any() && begin > prefix->blocks) return;
  const auto has = [&](int32_t index, int32_t group) {
    const core::BlockName name = NameOf(sequence, index, group);
    const core::BlockId block = pool_.Find(name);
    if (block < 0) return options_.tier->Contains(name);
    // Without windows, SkipAhead takes blocks that are in the pool when the read has ended.
    return windows_.any() && !pool_.pending(block);
  };
  const int32_t end = LongestPrefix(windows_, begin, full, has);
  prefix->tier_blocks = end - begin;
  prefix->tier_tokens = prefix->tier_blocks * base::kBlockTokens;
  for (int32_t i = begin; i < end; ++i) {
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      const bool kept = i >= windows_.FirstKept(group, end * base::kBlockTokens);
      if (kept && pool_.Find(NameOf(sequence, i, group)) < 0) ++prefix->tier_reads;
    }
  }
  if (!HasTail(sequence) || end != sequence.kv.parked / base::kBlockTokens) return;
  const core::BlockName name = PartialName(sequence);
  for (int32_t group = 0; group < windows_.groups(); ++group) {
    if (!options_.tier->Contains(core::GroupName(name, group))) return;
  }
  prefix->tier_partial = true;
  prefix->tier_tokens += sequence.kv.parked % base::kBlockTokens;
  prefix->tier_reads += windows_.groups();
}

bool KvCacheManager::StillPending(const core::Sequence& sequence, uint64_t* writer) const {
  const core::BlockId block = pool_.Find(NameOf(sequence, sequence.sched.follows - 1, 0));
  if (block < 0 || !pool_.pending(block)) return false;
  *writer = pool_.writer(block);
  return true;
}

bool KvCacheManager::Fits(const core::Sequence& sequence, const CachedPrefix& prefix,
                          int32_t positions, int32_t more) const {
  int32_t needed = 0;
  for (int32_t group = 0; group < windows_.groups(); ++group) {
    needed += windows_.MostTaken(group, prefix.blocks, positions);
    // Cached hits can no longer be evicted.
    for (int32_t i = windows_.FirstKept(group, prefix.tokens); i < prefix.blocks; ++i) {
      if (pool_.references(pool_.Find(NameOf(sequence, i, group))) == 0) ++needed;
    }
  }
  return Has(needed - more);
}

int32_t KvCacheManager::HeldAlone(const core::Sequence& sequence, const core::Sequence& urgent,
                                  const CachedPrefix& prefix) const {
  const auto groups = static_cast<size_t>(windows_.groups());
  int32_t count = 0;
  for (size_t entry = 0; entry < sequence.kv.blocks.size(); ++entry) {
    const core::BlockId block = sequence.kv.blocks[entry];
    if (block == core::kNoBlock) continue;
    // A block that two chains share has the same index in both.
    const auto i = static_cast<int32_t>(entry / groups);
    const auto group = static_cast<int32_t>(entry % groups);
    const bool hit = i < prefix.blocks && i >= windows_.FirstKept(group, prefix.tokens) &&
                     pool_.Find(NameOf(urgent, i, group)) == block;
    if (!hit && pool_.references(block) == 1) ++count;
  }
  return count;
}

double KvCacheManager::HeldBlocks(const core::Sequence& sequence) const {
  const auto blocks = static_cast<int32_t>(sequence.kv.blocks.size()) / windows_.groups();
  double held = 0;
  for (int32_t group = 0; group < windows_.groups(); ++group) {
    const auto block = [&](int32_t i) { return sequence.kv.blocks[Entry(i, group)]; };
    if (windows_.window(group) > 0) {
      // They are few, but what a read brings lies behind a gap, and may be far from its beginning.
      for (int32_t i = windows_.FirstKept(group, sequence.computed); i < blocks; ++i) {
        if (block(i) != core::kNoBlock) held += 1.0 / pool_.references(block(i));
      }
      continue;
    }
    // Sequences share beginnings: the number of references falls along the table. What a read that
    // failed leaves missing counts as the sequence's own: it takes that next.
    const int32_t alone = FirstWithout(0, blocks, [&](int32_t i) {
      return block(i) != core::kNoBlock && pool_.references(block(i)) > 1;
    });
    held += blocks - alone;
    if (alone > 0) held += static_cast<double>(alone) / pool_.references(block(alone - 1));
  }
  return held;
}

bool KvCacheManager::ReadIsCheaper(const CachedPrefix& prefix) {
  if (prefix.tier_reads == 0) return false;
  return read_cost_.ReadIsCheaper(prefix.tier_reads * static_cast<int64_t>(options_.block_bytes),
                                  prefix.tier_tokens);
}

std::vector<KvPage> KvCacheManager::PagesToRead(const core::Sequence& sequence, int32_t blocks,
                                                bool tail) const {
  const core::KvState& kv = sequence.kv;
  const int32_t begin = sequence.computed / base::kBlockTokens;
  const int32_t end = begin + blocks;
  std::vector<KvPage> pages;
  pages.reserve(Entry(blocks + 1, 0));
  for (int32_t i = begin; i < end; ++i) {
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      const core::BlockId block = kv.blocks[Entry(i, group)];
      if (block == core::kNoBlock || IsShared(sequence, block)) continue;
      // With windows, a row behind some of the blocks does not see what a row between them does.
      const int32_t computed = windows_.any() ? sequence.computed : (i + 1) * base::kBlockTokens;
      pages.push_back({NameOf(sequence, i, group), block, computed, false});
    }
  }
  for (int32_t group = 0; tail && group < windows_.groups(); ++group) {
    pages.push_back({core::GroupName(PartialName(sequence), group), kv.blocks[Entry(end, group)],
                     sequence.computed, true});
  }
  if (!pages.empty()) pages.back().computed = tail ? kv.parked : end * base::kBlockTokens;
  return pages;
}

Status KvCacheManager::CheckIntegrity(std::span<const core::Sequence* const> sequences) const {
  if (Status status = pool_.CheckIntegrity(); !status.ok()) return status;
  if (Status status = CheckCounts(sequences); !status.ok()) return status;
  for (const core::Sequence* sequence : sequences) {
    if (Status status = CheckWritable(*sequence); !status.ok()) return status;
    if (Status status = CheckKept(*sequence); !status.ok()) return status;
  }
  return {};
}

Status KvCacheManager::CheckCounts(std::span<const core::Sequence* const> sequences) const {
  const auto n = static_cast<size_t>(pool_.num_blocks());
  std::vector<int32_t> references(n, 0);
  std::vector<int32_t> claims(n, 0);
  for (const core::Sequence* sequence : sequences) {
    for (const core::BlockId block : sequence->kv.blocks) {
      if (block == core::kNoBlock && windows_.any()) continue;
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
              fmt::format("KV block {} has {} references, but {} block tables have it", block,
                          pool_.references(block), references[index])};
    }
    if (pool_.claims(block) != claims[index]) {
      return {StatusCode::kInternal,
              fmt::format("KV block {} has {} claims, but {} preempted sequences have one", block,
                          pool_.claims(block), claims[index])};
    }
  }
  return {};
}

Status KvCacheManager::CheckWritable(const core::Sequence& sequence) const {
  const core::KvState& kv = sequence.kv;
  // While it fetches, blocks of the pool behind its prefix wait for the others.
  const bool writes = sequence.state != core::SequenceState::kFetching || !windows_.any();
  for (size_t i = Entry(sequence.computed / base::kBlockTokens, 0); i < kv.blocks.size(); ++i) {
    const core::BlockId block = kv.blocks[i];
    if (block == core::kNoBlock || (!writes && IsShared(sequence, block))) continue;
    if (pool_.references(block) != 1 || IsShared(sequence, block)) {
      return Broken(sequence, fmt::format("would write block {}, which is shared", block));
    }
  }
  for (int32_t i = 0; i < kv.published; ++i) {
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      const core::BlockId block = kv.blocks[Entry(i, group)];
      if (block == core::kNoBlock || !pool_.named(block)) continue;
      if (pool_.name(block) != NameOf(sequence, i, group)) {
        return Broken(sequence, fmt::format("has block {} of another name", block));
      }
    }
  }
  return {};
}

// What its next row sees is there, and what no row sees any more is not.
Status KvCacheManager::CheckKept(const core::Sequence& sequence) const {
  const core::KvState& kv = sequence.kv;
  if (!windows_.any() || kv.blocks.size() < Entry(BlocksFor(sequence.computed), 0)) return {};
  for (int32_t i = 0; i < BlocksFor(sequence.computed); ++i) {
    for (int32_t group = 0; group < windows_.groups(); ++group) {
      const bool kept = i >= windows_.FirstKept(group, sequence.computed);
      if (kept == (kv.blocks[Entry(i, group)] != core::kNoBlock)) continue;
      return Broken(sequence, fmt::format("{} block {} of group {}",
                                          kept ? "has lost" : "has not freed", i, group));
    }
  }
  return {};
}

}  // namespace ropeway::kvcache
