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

// The most that is under way from the device, if it is more than one block.
constexpr uint64_t kMostUnderWayBytes = uint64_t{16} << 20;

// Taken from the tier at once.
constexpr size_t kReadsAtOnce = 16;

}  // namespace

TierTransfers::TierTransfers(kvcache::KvTier* tier, executor::Executor* executor,
                             kvcache::KvCacheManager* kv, const base::Clock* clock, int max_reads,
                             DoneFn done)
    : tier_(tier), executor_(executor), kv_(kv), clock_(clock), done_(std::move(done)) {
  if (tier_ == nullptr) return;
  reads_.reserve(static_cast<size_t>(max_reads));
}

bool TierTransfers::BeginStore(core::BlockId block, const core::BlockName& name, bool evicted) {
  const bool full = !stores_.empty() && store_bytes() + block_bytes() > kMostUnderWayBytes;
  if (full && !HandOver(executor_->FinishReads().ok())) return false;
  try {
    stores_.push_back({block, name, evicted, std::vector<std::byte>(block_bytes())});
  } catch (const std::bad_alloc&) {
    return false;
  }
  executor_->ReadBlock(block, stores_.back().bytes);
  return true;
}

bool TierTransfers::HandOver(bool arrived) {
  bool taken = arrived;
  for (Store& store : stores_) {
    taken = taken && Put(&store);
    if (store.evicted) {
      ++(taken ? counts_.spilled_blocks : counts_.lost_blocks);
    } else if (!taken) {
      kv_->StoreLater(store.block);
    }
  }
  stores_.clear();
  if (!taken) flushes_ = false;
  return taken;
}

bool TierTransfers::Put(Store* store) {
  try {
    if (!tier_->Put(store->name, std::move(store->bytes))) return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  unflushed_ = true;
  ++counts_.stored_blocks;
  return true;
}

bool TierTransfers::FinishStores() {
  // A lost device is the next step's failure.
  const bool taken = stores_.empty() || HandOver(executor_->FinishReads().ok());
  if (flushes_ && unflushed_) {
    tier_->Flush();
    unflushed_ = false;
  }
  flushes_ = false;
  return taken;
}

void TierTransfers::DropStores() {
  // Until then the device may write into them.
  if (!stores_.empty()) static_cast<void>(executor_->FinishReads());
  HandOver(false);
}

void TierTransfers::StoreEvicted() {
  if (tier_ == nullptr || kv_->evicted().empty()) return;
  const kvcache::KvTierUsage usage = tier_->Usage();
  uint64_t pending = usage.pending_bytes + store_bytes();
  // The tier's bound on its memory bounds what is read here; claimed blocks may use all of it.
  bool takes_more = true;
  for (const kvcache::BlockPool::Evicted& evicted : kv_->evicted()) {
    if (tier_->Contains(evicted.name)) continue;
    bool begun = false;
    if (takes_more && (evicted.claimed || (usage.on && pending <= kMostSpilledBytes))) {
      begun = takes_more = BeginStore(evicted.block, evicted.name, true);
      pending += block_bytes();
    }
    if (!begun) ++counts_.lost_blocks;
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
      const auto bytes = static_cast<int64_t>(pages.size() * block_bytes());
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
    reads_[i].bytes = std::max(reads_[i].bytes, static_cast<int64_t>(block_bytes()));
    End(reads_.begin() + static_cast<int64_t>(i));
  }
}

void TierTransfers::Take(const kvcache::KvRead& block) {
  const auto read = Find(block.ticket);
  if (read == reads_.end()) return;
  core::Sequence* sequence = read->sequence;
  if (block.bytes.size() != block_bytes()) {
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
  uint64_t pending = usage.pending_bytes + store_bytes();
  for (int i = 0; i < max_blocks; ++i, pending += block_bytes()) {
    if (pending > kMostPendingBytes) return false;
    core::BlockId block = -1;
    if (!kv_->NextToStore(&block)) break;
    if (!BeginStore(block, kv_->pool().name(block), false)) {
      kv_->StoreLater(block);
      return false;
    }
  }
  if (kv_->anything_to_store()) return true;
  flushes_ = true;
  return false;
}

}  // namespace ropeway::engine
