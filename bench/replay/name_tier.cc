#include "bench/replay/name_tier.h"

namespace ropeway {

void NameTier::Touch(const BlockName& name) {
  const auto place = places_.at(name);
  order_.splice(order_.end(), order_, place);
}

bool NameTier::Put(const BlockName& name, std::span<const std::byte> bytes) {
  if (places_.contains(name)) {
    Touch(name);
    return true;
  }
  if (places_.size() == capacity_) {
    places_.erase(order_.front());
    order_.pop_front();
    ++evicted_;
  }
  places_[name] = order_.insert(order_.end(), name);
  written_ += bytes.size();
  return true;
}

bool NameTier::Get(uint64_t ticket, std::vector<BlockName> names) {
  for (size_t i = 0; i < names.size(); ++i) {
    KvRead& read = reads_.emplace_back();
    read.ticket = ticket;
    read.index = i;
    if (!places_.contains(names[i])) break;
    Touch(names[i]);
    read.bytes.resize(1);
    read.took = kBlockRead;
    ++read_;
  }
  return true;
}

void NameTier::Cancel(uint64_t ticket) {
  std::erase_if(reads_, [ticket](const KvRead& read) { return read.ticket == ticket; });
}

std::vector<KvRead> NameTier::TakeReads(size_t max_blocks) {
  std::vector<KvRead> taken;
  while (!reads_.empty() && taken.size() < max_blocks) {
    taken.push_back(std::move(reads_.front()));
    reads_.pop_front();
  }
  return taken;
}

void NameTier::Erase(const BlockName& name) {
  const auto found = places_.find(name);
  if (found == places_.end()) return;
  order_.erase(found->second);
  places_.erase(found);
}

KvTierUsage NameTier::Usage() const {
  KvTierUsage usage;
  usage.blocks = usage.bytes = places_.size();
  usage.capacity_bytes = capacity_;
  usage.written_bytes = written_;
  usage.read_bytes = read_;
  usage.evicted_blocks = evicted_;
  return usage;
}

}  // namespace ropeway
