#include "store/state_db.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "base/system.h"

namespace ropeway::store {
Status MemoryStateDb::Write(std::span<const StateChange> changes) {
  const std::lock_guard lock(mu_);
  // All or none: nodes are allocated first, and the rest needs no memory.
  std::map<std::string, std::string> added;
  try {
    for (const StateChange& change : changes) {
      if (change.value) added[change.key] = *change.value;
      if (!change.value) added.erase(change.key);
    }
  } catch (const std::bad_alloc&) {
    return {StatusCode::kResourceExhausted, "out of memory"};
  }
  for (const StateChange& change : changes) {
    if (!change.value) values_.erase(change.key);
  }
  while (!added.empty()) {
    auto node = added.extract(added.begin());
    values_.erase(node.key());
    values_.insert(std::move(node));
  }
  return {};
}

StatusOr<std::string> MemoryStateDb::Read(const std::string& key) const {
  const std::lock_guard lock(mu_);
  const auto it = values_.find(key);
  if (it == values_.end()) return Status(StatusCode::kNotFound, "no such key");
  return it->second;
}

Status MemoryStateDb::Visit(const std::string& prefix, const VisitFn& visit) const {
  const std::lock_guard lock(mu_);
  for (auto it = values_.lower_bound(prefix); it != values_.end(); ++it) {
    if (it->first.compare(0, prefix.size(), prefix) != 0) break;
    visit(it->first, it->second);
  }
  return {};
}

namespace {

constexpr size_t kBlockCacheBytes = size_t{2} << 20;
// The size of the files that opening a database writes besides the contents of its log.
constexpr uint64_t kOpenBytes = 64 << 10;

// RocksDB's own log is discarded: where the disk is full it would write to a file that has failed,
// which Debian's build of RocksDB, with its assertions, answers with abort().
class NoInfoLog final : public rocksdb::Logger {
 public:
  void Logv(const char*, va_list) override {}
};

// Leaves it to RocksStateDb when to try again after an error that stops writes.
class NoAutoRecovery final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status error,
                            bool* auto_recovery) override {
    if (error.severity() >= rocksdb::Status::Severity::kHardError) *auto_recovery = false;
  }
};

// Everything but the values is kept small relative to `storage_bytes`.
rocksdb::Options MakeOptions(uint64_t storage_bytes, rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;
  options.info_log = std::make_shared<NoInfoLog>();
  options.listeners = {std::make_shared<NoAutoRecovery>()};
  options.max_bgerror_resume_count = 0;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  // A crash may tear the end of the log, where no acknowledged write is. Damage before it must not
  // silently roll sessions back to older turns: then opening fails.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.write_buffer_size = std::clamp<uint64_t>(storage_bytes / 32, 64 << 10, 8 << 20);
  options.max_write_buffer_number = 2;
  options.max_total_wal_size = 2 * options.write_buffer_size;
  options.level0_file_num_compaction_trigger = 2;
  options.level0_slowdown_writes_trigger = 4;  // Writers wait for compaction.
  options.level0_stop_writes_trigger = 6;
  options.soft_pending_compaction_bytes_limit = 4 * options.write_buffer_size;
  options.hard_pending_compaction_bytes_limit = 8 * options.write_buffer_size;
  options.target_file_size_base = options.write_buffer_size;
  options.max_bytes_for_level_base = 4 * options.write_buffer_size;
  options.level_compaction_dynamic_level_bytes = true;  // At most a tenth is obsolete versions.
  options.max_background_jobs = 2;
  options.max_open_files = 64;
  options.allow_fallocate = false;                // Preallocated space would count.
  options.compression = rocksdb::kNoCompression;  // The bound counts plain bytes.
  options.max_manifest_file_size = 256 << 10;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kBlockCacheBytes);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

bool IsFull(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return true;
  if (!status.IsIOError()) return false;
  // Neither a quota that is used up nor an error within another has a code of its own.
  const std::string text = status.ToString();
  return text.find("No space left") != std::string::npos ||
         text.find("quota exceeded") != std::string::npos;
}

Status StatusOf(const rocksdb::Status& status, const std::string& path) {
  if (status.ok()) return {};
  if (status.IsNotFound()) return {StatusCode::kNotFound, "no such key"};
  const std::string message = fmt::format("{}: {}", path, status.ToString());
  if (status.IsCorruption()) return {StatusCode::kDataLoss, message};
  return {StatusCode::kUnavailable, message};
}

Status DiskFull(const std::string& path, const std::string& why) {
  return {StatusCode::kUnavailable, fmt::format("the disk of '{}' is full: {}", path, why),
          "state_path"};
}

}  // namespace

RocksStateDb::RocksStateDb(std::string path, uint64_t storage_bytes, bool sync, rocksdb::Env* env)
    : path_(std::move(path)),
      storage_bytes_(storage_bytes),
      sync_(sync),
      env_(env != nullptr ? env : rocksdb::Env::Default()) {}

