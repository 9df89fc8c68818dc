#include "kvcache/test_disk_tier.h"

#include <gtest/gtest.h>
#include <rocksdb/file_system.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <utility>

namespace ropeway::kvcache {
namespace {

const base::RealClock kClock;

rocksdb::IOStatus TakeWrite(FaultyDisk* disk) {
  if (disk->writes_left.fetch_sub(1) > 0) return rocksdb::IOStatus::OK();
  return rocksdb::IOStatus::NoSpace("a test's disk is full");
}

class FaultyWriter final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyWriter(std::unique_ptr<rocksdb::FSWritableFile>&& file, FaultyDisk* disk)
      : FSWritableFileOwnerWrapper(std::move(file)), disk_(disk) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    if (rocksdb::IOStatus status = Reject(data); !status.ok()) return status;
    return FSWritableFileOwnerWrapper::Append(data, options, context);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info,
                           rocksdb::IODebugContext* context) override {
    if (rocksdb::IOStatus status = Reject(data); !status.ok()) return status;
    return FSWritableFileOwnerWrapper::Append(data, options, info, context);
  }

 private:
  rocksdb::IOStatus Reject(const rocksdb::Slice& data) {
    if (disk_->fail_writes) return rocksdb::IOStatus::IOError("a test's device fails to write");
    if (rocksdb::IOStatus status = TakeWrite(disk_); !status.ok()) return status;
    if (disk_->free_bytes.fetch_sub(static_cast<int64_t>(data.size())) >=
        static_cast<int64_t>(data.size())) {
      return rocksdb::IOStatus::OK();
    }
    return rocksdb::IOStatus::NoSpace("a test's disk is full");
  }

  FaultyDisk* const disk_;
};

class FaultyReader final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  FaultyReader(std::unique_ptr<rocksdb::FSRandomAccessFile>&& file, FaultyDisk* disk)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), disk_(disk) {}

  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* context) const override {
    if (disk_->fail_reads) return rocksdb::IOStatus::IOError("a test's device fails to read");
    rocksdb::IOStatus status =
        FSRandomAccessFileOwnerWrapper::Read(offset, n, options, result, scratch, context);
    if (status.ok() && disk_->flip_reads && result->size() > 100) {
      std::memmove(scratch, result->data(), result->size());
      scratch[result->size() / 2] ^= 1;
      *result = rocksdb::Slice(scratch, result->size());
    }
    return status;
  }

 private:
  FaultyDisk* const disk_;
};

class FaultyFiles final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFiles(FaultyDisk* disk)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(disk) {}
  const char* Name() const override { return "FaultyFiles"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus status = TakeWrite(disk_);
    if (status.ok()) status = FileSystemWrapper::NewWritableFile(name, options, file, context);
    if (status.ok()) *file = std::make_unique<FaultyWriter>(std::move(*file), disk_);
    return status;
  }
  rocksdb::IOStatus CreateDir(const std::string& name, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* context) override {
    if (rocksdb::IOStatus status = TakeWrite(disk_); !status.ok()) return status;
    return FileSystemWrapper::CreateDir(name, options, context);
  }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    if (rocksdb::IOStatus status = TakeWrite(disk_); !status.ok()) return status;
    return FileSystemWrapper::RenameFile(from, to, options, context);
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewRandomAccessFile(name, options, file, context);
    if (status.ok() && name.ends_with(".blob")) {
      *file = std::make_unique<FaultyReader>(std::move(*file), disk_);
    }
    return status;
  }

 private:
  FaultyDisk* const disk_;
};

}  // namespace

