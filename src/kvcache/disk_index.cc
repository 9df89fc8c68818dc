#include "kvcache/disk_index.h"

#include <algorithm>
#include <utility>

namespace ropeway::kvcache {

const DiskIndex::Entry* DiskIndex::Find(const core::BlockName& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

void DiskIndex::Queue(const core::BlockName& name, uint64_t sequence,
                      std::shared_ptr<const std::vector<std::byte>> bytes) {
  Entry& entry = entries_[name];
  entry.sequence = sequence;
  entry.queued = std::move(bytes);
}

void DiskIndex::Reserve(uint32_t generation) {
  std::vector<core::BlockName>& names = names_[generation];
  if (names.size() == names.capacity()) names.reserve(std::max<size_t>(64, 2 * names.size()));
}

bool DiskIndex::Written(const core::BlockName& name, uint64_t sequence, uint32_t generation) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.sequence != sequence) return false;
  found->second.generation = generation;
  found->second.queued = nullptr;
  names_[generation].push_back(name);
  return true;
}

void DiskIndex::Flushed(std::span<const core::BlockName> names, uint32_t generation) {
  for (const core::BlockName& name : names) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.generation != generation) continue;
    flushed_ += found->second.flushed ? 0 : 1;
    found->second.flushed = true;
  }
}

void DiskIndex::AddStored(std::vector<core::BlockName> names, uint32_t generation) {
  entries_.reserve(entries_.size() + names.size());
  for (const core::BlockName& name : names) {
    Entry& entry = entries_[name];
    flushed_ += entry.flushed ? 0 : 1;
    entry.generation = generation;
    entry.flushed = true;
  }
  names_[generation] = std::move(names);
}

bool DiskIndex::Erase(const core::BlockName& name) {
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
    if (found->second.queued != nullptr) {  // It will be written to a newer generation.
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

void DiskReads::Begin(uint64_t ticket, std::vector<core::BlockName> names) {
  auto job = std::make_shared<Job>();
  job->ticket = ticket;
  job->reads.reserve(names.size());
  job->names = std::move(names);
  jobs_.push_back(std::move(job));
}

void DiskReads::Cancel(uint64_t ticket) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                  [ticket](const auto& job) { return job->ticket == ticket; });
  if (found == jobs_.end()) return;
  Job& job = **found;
  for (; job.taken < job.reads.size(); ++job.taken, --ready_) {
    bytes_ -= job.reads[job.taken].bytes.size();
  }
  job.ended = true;
  jobs_.erase(found);
}

std::shared_ptr<DiskReads::Job> DiskReads::Next() const {
  for (const std::shared_ptr<Job>& job : jobs_) {
    if (!job->ended) return job;
  }
  return nullptr;
}

void DiskReads::Deliver(Job* job, std::vector<std::byte> bytes, base::Duration took) {
  if (job->ended) return;
  ++ready_;
  bytes_ += bytes.size();
  job->ended = bytes.empty() || job->reads.size() + 1 == job->names.size();
  job->reads.push_back({job->ticket, job->reads.size(), std::move(bytes), took});
}

void DiskReads::EndAll() {
  while (const std::shared_ptr<Job> job = Next()) Deliver(job.get(), {}, {});
}

std::vector<KvRead> DiskReads::Take(size_t max_blocks) {
  std::vector<KvRead> taken;
  const size_t count = std::min(max_blocks, ready_);
  taken.reserve(count);
  while (taken.size() < count) {
    Job& job = *jobs_.front();
    while (taken.size() < count && job.taken < job.reads.size()) {
      KvRead& read = job.reads[job.taken++];
      bytes_ -= read.bytes.size();
      taken.push_back(std::move(read));
    }
    if (job.ended && job.taken == job.reads.size()) jobs_.pop_front();
  }
  ready_ -= count;
  return taken;
}

}  // namespace ropeway::kvcache
