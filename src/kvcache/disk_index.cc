#include "kvcache/disk_index.h"

#include <algorithm>
#include <utility>

namespace ropeway {

const DiskIndex::Entry* DiskIndex::Find(const BlockName& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

void DiskIndex::Queue(const BlockName& name, uint64_t sequence,
                      std::shared_ptr<const std::vector<std::byte>> bytes) {
  Entry& entry = entries_[name];
  entry.sequence = sequence;
  entry.queued = std::move(bytes);
}

void DiskIndex::Reserve(uint32_t generation) {
  std::vector<BlockName>& names = names_[generation];
  if (names.size() == names.capacity()) names.reserve(std::max<size_t>(64, 2 * names.size()));
}

bool DiskIndex::Written(const BlockName& name, uint64_t sequence, uint32_t generation) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.sequence != sequence) return false;
  found->second.generation = generation;
  found->second.queued = nullptr;
  names_[generation].push_back(name);
  return true;
}

void DiskIndex::Flushed(std::span<const BlockName> names, uint32_t generation) {
  for (const BlockName& name : names) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.generation != generation) continue;
    flushed_ += found->second.flushed ? 0 : 1;
    found->second.flushed = true;
  }
}

void DiskIndex::AddStored(std::vector<BlockName> names, uint32_t generation) {
  entries_.reserve(entries_.size() + names.size());
  for (const BlockName& name : names) {
    Entry& entry = entries_[name];
    flushed_ += entry.flushed ? 0 : 1;
    entry.generation = generation;
    entry.flushed = true;
  }
  names_[generation] = std::move(names);
}

bool DiskIndex::Erase(const BlockName& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return false;
  flushed_ -= found->second.flushed ? 1 : 0;
  entries_.erase(found);
  return true;
}

bool DiskIndex::DropSome(uint32_t generation, size_t count, uint64_t* dropped) {
  const auto in = names_.find(generation);
  if (in == names_.end()) return true;
  for (; count > 0 && !in->second.empty(); --count, in->second.pop_back()) {
    const auto found = entries_.find(in->second.back());
    if (found == entries_.end() || found->second.generation != generation) continue;
    if (found->second.queued != nullptr) {  // It will be written to a newer one.
      flushed_ -= found->second.flushed ? 1 : 0;
      found->second.generation = 0;
      found->second.flushed = false;
      continue;
    }
    flushed_ -= found->second.flushed ? 1 : 0;
    entries_.erase(found);
    ++*dropped;
  }
  if (!in->second.empty()) return false;
  names_.erase(in);
  return true;
}

void DiskIndex::Clear() {
  entries_.clear();
  names_.clear();
  flushed_ = 0;
}

}  // namespace ropeway
