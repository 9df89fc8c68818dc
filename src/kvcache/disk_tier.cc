#include "kvcache/disk_tier.h"

#include <fmt/format.h>
#include <pthread.h>
#include <rocksdb/env.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/log.h"
#include "kvcache/disk_directory.h"
#include "kvcache/disk_generation.h"

namespace ropeway::kvcache {
namespace {

constexpr int64_t kGenerationOverhead = 128 << 10;
constexpr int kLeastGenerations = 4;
constexpr int kBlocksOfAGeneration = 4;  // At least.

uint64_t GenerationLimit(const DiskTierOptions& options) {
  const uint64_t least = kBlocksOfAGeneration * (options.block_bytes + kDiskBlockOverhead);
  return std::max(static_cast<uint64_t>(options.cache.disk_bytes) / DiskTier::kGenerations,
                  least + kGenerationOverhead);
}

constexpr base::Duration kMemoryRetry = std::chrono::milliseconds(10);

}  // namespace

int64_t DiskTier::MinCapacity(size_t block_bytes) {
  const auto block = static_cast<int64_t>(block_bytes + kDiskBlockOverhead);
  return (kLeastGenerations + 1) * (kBlocksOfAGeneration * block + kGenerationOverhead);
}

DiskTier::DiskTier(const DiskTierOptions& options)
    : options_(options),
      put_limit_(options.memory_bytes / 4 * 3),
      read_limit_(options.memory_bytes / 4),
      generation_limit_(GenerationLimit(options)),
      rate_(options.clock, options.cache.disk_write_rate, options.cores) {}

StatusOr<std::unique_ptr<DiskTier>> DiskTier::Open(const DiskTierOptions& given) {
  DiskTierOptions options = given;
  if (options.env == nullptr) options.env = rocksdb::Env::Default();
  if (options.cache.disk_bytes < MinCapacity(options.block_bytes)) {
    return InvalidArgument(
        fmt::format("kv_disk_bytes (--kv-disk-size) is {}, but blocks of {} bytes need at least {}",
                    options.cache.disk_bytes, options.block_bytes,
                    MinCapacity(options.block_bytes)),
        "kv_disk_bytes");
  }
  try {
    std::unique_ptr<DiskTier> tier(new DiskTier(options));
    const Status status = tier->OpenDirectory();
    if (status.ok()) {
      tier->StartThreads();
    } else if (status.code() == StatusCode::kUnavailable) {
      tier->StayOff(status.message());
    } else {
      return status;
    }
    return tier;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "not enough memory to open the disk tier",
                  "kv_disk_path");
  } catch (const std::exception& e) {
    return Status(StatusCode::kInternal, fmt::format("opening the disk tier failed: {}", e.what()),
                  "kv_disk_path");
  }
}

Status DiskTier::OpenDirectory() {
  StatusOr<std::unique_ptr<DiskDirectory>> directory =
      DiskDirectory::Open(options_.cache.disk_path, options_.block_bytes, options_.env);
  if (!directory.ok()) return directory.status();
  directory_ = *std::move(directory);
  watch_ = std::make_shared<DiskWatch>(directory_.get(), [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    writer_wakes_.notify_all();
  });
  if (Status status = OpenGenerations(); !status.ok()) return status;
  Lock lock(mutex_);
  while (generations_.size() > 1 &&
         UsedBytes() > static_cast<uint64_t>(options_.cache.disk_bytes)) {
    if (Status status = DropOldest(&lock); !status.ok()) return status;
  }
  evicted_ = 0;
  if (generations_.empty()) {
    Status status = StartGeneration(&lock);
    if (status.code() == StatusCode::kUnavailable) return status;
    if (!status.ok()) {
      return InvalidArgument(fmt::format("kv_disk_path (--kv-disk-path): '{}': {}",
                                         options_.cache.disk_path, status.message()),
                             "kv_disk_path");
    }
  }
  const std::string& stopped_in = directory_->stopped_in();
  base::Log().info(
      "{}: found {} KV blocks ({:.1f} MiB) of an earlier run{}", options_.cache.disk_path,
      index_.flushed(), static_cast<double>(UsedBytes()) / (1 << 20),
      stopped_in.empty() ? "" : fmt::format("; the last process was killed while {}", stopped_in));
  return {};
}

