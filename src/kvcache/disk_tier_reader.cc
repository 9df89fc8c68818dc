// The reading thread of DiskTier.
#include <pthread.h>

#include <iterator>
#include <new>
#include <utility>

#include "kvcache/disk_generation.h"
#include "kvcache/disk_tier.h"
#include "kvcache/disk_watch.h"

namespace ropeway {
namespace {

constexpr Duration kMemoryRetry = std::chrono::milliseconds(10);

}  // namespace

void DiskTier::ReaderMain() {
  pthread_setname_np(pthread_self(), "ropeway-kv-read");
  Lock lock(mutex_);
  while (!stopping_) {
    if (take_again_) {
      take_again_ = false;
      reader_wakes_.wait_for(lock, kMemoryRetry, [this] { return stopping_; });
      lock.unlock();
      Wake();
      lock.lock();
    } else if (reads_.Next() != nullptr &&
               (!reads_.any() || reads_.bytes() + options_.block_bytes <= read_limit_)) {
      ReadNext(&lock);
    } else {
      reader_wakes_.wait(lock);
    }
  }
}

void DiskTier::ReadNext(Lock* lock) {
  const std::shared_ptr<DiskReads::Job> job = reads_.Next();
  const BlockName name = job->names[job->reads.size()];
  uint32_t number = 0;
  std::shared_ptr<const Bytes> queued;
  std::shared_ptr<const DiskGeneration> generation;
  if (const DiskIndex::Entry* const entry = index_.Find(name)) {
    queued = entry->queued;
    number = entry->generation;
    const auto found = generations_.find(number);
    if (found != generations_.end()) generation = found->second.blocks;
  }
  const bool keep = queued == nullptr && MayKeep(number);
  lock->unlock();
  Bytes bytes;
  std::shared_ptr<const Bytes> copy;
  DiskGeneration::Result result = DiskGeneration::Result::kRead;
  const TimePoint begin = options_.clock->Now();
  try {
    if (queued != nullptr) {
      bytes = *queued;
    } else if (generation != nullptr) {
      result = generation->Read(name, &bytes);
      if (keep && result == DiskGeneration::Result::kRead) {
        copy = std::make_shared<const Bytes>(bytes);
      }
    }
  } catch (const std::exception&) {  // Memory is short: this time it cannot be had.
    bytes.clear();
  }
  if (result != DiskGeneration::Result::kRead) bytes.clear();
  reader_cpu_ = ThreadCpuSeconds();
  const Duration took = options_.clock->Now() - begin;
  lock->lock();
  read_bytes_ += bytes.size();
  if (result == DiskGeneration::Result::kRead) {
    device_errors_ = 0;
    if (copy != nullptr) KeepInUse(name, number, std::move(copy));
  } else if (!off_) {
    Rejected(name, number);
    const bool device = result == DiskGeneration::Result::kDevice;
    device_errors_ = device ? device_errors_ + 1 : 0;
  }
  reads_.Deliver(job.get(), std::move(bytes), took);
  if (device_errors_ >= kMaxDeviceErrors) TurnOff("the device fails to read", lock);
  lock->unlock();
  Wake();
  lock->lock();
}

// It cannot be read: it is to be had no more, unless it was dropped or stored anew meanwhile.
void DiskTier::Rejected(const BlockName& name, uint32_t generation) {
  const DiskIndex::Entry* const entry = index_.Find(name);
  if (entry == nullptr || entry->generation != generation || entry->queued != nullptr) return;
  ++rejected_;
  index_.Erase(name);
  try {
    queue_.push_back({name, last_sequence_ + 1, nullptr, generation});
    ++last_sequence_;
    writer_wakes_.notify_one();
  } catch (const std::bad_alloc&) {  // It will be rejected again after the next start.
  }
}

// Whether a block of this generation is to be written again where it is in use.
bool DiskTier::MayKeep(uint32_t generation) const {
  const auto place = std::distance(generations_.begin(), generations_.find(generation));
  return static_cast<size_t>(place) < generations_.size() / 4 &&
         UsedBytes() >= static_cast<uint64_t>(options_.capacity_bytes) / 4 * 3 &&
         put_bytes_ + options_.block_bytes <= put_limit_ / 2;
}

// Moves a block in use to the newest generation.
void DiskTier::KeepInUse(const BlockName& name, uint32_t generation,
                         std::shared_ptr<const Bytes> bytes) {
  const DiskIndex::Entry* const entry = index_.Find(name);
  if (off_ || entry == nullptr || entry->generation != generation || entry->queued != nullptr) {
    return;
  }
  try {
    queue_.push_back({name, last_sequence_ + 1, bytes, 0});
  } catch (const std::bad_alloc&) {
    return;  // It stays where it is.
  }
  put_bytes_ += bytes->size();
  index_.Queue(name, ++last_sequence_, std::move(bytes));  // It is there: allocates nothing.
  writer_wakes_.notify_one();
}

}  // namespace ropeway
