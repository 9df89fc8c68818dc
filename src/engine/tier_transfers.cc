#include "engine/tier_transfers.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ropeway::engine {
namespace {

// The most of the tier's memory that blocks stored for later may take, and evicted ones; the rest
// of its bound is for blocks that a preempted sequence claims.
constexpr uint64_t kMostPendingBytes = uint64_t{24} << 20;
constexpr uint64_t kMostSpilledBytes = uint64_t{96} << 20;

// Taken from the tier at once.
constexpr size_t kReadsAtOnce = 16;

}  // namespace

TierTransfers::TierTransfers(kvcache::KvTier* tier, executor::Executor* executor,
                             kvcache::KvCacheManager* kv, const base::Clock* clock,
                             size_t block_bytes, int max_reads, DoneFn done)
    : tier_(tier), executor_(executor), kv_(kv), clock_(clock), done_(std::move(done)) {
  if (tier_ == nullptr) return;
  buffer_.resize(block_bytes);
  reads_.reserve(static_cast<size_t>(max_reads));
}

bool TierTransfers::Put(core::BlockId block, const core::BlockName& name) {
  // A lost device is the next step's failure.
  if (!executor_->ReadBlock(block, buffer_).ok()) return false;
  try {
    if (!tier_->Put(name, buffer_)) return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  unflushed_ = true;
  ++counts_.stored_blocks;
  return true;
}

void TierTransfers::StoreEvicted() {
  if (tier_ == nullptr || kv_->evicted().empty()) return;
  const kvcache::KvTierUsage usage = tier_->Usage();
  uint64_t pending = usage.pending_bytes;
  // The tier's bound on its memory bounds the copies here; claimed blocks may use all of it.
  bool takes_more = true;
  for (const kvcache::BlockPool::Evicted& evicted : kv_->evicted()) {
    if (tier_->Contains(evicted.name)) continue;
    bool taken = false;
    if (takes_more && (evicted.claimed || (usage.on && pending <= kMostSpilledBytes))) {
      taken = takes_more = Put(evicted.block, evicted.name);
      pending += buffer_.size();
    }
    ++(taken ? counts_.spilled_blocks : counts_.lost_blocks);
  }
  kv_->ClearEvicted();
}

void TierTransfers::Begin(core::Sequence* sequence, int32_t blocks, bool tail) {
  try {
    std::vector<kvcache::KvPage> pages = kv_->PagesToRead(*sequence, blocks, tail);
    std::vector<core::BlockName> names;
    names.reserve(pages.size());
    for (const kvcache::KvPage& page : pages) names.push_back(page.name);
    if (reads_.size() < reads_.capacity() && tier_->Get(next_ticket_, std::move(names))) {
      sequence->kv.read_ticket = next_ticket_++;
      const auto bytes = static_cast<int64_t>(pages.size() * kv_->options().block_bytes);
      reads_.push_back({.sequence = sequence,
                        .pages = std::move(pages),
                        .begun = clock_->Now(),
                        .limit = kv_->read_cost().ReadLimit(bytes)});
      return;
    }
  } catch (const std::bad_alloc&) {  // The blocks are computed instead.
  }
  ++counts_.failed_reads;
  Done(sequence);
}

std::vector<TierTransfers::Read>::iterator TierTransfers::Find(uint64_t ticket) {
  return std::find_if(reads_.begin(), reads_.end(), [ticket](const Read& read) {
    return read.sequence->kv.read_ticket == ticket;
  });
}

void TierTransfers::Cancel(core::Sequence* sequence) {
  if (sequence->kv.read_ticket == 0) return;
  const auto read = Find(sequence->kv.read_ticket);
  tier_->Cancel(sequence->kv.read_ticket);
  sequence->kv.read_ticket = 0;
  if (read != reads_.end()) Drop(read);
}

void TierTransfers::Drop(std::vector<Read>::iterator read) {
  if (read != reads_.end() - 1) *read = std::move(reads_.back());
  reads_.pop_back();
}

void TierTransfers::Done(core::Sequence* sequence) {
  kv_->ReadEnded(sequence);
  done_(sequence);
}

const core::Sequence* TierTransfers::oldest() const {
  const auto read = std::min_element(
      reads_.begin(), reads_.end(), [](const Read& a, const Read& b) { return a.begun < b.begun; });
  return read == reads_.end() ? nullptr : read->sequence;
}

void TierTransfers::TakeReads(base::Duration last_step) {
  if (reads_.empty()) return;
  const base::Duration most = std::max(kTakeTime, last_step / 8);
  const base::TimePoint begin = clock_->Now();
  base::TimePoint now = begin;
  do {
    const std::vector<kvcache::KvRead> blocks = tier_->TakeReads(kReadsAtOnce);
    if (blocks.empty()) break;
    last_block_ = now;
    for (const kvcache::KvRead& block : blocks) Take(block);
    now = clock_->Now();
  } while (now - begin < most);
  for (size_t i = 0; i < reads_.size();) {
    if (now - std::max(reads_[i].begun, last_block_) < reads_[i].limit) {
      ++i;
      continue;
    }
    tier_->Cancel(reads_[i].sequence->kv.read_ticket);
    ++counts_.late_reads;
    // Its time counts for the predicted cost even if nothing arrived.
    reads_[i].bytes = std::max(reads_[i].bytes, static_cast<int64_t>(buffer_.size()));
    End(reads_.begin() + static_cast<int64_t>(i));
  }
}

void TierTransfers::Take(const kvcache::KvRead& block) {
  const auto read = Find(block.ticket);
  if (read == reads_.end()) return;
  core::Sequence* sequence = read->sequence;
  if (block.bytes.size() != kv_->options().block_bytes) {
    if (!block.bytes.empty()) tier_->Cancel(block.ticket);
    End(read);
    return;
  }
  const kvcache::KvPage& page = read->pages[read->next++];
  executor_->WriteBlock(page.block, block.bytes);
  sequence->computed = page.computed;
  if (page.tail) tier_->Erase(page.name);
  read->bytes += static_cast<int64_t>(block.bytes.size());
  read->took += block.took;
  ++counts_.fetched_blocks;
  kv_->OnComputed(sequence);
  if (read->next == read->pages.size()) End(read);
}

void TierTransfers::End(std::vector<Read>::iterator read) {
  const base::TimePoint now = clock_->Now();
  counts_.fetch_time += now - read->begun;
  if (read->next < read->pages.size()) ++counts_.failed_reads;
  // The tier's work counts, not the time in which a block waited for a step to take it. If the tier
  // does not report it: it reads in order, and its work for other reads is not this one's.
  const base::Duration waited = now - std::max(read->begun, last_end_);
  kv_->read_cost().OnRead(read->bytes, read->took > base::Duration{} ? read->took : waited);
  last_end_ = now;
  core::Sequence* sequence = read->sequence;
  sequence->kv.read_ticket = 0;
  Drop(read);
  Done(sequence);
}

bool TierTransfers::StoreSome(int max_blocks) {
  if (!anything_to_store()) return false;
  const kvcache::KvTierUsage usage = tier_->Usage();
  if (!usage.on) {
    kv_->ForgetToStore();
    unflushed_ = false;
    return false;
  }
  uint64_t pending = usage.pending_bytes;
  for (int i = 0; i < max_blocks; ++i, pending += buffer_.size()) {
    if (pending > kMostPendingBytes) return false;
    core::BlockId block = -1;
    if (!kv_->NextToStore(&block)) break;
    if (!Put(block, kv_->pool().name(block))) {
      kv_->StoreLater(block);
      return false;
    }
  }
  if (kv_->anything_to_store()) return true;
  if (unflushed_) tier_->Flush();
  unflushed_ = false;
  return false;
}

}  // namespace ropeway::engine