Status DiskTier::OpenGenerations() {
  for (const uint32_t number : directory_->Generations()) {
    StatusOr<Generation> opened = OpenGeneration(number, false);
    Status status = opened.status();
    if (status.ok()) {
      index_.AddStored(opened->blocks->TakeNames(), number);
      generations_[number] = *std::move(opened);
      continue;
    }
    // A device that is full or fails damages nothing: the blocks are there at the next start.
    if (status.code() == StatusCode::kUnavailable) return status;
    base::Log().warn("{}: KV blocks that cannot be read are removed: {}",
                     directory_->PathOf(number), status.message());
    if (status = directory_->Remove(number); !status.ok()) return status;
  }
  return {};
}

StatusOr<DiskTier::Generation> DiskTier::OpenGeneration(uint32_t number, bool create) const {
  const DiskGeneration::Config config{.path = directory_->PathOf(number),
                                      .create = create,
                                      .memtable_bytes = options_.memtable_bytes,
                                      .env = options_.env,
                                      .listener = watch_};
  StatusOr<std::unique_ptr<DiskGeneration>> opened = DiskGeneration::Open(config);
  if (!opened.ok()) return opened.status();
  const uint64_t bytes = (*opened)->MeasureBytes();
  return Generation{*std::move(opened), bytes};
}

void DiskTier::StayOff(const std::string& reason) {
  std::map<uint32_t, Generation> generations;
  {
    Lock lock(mutex_);
    TurnOff(reason, &lock);
    generations.swap(generations_);
  }
  generations.clear();  // Closes them, which calls the watch.
}

void DiskTier::StartThreads() {
  writer_ = std::thread([this] { WriterMain(); });
  reader_ = std::thread([this] { ReaderMain(); });
}

DiskTier::~DiskTier() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    writer_wakes_.notify_all();
    reader_wakes_.notify_all();
  }
  if (reader_.joinable()) reader_.join();
  if (writer_.joinable()) writer_.join();
  generations_.clear();  // Before the listener that they report to.
}

bool DiskTier::Contains(const core::BlockName& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return index_.Find(name) != nullptr;
}

bool DiskTier::Put(const core::BlockName& name, std::vector<std::byte> bytes) {
  const size_t size = bytes.size();
  if (size == 0 || size > options_.block_bytes) return false;
  try {
    auto shared = std::make_shared<const Bytes>(std::move(bytes));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (off_ || stopping_) return false;
    if (index_.Find(name) != nullptr) return true;
    if (put_bytes_ > 0 && put_bytes_ + size > put_limit_) return false;
    index_.Queue(name, last_sequence_ + 1, shared);
    if (!Enqueue(name, std::move(shared), 0)) {
      index_.Erase(name);
      return false;
    }
    put_bytes_ += size;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool DiskTier::Enqueue(const core::BlockName& name, std::shared_ptr<const Bytes> bytes,
                       uint32_t erase_from) {
  try {
    queue_.push_back({name, last_sequence_ + 1, std::move(bytes), erase_from});
  } catch (const std::bad_alloc&) {
    return false;
  }
  ++last_sequence_;
  writer_wakes_.notify_one();
  return true;
}

void DiskTier::Flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (off_ || flushed_sequence_ == last_sequence_) return;
  if (flush_target_ <= flushed_sequence_) flush_asked_ = options_.clock->Now();
  flush_target_ = last_sequence_;
  writer_wakes_.notify_one();
}

bool DiskTier::Get(uint64_t ticket, std::vector<core::BlockName> names) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (off_ || stopping_) return false;
  try {
    reads_.Begin(ticket, std::move(names));
  } catch (const std::bad_alloc&) {
    return false;
  }
  reader_wakes_.notify_one();
  return true;
}

void DiskTier::Cancel(uint64_t ticket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reads_.Cancel(ticket);
  reader_wakes_.notify_one();
}

std::vector<KvRead> DiskTier::TakeReads(size_t max_blocks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reader_wakes_.notify_one();
  try {
    return reads_.Take(max_blocks);
  } catch (const std::bad_alloc&) {
    take_again_ = true;
    return {};
  }
}

void DiskTier::SetWake(std::function<void()> wake) {
  const std::lock_guard<std::mutex> lock(wake_mutex_);
  wake_ = std::move(wake);
}

void DiskTier::Wake() {
  const std::lock_guard<std::mutex> lock(wake_mutex_);
  if (wake_) wake_();
}

