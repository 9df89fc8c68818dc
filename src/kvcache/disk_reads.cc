#include "kvcache/disk_reads.h"

#include <algorithm>
#include <utility>

namespace ropeway {

void DiskReads::Begin(uint64_t ticket, std::vector<BlockName> names) {
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

void DiskReads::Deliver(Job* job, std::vector<std::byte> bytes, Duration took) {
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

}  // namespace ropeway
