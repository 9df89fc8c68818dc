#include "store/rocks_state_db.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/system.h"

namespace ropeway::store {
namespace {

constexpr size_t kBlockCacheBytes = size_t{2} << 20;

// Everything but the values is kept small relative to `storage_bytes`.
rocksdb::Options MakeOptions(uint64_t storage_bytes) {
  rocksdb::Options options;
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
  options.keep_log_file_num = 2;
  options.max_log_file_size = 256 << 10;
  options.max_manifest_file_size = 256 << 10;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kBlockCacheBytes);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

Status StatusOf(const rocksdb::Status& status, const std::string& path) {
  if (status.ok()) return {};
  if (status.IsNotFound()) return {StatusCode::kNotFound, "no such key"};
  const std::string message = fmt::format("{}: {}", path, status.ToString());
  if (status.IsCorruption()) return {StatusCode::kDataLoss, message};
  if (status.IsNoSpace()) return {StatusCode::kResourceExhausted, message};
  return {StatusCode::kUnavailable, message};
}

Status Closed(const std::string& path) {
  return {StatusCode::kUnavailable, path + ": the database could not be opened again"};
}

}  // namespace

RocksStateDb::RocksStateDb(std::string path, uint64_t storage_bytes)
    : path_(std::move(path)), storage_bytes_(storage_bytes) {}

RocksStateDb::~RocksStateDb() = default;

StatusOr<std::unique_ptr<RocksStateDb>> RocksStateDb::Open(const std::string& path,
                                                           uint64_t storage_bytes) {
  if (const std::error_code error = base::MakePrivateDirectory(path)) {
    return InvalidArgument(
        fmt::format("the directory '{}' cannot be made: {}", path, error.message()), "state_path");
  }
  std::unique_ptr<RocksStateDb> db(new RocksStateDb(path, storage_bytes));
  if (Status status = db->OpenDb(); !status.ok()) return status;
  return db;
}

Status RocksStateDb::OpenDb() {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(MakeOptions(storage_bytes_), path_, &db);
  db_.reset(db);
  if (status.ok()) return {};
  if (status.IsCorruption()) {
    return {
        StatusCode::kDataLoss,
        fmt::format("the state in '{}' is damaged: {}; move the directory away to begin without "
                    "it",
                    path_, status.ToString()),
        "state_path"};
  }
  return {StatusCode::kInvalidArgument,
          fmt::format("the state in '{}' cannot be opened (is another process using it?): {}",
                      path_, status.ToString()),
          "state_path"};
}

Status RocksStateDb::Recover() {
  {
    const std::shared_lock lock(mu_);
    if (db_ != nullptr && db_->Resume().ok()) return {};
  }
  // After a failed sync of the log RocksDB rejects writes until it is reopened.
  const std::unique_lock lock(mu_);
  db_.reset();
  return OpenDb();
}

Status RocksStateDb::Write(std::span<const StateChange> changes) {
  if (failed_) {
    if (Status status = Recover(); !status.ok()) return status;
  }
  rocksdb::WriteBatch batch;
  for (const StateChange& change : changes) {
    const rocksdb::Status status =
        change.value ? batch.Put(change.key, *change.value) : batch.Delete(change.key);
    if (!status.ok()) return StatusOf(status, path_);
  }
  rocksdb::WriteOptions options;
  options.sync = true;
  const std::shared_lock lock(mu_);
  if (db_ == nullptr) return Closed(path_);
  const rocksdb::Status status = db_->Write(options, &batch);
  failed_ = !status.ok();
  return StatusOf(status, path_);
}

StatusOr<std::string> RocksStateDb::Read(const std::string& key) const {
  const std::shared_lock lock(mu_);
  if (db_ == nullptr) return Closed(path_);
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), key, &value);
  if (!status.ok()) return StatusOf(status, path_);
  return value;
}

Status RocksStateDb::Visit(const std::string& prefix, const VisitFn& visit) const {
  const std::shared_lock lock(mu_);
  if (db_ == nullptr) return Closed(path_);
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options));
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix); it->Next()) {
    visit(it->key().ToStringView(), it->value().ToStringView());
  }
  return StatusOf(it->status(), path_);
}

}  // namespace ropeway::store
