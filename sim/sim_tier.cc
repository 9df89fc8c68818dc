#include "sim_tier.h"

#include <algorithm>

namespace ropeway::sim {

BlockName SimTier::KeyOf(const BlockName& name) const {
  if (plant_ != Plant::kPartialName) return name;
  const auto partial = partial_of_(name);
  if (!partial) return name;
  BlockName key;
  std::memcpy(key.bytes.data(), &partial->first, sizeof partial->first);
  std::memcpy(key.bytes.data() + 8, &partial->second, sizeof partial->second);
  return key;
}

bool SimTier::Contains(const BlockName& name) const {
  return !off_ && blocks_.contains(KeyOf(name));
}

bool SimTier::Put(const BlockName& name, std::span<const std::byte> bytes) {
  if (faults_->Fires("tier_off")) off_ = true;
  if (off_) return false;
  const BlockName key = KeyOf(name);
  if (blocks_.contains(key)) return true;
  if (unflushed_ >= setup_.most_pending || faults_->Fires("tier_full")) return false;
  while (static_cast<int32_t>(blocks_.size()) >= setup_.blocks) DropOldest();
  blocks_[key] = {.bytes = {bytes.begin(), bytes.end()}};
  order_.push_back(key);
  ++unflushed_;
  return true;
}

void SimTier::DropOldest() {
  // A generation at a time.
  const size_t most = order_.size() / 4 + 1;
  for (size_t i = 0; i < most; ++i) {
    blocks_.erase(order_.front());
    order_.pop_front();
  }
}

void SimTier::Flush() {
  for (auto& [name, block] : blocks_) block.durable = true;
  unflushed_ = 0;
}

bool SimTier::Get(uint64_t ticket, std::vector<BlockName> names) {
  if (off_) return false;
  for (size_t i = 0; i < names.size(); ++i) {
    Duration each = setup_.read_time;
    if (faults_->Fires("tier_slow")) each *= 1000;
    busy_until_ = std::max(busy_until_, clock_->Now()) + each;
    reads_.push_back({ticket, i, names[i], busy_until_});
  }
  return true;
}

void SimTier::Cancel(uint64_t ticket) {
  std::erase_if(reads_, [ticket](const Wanted& wanted) { return wanted.ticket == ticket; });
}

std::vector<KvRead> SimTier::TakeReads(size_t max_blocks) {
  std::vector<KvRead> done;
  while (!reads_.empty() && reads_.front().ready <= clock_->Now() && done.size() < max_blocks) {
    const Wanted wanted = reads_.front();
    reads_.pop_front();
    std::vector<std::byte> bytes = Read(wanted.name);
    if (bytes.empty()) Cancel(wanted.ticket);
    done.push_back({wanted.ticket, wanted.index, std::move(bytes)});
  }
  return done;
}

std::vector<std::byte> SimTier::Read(const BlockName& name) {
  const auto it = blocks_.find(KeyOf(name));
  if (off_ || it == blocks_.end() || faults_->Fires("tier_lossy")) return {};
  if (faults_->Fires("tier_torn")) {
    blocks_.erase(it);
    return {};
  }
  if (it->second.old) ++found_after_kill_;
  if (plant_ == Plant::kStaleBlock) return blocks_.begin()->second.bytes;  // Whatever it is.
  return it->second.bytes;
}

void SimTier::Erase(const BlockName& name) {
  // Else the tail of an earlier length would mostly be gone before it could be mistaken.
  if (plant_ != Plant::kPartialName) blocks_.erase(name);
}

KvTierUsage SimTier::Usage() const {
  return {.on = !off_, .blocks = blocks_.size(), .pending_bytes = 0};
}

void SimTier::Kill() {
  std::erase_if(blocks_, [](const auto& entry) { return !entry.second.durable; });
  for (auto& [name, block] : blocks_) block.old = true;
  std::erase_if(order_, [this](const BlockName& name) { return !blocks_.contains(name); });
  reads_.clear();
  unflushed_ = 0;
  off_ = false;
}

}  // namespace ropeway::sim