TestFolder::TestFolder() {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string("ropeway-") + test->test_suite_name() + "-" + test->name() + "-" +
                     std::to_string(getpid());
  std::replace(name.begin(), name.end(), '/', '-');  // Of a test with parameters.
  path_ = std::filesystem::temp_directory_path() / name;
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

core::BlockName TestName(uint64_t i) {
  core::BlockName name;
  std::mt19937_64 random(i * 2 + 1);
  for (size_t k = 0; k < name.bytes.size(); k += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(name.bytes.data() + k, &word, sizeof word);
  }
  return name;
}

std::vector<std::byte> TestBlock(uint64_t i, size_t bytes) {
  std::vector<std::byte> block(bytes);
  std::mt19937_64 random(i);
  for (size_t k = 0; k < bytes; k += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(block.data() + k, &word, std::min(sizeof word, bytes - k));
  }
  return block;
}

DiskTierOptions TestOptions(const std::string& path) {
  return {.cache = {.disk_path = path, .disk_bytes = 64 << 20, .disk_write_rate = int64_t{1} << 40},
          .block_bytes = kTestBlockBytes,
          .flush_interval = std::chrono::milliseconds(1),
          .clock = &kClock};
}

std::unique_ptr<DiskTier> OpenTier(const DiskTierOptions& options) {
  StatusOr<std::unique_ptr<DiskTier>> tier = DiskTier::Open(options);
  if (tier.ok()) return *std::move(tier);
  ADD_FAILURE() << tier.status().message();
  return nullptr;
}

void PutAll(DiskTier* tier, uint64_t first, uint64_t last, size_t bytes) {
  for (uint64_t i = first; i < last; ++i) {
    while (!tier->Put(TestName(i), TestBlock(i, bytes))) {
      ASSERT_TRUE(tier->Usage().on);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void FlushAll(DiskTier* tier) {
  tier->Flush();
  while (tier->Usage().pending_bytes > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::vector<KvRead> ReadMany(DiskTier* tier, const std::vector<core::BlockName>& names) {
  static std::atomic<uint64_t> tickets{1'000'000};
  std::vector<KvRead> all;
  if (!tier->Get(++tickets, names)) return all;
  while (all.size() < names.size()) {
    for (KvRead& read : tier->TakeReads(7)) all.push_back(std::move(read));
    if (!all.empty() && all.back().bytes.empty()) break;
    std::this_thread::yield();
  }
  return all;
}

std::optional<std::vector<std::byte>> ReadOne(DiskTier* tier, const core::BlockName& name) {
  std::vector<KvRead> reads = ReadMany(tier, {name});
  if (reads.empty() || reads[0].bytes.empty()) return std::nullopt;
  return std::move(reads[0].bytes);
}

int CountRight(DiskTier* tier, uint64_t first, uint64_t last, size_t bytes) {
  int right = 0;
  for (uint64_t i = first; i < last; ++i) {
    const std::optional<std::vector<std::byte>> block = ReadOne(tier, TestName(i));
    if (!block) continue;
    EXPECT_EQ(*block, TestBlock(i, bytes)) << i;
    ++right;
  }
  return right;
}

void ExpectOff(DiskTier* tier) {
  EXPECT_FALSE(tier->Put(TestName(50), TestBlock(50)));
  EXPECT_FALSE(tier->Contains(TestName(1)));
  EXPECT_FALSE(tier->Get(1, {TestName(1)}));
  EXPECT_EQ(tier->Usage().blocks, 0U);
  EXPECT_EQ(tier->Usage().pending_bytes, 0U);
  tier->Flush();
  tier->Erase(TestName(1));
}

std::map<std::string, std::string> TreeOf(const std::string& path) {
  std::map<std::string, std::string> tree;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    std::string contents = "/";
    if (entry.is_regular_file()) {
      std::ifstream file(entry.path(), std::ios::binary);
      contents.assign(std::istreambuf_iterator<char>(file), {});
    }
    tree[std::filesystem::relative(entry.path(), path).string()] = contents;
  }
  return tree;
}

uint64_t DiskUsage(const std::string& path) {
  uint64_t bytes = 0;
  std::error_code error;
  // A folder that is removed meanwhile ends only its own part of the walk.
  for (std::filesystem::directory_iterator i(path, error), end; !error && i != end;
       i.increment(error)) {
    struct stat found;
    if (lstat(i->path().c_str(), &found) != 0) continue;
    bytes += static_cast<uint64_t>(found.st_blocks) * 512;
    if (S_ISDIR(found.st_mode)) bytes += DiskUsage(i->path().string());
  }
  return bytes;
}

FaultyDisk::FaultyDisk() : env_(rocksdb::NewCompositeEnv(std::make_shared<FaultyFiles>(this))) {}

FaultyDisk::~FaultyDisk() = default;

}  // namespace ropeway::kvcache