RocksStateDb::~RocksStateDb() = default;

StatusOr<std::unique_ptr<RocksStateDb>> RocksStateDb::Open(const std::string& path,
                                                           uint64_t storage_bytes, bool sync,
                                                           rocksdb::Env* env) {
  std::unique_ptr<RocksStateDb> db(new RocksStateDb(path, storage_bytes, sync, env));
  Status status = db->OpenDb();
  if (!status.ok() && status.code() != StatusCode::kUnavailable) return status;
  db->failed_ = !status.ok();
  db->why_closed_ = std::move(status);
  return db;
}

Status RocksStateDb::OpenDb() {
  if (const std::error_code error = base::MakePrivateDirectory(path_)) {
    if (error.value() == ENOSPC || error.value() == EDQUOT) {
      return DiskFull(path_, error.message());
    }
    return InvalidArgument(
        fmt::format("the directory '{}' cannot be made: {}", path_, error.message()), "state_path");
  }
  // RocksDB would remove what has a name of its files, and write beside the rest.
  const StatusOr<std::string> foreign = base::FindForeignEntry(path_, [](const auto& entry) {
    std::error_code unknown;
    return base::IsRocksDbName(entry.path().filename().string()) &&
           std::filesystem::is_regular_file(entry.symlink_status(unknown));
  });
  if (!foreign.ok()) {
    return InvalidArgument(fmt::format("the directory '{}' {}", path_, foreign.status().message()),
                           "state_path");
  }
  if (!foreign->empty()) {
    return InvalidArgument(
        fmt::format(
            "'{}/{}' was not made by Ropeway; choose another directory, or move this elsewhere",
            path_, *foreign),
        "state_path");
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(MakeOptions(storage_bytes_, env_), path_, &db);
  db_.reset(db);
  if (status.ok()) return {};
  if (IsFull(status)) return DiskFull(path_, status.ToString());
  if (status.IsCorruption()) {
    return {
        StatusCode::kDataLoss,
        fmt::format("the state in '{}' is damaged: {}; move the directory away to start without it",
                    path_, status.ToString()),
        "state_path"};
  }
  return {StatusCode::kInvalidArgument,
          fmt::format("the state in '{}' cannot be opened (is another process using it?): {}",
                      path_, status.ToString()),
          "state_path"};
}

Status RocksStateDb::CheckRoom() const {
  uint64_t needed = kOpenBytes;
  std::error_code error;
  for (std::filesystem::directory_iterator i(path_, error), end; !error && i != end;
       i.increment(error)) {
    // Opening writes the contents of the log to a table.
    std::error_code unknown;
    const uint64_t bytes = i->path().extension() == ".log" ? i->file_size(unknown) : 0;
    if (!unknown) needed += bytes;
  }
  uint64_t free = 0;
  if (!env_->GetFreeSpace(path_, &free).ok() || free >= needed) return {};
  return DiskFull(path_, fmt::format("{} bytes are free, {} are needed", free, needed));
}

// Not by DB::Resume: in RocksDB 7.8 a log whose write has failed stays in use where nothing else
// was written, and the next write to it aborts the process.
Status RocksStateDb::Reopen() {
  // Each attempt on a full disk would leave files behind; what is open can be read meanwhile.
  if (Status status = CheckRoom(); !status.ok()) return status;
  const std::unique_lock lock(mu_);
  db_.reset();
  why_closed_ = OpenDb();
  return why_closed_;
}

Status RocksStateDb::Closed() const {
  return {StatusCode::kUnavailable, why_closed_.message(), "state_path"};
}

Status RocksStateDb::Write(std::span<const StateChange> changes) {
  if (failed_) {
    if (Status status = Reopen(); !status.ok()) return status;
  }
  rocksdb::WriteBatch batch;
  for (const StateChange& change : changes) {
    const rocksdb::Status status =
        change.value ? batch.Put(change.key, *change.value) : batch.Delete(change.key);
    if (!status.ok()) return StatusOf(status, path_);
  }
  rocksdb::WriteOptions options;
  options.sync = sync_;
  const std::shared_lock lock(mu_);
  if (db_ == nullptr) return Closed();
  const rocksdb::Status status = db_->Write(options, &batch);
  failed_ = !status.ok();
  return StatusOf(status, path_);
}

StatusOr<std::string> RocksStateDb::Read(const std::string& key) const {
  const std::shared_lock lock(mu_);
  if (db_ == nullptr) return Closed();
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), key, &value);
  if (!status.ok()) return StatusOf(status, path_);
  return value;
}

Status RocksStateDb::Visit(const std::string& prefix, const VisitFn& visit) const {
  const std::shared_lock lock(mu_);
  if (db_ == nullptr) return Closed();
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options));
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix); it->Next()) {
    visit(it->key().ToStringView(), it->value().ToStringView());
  }
  return StatusOf(it->status(), path_);
}

}  // namespace ropeway::store
