// The part of KvCacheManager that checks whether pool and sequences agree.
#include <fmt/format.h>

#include <string>

#include "kvcache/kv_cache_manager.h"

namespace ropeway::kvcache {
namespace {

Status Broken(const core::Sequence& sequence, const std::string& what) {
  return {StatusCode::kInternal, fmt::format("sequence {} {}", sequence.id(), what)};
}

}  // namespace

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
                                          kept ? "has lost" : "keeps the unseen", i, group));
    }
  }
  return {};
}

}  // namespace ropeway::kvcache