void DiskTier::Erase(const core::BlockName& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const DiskIndex::Entry* const entry = index_.Find(name);
  if (entry == nullptr) return;
  const uint32_t generation = entry->generation;
  index_.Erase(name);
  if (generation == 0) return;  // The writing thread will skip it.
  // Without memory it may be found again at the next start.
  (void)Enqueue(name, nullptr, generation);
}

KvTierUsage DiskTier::Usage() const {
  KvTierUsage usage;
  const std::lock_guard<std::mutex> lock(mutex_);
  usage.on = !off_;
  usage.blocks = index_.flushed();
  for (const auto& [number, generation] : generations_) usage.bytes += generation.bytes;
  usage.capacity_bytes = static_cast<uint64_t>(options_.cache.disk_bytes);
  usage.pending_bytes = put_bytes_ + reads_.bytes();
  usage.written_bytes = written_bytes_;
  usage.read_bytes = read_bytes_;
  usage.rejected_blocks = rejected_;
  usage.evicted_blocks = evicted_;
  usage.cpu_seconds = writer_cpu_ + reader_cpu_ + (watch_ ? watch_->cpu_seconds() : 0);
  return usage;
}

uint64_t DiskTier::flushes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return flushes_;
}

void DiskTier::TurnOff(const std::string& reason, Lock* lock) {
  if (off_) return;
  off_ = true;
  index_.Clear();
  queue_.clear();
  memtable_.clear();
  put_bytes_ = memtable_bytes_ = 0;
  memtable_dirty_ = false;
  reads_.EndAll();
  reader_wakes_.notify_all();
  writer_wakes_.notify_all();
  base::TryLog(
      spdlog::level::err,
      "the disk tier (--kv-disk-path {}) is off until the next start, KV blocks stay in memory "
      "only: {}",
      options_.cache.disk_path, reason);
  lock->unlock();
  Wake();
  lock->lock();
}

// The reading thread.

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
  const core::BlockName name = job->names[job->reads.size()];
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
  const base::TimePoint begin = options_.clock->Now();
  try {
    if (queued != nullptr) {
      bytes = *queued;
    } else if (generation != nullptr) {
      result = generation->Read(name, &bytes);
      if (keep && result == DiskGeneration::Result::kRead) {
        copy = std::make_shared<const Bytes>(bytes);
      }
    }
  } catch (const std::exception&) {  // Out of memory: this read fails.
    bytes.clear();
  }
  if (result != DiskGeneration::Result::kRead) bytes.clear();
  reader_cpu_ = ThreadCpuSeconds();
  const base::Duration took = options_.clock->Now() - begin;
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
  if (device_errors_ >= kMaxDeviceErrors) TurnOff("the device fails to read blocks", lock);
  lock->unlock();
  Wake();
  lock->lock();
}

// Removes an unreadable block, unless it was dropped or stored anew meanwhile.
void DiskTier::Rejected(const core::BlockName& name, uint32_t generation) {
  const DiskIndex::Entry* const entry = index_.Find(name);
  if (entry == nullptr || entry->generation != generation || entry->queued != nullptr) return;
  ++rejected_;
  index_.Erase(name);
  // Without memory it will be rejected again after the next start.
  (void)Enqueue(name, nullptr, generation);
}

// Whether a block in use of this generation is written again to the newest.
bool DiskTier::MayKeep(uint32_t generation) const {
  const auto age = std::distance(generations_.begin(), generations_.find(generation));
  return static_cast<size_t>(age) < generations_.size() / 4 &&
         UsedBytes() >= static_cast<uint64_t>(options_.cache.disk_bytes) / 4 * 3 &&
         put_bytes_ + options_.block_bytes <= put_limit_ / 2;
}

// Moves a block in use to the newest generation.
void DiskTier::KeepInUse(const core::BlockName& name, uint32_t generation,
                         std::shared_ptr<const Bytes> bytes) {
  const DiskIndex::Entry* const entry = index_.Find(name);
  if (off_ || entry == nullptr || entry->generation != generation || entry->queued != nullptr) {
    return;
  }
  if (!Enqueue(name, bytes, 0)) return;  // It stays in its generation.
  put_bytes_ += bytes->size();
  index_.Queue(name, last_sequence_, std::move(bytes));  // The entry exists: no allocation.
}

}  // namespace ropeway::kvcache
