#include "store/test_full_disk.h"

#include <rocksdb/file_system.h>

#include <string>
#include <utility>

namespace ropeway::store {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

IOStatus NoRoom() { return IOStatus::NoSpace("a test's disk", "No space left on device"); }

IOStatus TakeWrite(FullDisk* disk) {
  return disk->writes_left.fetch_sub(1) > 0 ? IOStatus::OK() : NoRoom();
}

class LimitedFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LimitedFile(std::unique_ptr<rocksdb::FSWritableFile>&& file, FullDisk* disk)
      : FSWritableFileOwnerWrapper(std::move(file)), disk_(disk) {}

  // Of the first write that does not fit, half does.
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* context) override {
    const int64_t left = disk_->writes_left.fetch_sub(1);
    if (left > 0) return FSWritableFileOwnerWrapper::Append(data, options, context);
    if (left == 0) {
      (void)FSWritableFileOwnerWrapper::Append(rocksdb::Slice(data.data(), data.size() / 2),
                                               options, context);
    }
    return NoRoom();
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* context) override {
    return Append(data, options, context);
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return TakeSync(); }
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return TakeSync(); }

 private:
  IOStatus TakeSync() {
    ++disk_->syncs;
    return TakeWrite(disk_);
  }

  FullDisk* const disk_;
};

class LimitedFiles final : public rocksdb::FileSystemWrapper {
 public:
  explicit LimitedFiles(FullDisk* disk)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(disk) {}
  const char* Name() const override { return "LimitedFiles"; }

  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* context) override {
    IOStatus status = TakeWrite(disk_);
    if (status.ok()) status = FileSystemWrapper::NewWritableFile(name, options, file, context);
    if (status.ok()) *file = std::make_unique<LimitedFile>(std::move(*file), disk_);
    return status;
  }
  IOStatus CreateDirIfMissing(const std::string& name, const IOOptions& options,
                              IODebugContext* context) override {
    if (IOStatus status = TakeWrite(disk_); !status.ok()) return status;
    return FileSystemWrapper::CreateDirIfMissing(name, options, context);
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* context) override {
    if (IOStatus status = TakeWrite(disk_); !status.ok()) return status;
    return FileSystemWrapper::RenameFile(from, to, options, context);
  }
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* free,
                        IODebugContext* context) override {
    if (!disk_->is_full() || !disk_->tells) {
      return FileSystemWrapper::GetFreeSpace(path, options, free, context);
    }
    *free = 0;
    return IOStatus::OK();
  }

 private:
  FullDisk* const disk_;
};

}  // namespace

FullDisk::FullDisk() : env_(rocksdb::NewCompositeEnv(std::make_shared<LimitedFiles>(this))) {}

FullDisk::~FullDisk() = default;

}  // namespace ropeway::store
