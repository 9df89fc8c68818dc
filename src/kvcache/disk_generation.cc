#include "kvcache/disk_generation.h"

#include <dirent.h>
#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>

namespace ropeway::kvcache {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the header is stored as it is in memory");

struct Header {
  char magic[4] = {'R', 'K', 'V', 'B'};
  uint32_t format = kDiskFormat;
  core::BlockName name;
  uint64_t size = 0;
  uint64_t checksum = 0;
};
static_assert(sizeof(Header) == kDiskHeaderBytes);

constexpr char kBlock = 'b';
constexpr char kName = 'n';
constexpr size_t kKeyBytes = 1 + sizeof(core::BlockName);

using Key = std::array<char, kKeyBytes>;

Key KeyOf(char kind, const core::BlockName& name) {
  Key key;
  key[0] = kind;
  std::memcpy(key.data() + 1, name.bytes.data(), name.bytes.size());
  return key;
}

rocksdb::Slice SliceOf(const Key& key) { return {key.data(), key.size()}; }

// A file that is missing is damage, not the device's failure.
Status DiskError(const rocksdb::Status& status) {
  if (status.ok()) return {};
  const bool device = status.IsIOError() && status.subcode() != rocksdb::Status::kPathNotFound;
  return {device ? StatusCode::kUnavailable : StatusCode::kDataLoss, status.ToString()};
}

// RocksDB's own log is discarded. Where the disk is full, it would write to a file that has failed,
// which aborts the process.
class NoLog final : public rocksdb::Logger {
 public:
  void Logv(const char*, va_list) override {}
};

rocksdb::Options MakeOptions(const DiskGeneration::Config& config) {
  rocksdb::Options options;
  options.create_if_missing = config.create;
  options.error_if_exists = config.create;
  options.env = config.env;
  options.info_log = std::make_shared<NoLog>();
  options.listeners = {config.listener};

  options.enable_blob_files = true;
  options.min_blob_size = kDiskHeaderBytes;  // Every block; no name.
  options.compression = rocksdb::kNoCompression;
  options.blob_compression_type = rocksdb::kNoCompression;

  // DiskTier decides when to flush: the memtable never fills up.
  options.write_buffer_size = 4 * config.memtable_bytes + (64 << 20);
  options.allow_concurrent_memtable_write = false;
  options.avoid_flush_during_shutdown = true;
  // Small: larger writes bypass the buffer, which saves a copy.
  options.writable_file_max_buffer_size = 64 << 10;
  // Preallocated space would count as used.
  options.allow_fallocate = false;
  options.manifest_preallocation_size = 4 << 10;
  options.max_manifest_file_size = 1 << 20;

  // The tables hold keys alone; merging them is cheap and keeps look-ups short. A write never
  // waits for it.
  options.num_levels = 2;
  options.level0_file_num_compaction_trigger = 8;
  options.level0_slowdown_writes_trigger = 1 << 20;
  options.level0_stop_writes_trigger = 1 << 20;
  options.max_background_jobs = 2;  // One flush, one compaction.

  options.max_open_files = 32;
  options.skip_stats_update_on_db_open = true;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.max_bgerror_resume_count = 0;  // DiskTier stops writing after an error.

  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;
  table.checksum = rocksdb::kXXH3;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace

std::array<std::byte, kDiskHeaderBytes> DiskHeader(const core::BlockName& name,
                                                   std::span<const std::byte> bytes) {
  const Header header{
      .name = name, .size = bytes.size(), .checksum = XXH3_64bits(bytes.data(), bytes.size())};
  return std::bit_cast<std::array<std::byte, kDiskHeaderBytes>>(header);
}

std::optional<std::span<const std::byte>> CheckDiskBlock(const core::BlockName& name,
                                                         std::span<const std::byte> stored) {
  if (stored.size() < kDiskHeaderBytes) return std::nullopt;
  const std::span<const std::byte> bytes = stored.subspan(kDiskHeaderBytes);
  const std::array<std::byte, kDiskHeaderBytes> expected = DiskHeader(name, bytes);
  if (std::memcmp(stored.data(), expected.data(), kDiskHeaderBytes) != 0) return std::nullopt;
  return bytes;
}

DiskGeneration::DiskGeneration(std::string path)
    : path_(std::move(path)), batch_(std::make_unique<rocksdb::WriteBatch>()) {}

StatusOr<std::unique_ptr<DiskGeneration>> DiskGeneration::Open(const Config& config) {
  std::unique_ptr<DiskGeneration> generation(new DiskGeneration(config.path));
  rocksdb::DB* db = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(MakeOptions(config), config.path, &db);
  generation->db_.reset(db);
  if (!status.ok()) return DiskError(status);
  if (!config.create) {
    // The tables are small; reads of them are not checked again.
    status = db->VerifyChecksum();
    if (!status.ok()) return DiskError(status);
    if (Status listed = generation->ListNames(); !listed.ok()) return listed;
  }
  return generation;
}

DiskGeneration::~DiskGeneration() = default;

Status DiskGeneration::ListNames() {
  const char first = kName;
  const char end = kName + 1;
  const rocksdb::Slice upper(&end, 1);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> i(db_->NewIterator(options));
  for (i->Seek(rocksdb::Slice(&first, 1)); i->Valid(); i->Next()) {
    if (i->key().size() != kKeyBytes) continue;
    core::BlockName name;
    std::memcpy(name.bytes.data(), i->key().data() + 1, name.bytes.size());
    names_.push_back(name);
  }
  return DiskError(i->status());
}

Status DiskGeneration::Write(const core::BlockName& name, std::span<const std::byte> bytes) {
  const std::array<std::byte, kDiskHeaderBytes> header = DiskHeader(name, bytes);
  const Key key = KeyOf(kBlock, name);
  const rocksdb::Slice keys[] = {SliceOf(key)};
  const rocksdb::Slice values[] = {{reinterpret_cast<const char*>(header.data()), header.size()},
                                   {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  batch_->Clear();
  rocksdb::Status status =
      batch_->Put(rocksdb::SliceParts(keys, 1), rocksdb::SliceParts(values, 2));
  if (status.ok()) status = batch_->Put(SliceOf(KeyOf(kName, name)), rocksdb::Slice());
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  if (status.ok()) status = db_->Write(options, batch_.get());
  return DiskError(status);
}

Status DiskGeneration::Erase(const core::BlockName& name) {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  rocksdb::Status status = db_->Delete(options, SliceOf(KeyOf(kName, name)));
  if (status.ok()) status = db_->Delete(options, SliceOf(KeyOf(kBlock, name)));
  return DiskError(status);
}

Status DiskGeneration::Flush() {
  rocksdb::FlushOptions options;
  options.wait = true;
  options.allow_write_stall = true;
  return DiskError(db_->Flush(options));
}

DiskGeneration::Result DiskGeneration::Read(const core::BlockName& name,
                                            std::vector<std::byte>* bytes) const {
  const std::shared_lock<std::shared_mutex> lock(closing_);
  if (db_ == nullptr) return Result::kDamaged;
  rocksdb::ReadOptions options;
  // The block has its own checksum, which is ten times as fast as RocksDB's where that does not use
  // the CPU's CRC instruction; the tables were checked at Open.
  options.verify_checksums = false;
  rocksdb::PinnableSlice value;
  const Key key = KeyOf(kBlock, name);
  const rocksdb::Status status =
      db_->Get(options, db_->DefaultColumnFamily(), SliceOf(key), &value);
  if (status.IsIOError() && status.subcode() != rocksdb::Status::kPathNotFound) {
    return Result::kDevice;
  }
  if (!status.ok()) return Result::kDamaged;
  const std::optional<std::span<const std::byte>> block =
      CheckDiskBlock(name, std::as_bytes(std::span(value.data(), value.size())));
  if (!block) return Result::kDamaged;
  bytes->assign(block->begin(), block->end());
  return Result::kRead;
}

uint64_t DiskGeneration::MeasureBytes() const {
  uint64_t bytes = 0;
  DIR* const directory = opendir(path_.c_str());
  if (directory == nullptr) return 0;
  while (const dirent* const entry = readdir(directory)) {
    struct stat found;
    if (std::strcmp(entry->d_name, "..") == 0 ||
        fstatat(dirfd(directory), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    // st_blocks lacks blocks whose allocation the file system has delayed.
    bytes += std::max(static_cast<uint64_t>(found.st_size),
                      static_cast<uint64_t>(found.st_blocks) * 512);
  }
  closedir(directory);
  return bytes;
}

void DiskGeneration::Close() {
  const std::unique_lock<std::shared_mutex> lock(closing_);
  db_.reset();
}

}  // namespace ropeway::kvcache
