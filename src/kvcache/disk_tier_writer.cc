// The writing thread of DiskTier.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

#include "kvcache/disk_directory.h"
#include "kvcache/disk_generation.h"
#include "kvcache/disk_tier.h"

namespace ropeway::kvcache {
namespace {

constexpr base::Duration kForever = std::chrono::hours(1);
constexpr size_t kDropAtOnce = 512;  // Names per hold of the lock.

}  // namespace

void DiskTier::WriterMain() {
  pthread_setname_np(pthread_self(), "ropeway-kv-disk");
  Lock lock(mutex_);
  while (true) {
    if (const std::string error = watch_->error(); !error.empty()) TurnOff(error, &lock);
    if (off_) {
      if (stopping_) return;
      writer_wakes_.wait(lock);
      continue;
    }
    const base::TimePoint now = options_.clock->Now();
    if (FlushDue(now)) {
      if (Status status = FlushNow(&lock); !status.ok()) TurnOff(status.message(), &lock);
    } else if (!queue_.empty() && (stopping_ || queue_.front().bytes == nullptr ||
                                   rate_.Wait() == base::Duration(0))) {
      DoJob(&lock);
    } else if (stopping_) {
      return;
    } else {
      writer_wakes_.wait_for(lock, NextDeadline(now));
    }
  }
}

bool DiskTier::FlushDue(base::TimePoint now) const {
  if (!memtable_dirty_) return false;
  if (memtable_bytes_ >= options_.memtable_bytes) return true;
  if (stopping_) return queue_.empty();
  if (now - memtable_since_ >= options_.longest_in_memory) return true;
  if (flush_target_ <= flushed_sequence_) return false;
  const base::Duration interval = options_.flush_interval;
  return now - last_flush_ >= interval && (queue_.empty() || now - flush_asked_ >= interval);
}

// When the answer of FlushDue or of the rate may change without a notification.
base::Duration DiskTier::NextDeadline(base::TimePoint now) {
  base::Duration wait = kForever;
  if (!queue_.empty()) wait = rate_.Wait();
  if (memtable_dirty_) {
    wait = std::min(wait, memtable_since_ + options_.longest_in_memory - now);
    if (flush_target_ > flushed_sequence_) {
      const base::TimePoint asked =
          queue_.empty() ? last_flush_ : std::max(last_flush_, flush_asked_);
      wait = std::min(wait, asked + options_.flush_interval - now);
    }
  }
  return std::max<base::Duration>(wait, std::chrono::microseconds(100));
}

void DiskTier::DoJob(Lock* lock) {
  const Job job = std::move(queue_.front());
  queue_.pop_front();
  if (job.bytes == nullptr) {
    EraseBlock(job, lock);
  } else {
    Status status;
    try {
      status = StoreBlock(job, lock);
    } catch (const std::bad_alloc&) {  // The block is not stored.
      if (!lock->owns_lock()) lock->lock();
      const DiskIndex::Entry* const entry = index_.Find(job.name);
      if (entry != nullptr && entry->sequence == job.sequence) index_.Erase(job.name);
      if (!off_) put_bytes_ -= job.bytes->size();
    } catch (const std::exception& e) {
      if (!lock->owns_lock()) lock->lock();
      status = Status(StatusCode::kInternal, e.what());
    }
    if (!status.ok()) TurnOff(status.message(), lock);
  }
  if (off_) return;
  written_sequence_ = std::max(written_sequence_, job.sequence);
  if (!memtable_dirty_) flushed_sequence_ = written_sequence_;
}

Status DiskTier::StoreBlock(const Job& job, Lock* lock) {
  const DiskIndex::Entry* const entry = index_.Find(job.name);
  const size_t size = job.bytes->size();
  if (entry == nullptr || entry->sequence != job.sequence) {  // Erased meanwhile.
    put_bytes_ -= size;
    return {};
  }
  if (Status status = MakeRoom(size, lock); !status.ok()) return status;
  const auto [number, generation] = *generations_.rbegin();
  index_.Reserve(number);
  if (memtable_.size() == memtable_.capacity()) memtable_.reserve(2 * memtable_.size() + 64);
  lock->unlock();
  Status status = generation.blocks->Write(job.name, *job.bytes);
  Account(size);
  lock->lock();
  if (!status.ok() || off_) return status;
  if (!memtable_dirty_) memtable_since_ = options_.clock->Now();
  memtable_dirty_ = true;
  memtable_bytes_ += size;
  if (index_.Written(job.name, job.sequence, number)) {
    memtable_.push_back(job.name);
    return {};
  }
  lock->unlock();
  status = generation.blocks->Erase(job.name);
  lock->lock();
  return status;
}

void DiskTier::EraseBlock(const Job& job, Lock* lock) {
  const auto found = generations_.find(job.erase_from);
  if (found == generations_.end()) return;
  const std::shared_ptr<DiskGeneration> blocks = found->second.blocks;
  const bool newest = std::next(found) == generations_.end();
  lock->unlock();
  Status status;
  try {
    status = blocks->Erase(job.name);
  } catch (const std::exception&) {  // It may be found again at the next start.
  }
  Account(0);
  lock->lock();
  if (!status.ok()) return TurnOff(status.message(), lock);
  // Older generations are not flushed any more: there too it may be found again.
  if (newest && !memtable_dirty_) memtable_since_ = options_.clock->Now();
  memtable_dirty_ |= newest;
}

Status DiskTier::FlushNow(Lock* lock) {
  const auto [number, generation] = *generations_.rbegin();
  lock->unlock();
  Status status;
  try {
    bool skip = false;
#ifdef ROPEWAY_PLANTS
    const char* const plant = std::getenv("ROPEWAY_PLANT");
    skip = plant != nullptr && std::string_view(plant) == "skip_flush";
#endif
    if (!skip) status = generation.blocks->Flush();
  } catch (const std::exception& e) {
    status = Status(StatusCode::kInternal, e.what());
  }
  const uint64_t bytes = generation.blocks->MeasureBytes();
  Account(0);
  lock->lock();
  if (!status.ok() || off_) return status;
  index_.Flushed(memtable_, number);
  memtable_.clear();
  written_bytes_ += memtable_bytes_;
  put_bytes_ -= memtable_bytes_;
  memtable_bytes_ = 0;
  memtable_dirty_ = false;
  flushed_sequence_ = written_sequence_;
  last_flush_ = options_.clock->Now();
  ++flushes_;
  generations_[number].bytes = bytes;
  return {};
}

uint64_t DiskTier::UsedBytes() const {
  uint64_t bytes = memtable_bytes_ + memtable_.size() * kDiskBlockOverhead;
  for (const auto& [number, generation] : generations_) bytes += generation.bytes;
  return bytes;
}

Status DiskTier::MakeRoom(size_t bytes, Lock* lock) {
  const size_t more = bytes + kDiskBlockOverhead + kDiskFlushOverhead;
  const uint64_t filled =
      generations_.rbegin()->second.bytes + memtable_bytes_ + memtable_.size() * kDiskBlockOverhead;
  if (filled + more > generation_limit_) {
    if (memtable_dirty_) {
      if (Status status = FlushNow(lock); !status.ok()) return status;
    }
    if (Status status = StartGeneration(lock); !status.ok()) return status;
  }
  while (UsedBytes() + more > static_cast<uint64_t>(options_.cache.disk_bytes)) {
    if (generations_.size() == 1) {
      return {StatusCode::kResourceExhausted,
              fmt::format("{} bytes (--kv-disk-size) are too few for one generation of blocks",
                          options_.cache.disk_bytes)};
    }
    if (Status status = DropOldest(lock); !status.ok()) return status;
  }
  return {};
}

Status DiskTier::StartGeneration(Lock* lock) {
  lock->unlock();
  const uint32_t number = directory_->NextNumber();
  Status status = directory_->Create(number);
  Generation generation;
  if (status.ok()) {
    StatusOr<Generation> opened = OpenGeneration(number, true);
    status = opened.status();
    if (status.ok()) generation = *std::move(opened);
  }
  lock->lock();
  if (status.ok()) generations_[number] = std::move(generation);
  return status;
}

Status DiskTier::DropOldest(Lock* lock) {
  const uint32_t number = generations_.begin()->first;
  const std::shared_ptr<DiskGeneration> blocks = generations_.begin()->second.blocks;
  while (!index_.DropSome(number, kDropAtOnce, &evicted_)) {
    lock->unlock();  // Lets the engine go on.
    lock->lock();
  }
  lock->unlock();
  directory_->Mark(DiskDirectory::Work::kDropping, true);
  blocks->Close();
  Status status = directory_->Remove(number);
  directory_->Mark(DiskDirectory::Work::kDropping, false);
  lock->lock();
  generations_.erase(number);
  return status;
}

void DiskTier::Account(size_t bytes) {
  const double own = ThreadCpuSeconds();
  const double cpu = own + watch_->cpu_seconds();
  writer_cpu_ = own;
  rate_.Wrote(bytes, cpu - accounted_cpu_);
  accounted_cpu_ = cpu;
}

}  // namespace ropeway::kvcache
