#include "kvcache/disk_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rocksdb/env.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/system.h"
#include "kvcache/disk_generation.h"

namespace ropeway::kvcache {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGeneration = "generation-";
constexpr char kLetters[] = {'w', 'c', 'd'};
constexpr const char* kNames[] = {"writing", "compacting", "dropping a generation"};
constexpr char kNothing = '-';

Status Unusable(const std::string& path, const std::string& why) {
  return InvalidArgument(fmt::format("kv_disk_path (--kv-disk-path): '{}': {}", path, why),
                         "kv_disk_path");
}

std::string FormatText(size_t block_bytes) {
  return fmt::format("ropeway kv blocks\nformat {}\nblock_bytes {}\nbyte_order little\n",
                     kDiskFormat, block_bytes);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Writes the file atomically, also if the process or the machine stops.
Status WriteWhole(const std::string& path, const std::string& text, rocksdb::Env* env) {
  const std::string partial = path + ".partial";
  rocksdb::Status status = rocksdb::WriteStringToFile(env, text, partial, true);
  if (status.ok()) status = env->RenameFile(partial, path);
  if (status.ok()) return {};
  return Unusable(path, status.ToString());
}

// When this thread's current job began, by its CPU clock.
thread_local double began = 0;

}  // namespace

DiskDirectory::DiskDirectory(std::string path, rocksdb::Env* env)
    : path_(std::move(path)), env_(env) {}

StatusOr<std::unique_ptr<DiskDirectory>> DiskDirectory::Open(const std::string& path,
                                                             size_t block_bytes,
                                                             rocksdb::Env* env) {
  if (const std::error_code error = base::MakePrivateDirectory(path)) {
    return Unusable(path, fmt::format("cannot be made: {}", error.message()));
  }
  std::unique_ptr<DiskDirectory> directory(new DiskDirectory(path, env));
  if (Status status = directory->Lock(); !status.ok()) return status;
  if (Status status = directory->CheckFormat(block_bytes); !status.ok()) return status;
  if (Status status = directory->OpenMarks(); !status.ok()) return status;
  return directory;
}

DiskDirectory::~DiskDirectory() {
  if (marks_ >= 0) {
    close(marks_);
    unlink((path_ + "/UNDER_WAY").c_str());
  }
  if (lock_ != nullptr) env_->UnlockFile(lock_);
}

Status DiskDirectory::Lock() {
  const rocksdb::Status status = env_->LockFile(path_ + "/LOCK", &lock_);
  if (status.ok()) return {};
  const std::string why = status.ToString();
  const bool held = why.find("While lock file") != std::string::npos ||
                    why.find("lock hold by current process") != std::string::npos;
  return Unusable(path_, held ? "another process uses it; each needs a directory of its own" : why);
}

Status DiskDirectory::CheckFormat(size_t block_bytes) {
  const std::string file = path_ + "/FORMAT";
  const std::string expected = FormatText(block_bytes);
  const std::string found = ReadAll(file);
  if (found == expected) return {};
  const std::vector<uint32_t> generations = Generations();
  if (!generations.empty()) {
    base::Log().info(
        "{}: the KV blocks in it were made for another model or version; they are removed", path_);
  }
  for (const uint32_t generation : generations) {
    if (Status status = Remove(generation); !status.ok()) return status;
  }
  return WriteWhole(file, expected, env_);
}

Status DiskDirectory::OpenMarks() {
  const std::string file = path_ + "/UNDER_WAY";
  if (const std::string last = ReadAll(file); !last.empty()) {
    for (size_t i = 0; i < std::size(kLetters) && i < last.size(); ++i) {
      if (last[i] == kLetters[i]) {
        stopped_in_ += fmt::format("{}{}", stopped_in_.empty() ? "" : ", ", kNames[i]);
      }
    }
    if (stopped_in_.empty()) stopped_in_ = "nothing";
  }
  const std::string none(std::size(kLetters), kNothing);
  marks_ = open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (marks_ < 0 || pwrite(marks_, none.data(), none.size(), 0) < 0) {
    return Unusable(file, std::strerror(errno));
  }
  return {};
}

std::vector<uint32_t> DiskDirectory::Generations() const {
  std::vector<uint32_t> found;
  std::error_code error;
  for (fs::directory_iterator i(path_, error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    if (!name.starts_with(kGeneration)) continue;
    const char* const first = name.data() + kGeneration.size();
    uint32_t number = 0;
    const auto [rest, problem] = std::from_chars(first, name.data() + name.size(), number);
    if (problem == std::errc() && number > 0 && path_ + "/" + name == PathOf(number)) {
      found.push_back(number);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string DiskDirectory::PathOf(uint32_t generation) const {
  return fmt::format("{}/{}{:08}", path_, kGeneration, generation);
}

Status DiskDirectory::Remove(uint32_t generation) const {
  std::error_code error;
  fs::remove_all(PathOf(generation), error);
  if (!error) return {};
  return Unusable(PathOf(generation), fmt::format("cannot be removed: {}", error.message()));
}

void DiskDirectory::Mark(Work work, bool under_way) {
  const auto slot = static_cast<size_t>(work);
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_[slot] += under_way ? 1 : -1;
  const char letter = under_way_[slot] > 0 ? kLetters[slot] : kNothing;
  // Only for the next start's log and the tests: real writes will detect a failed device.
  if (pwrite(marks_, &letter, 1, static_cast<off_t>(slot)) < 0) return;
}

double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

DiskWatch::DiskWatch(DiskDirectory* directory, std::function<void()> on_error)
    : directory_(directory), on_error_(std::move(on_error)) {}

std::string DiskWatch::error() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

void DiskWatch::Begin(DiskDirectory::Work work) {
  began = ThreadCpuSeconds();
  directory_->Mark(work, true);
}

void DiskWatch::End(DiskDirectory::Work work) {
  directory_->Mark(work, false);
  cpu_nanos_ += static_cast<int64_t>((ThreadCpuSeconds() - began) * 1e9);
}

void DiskWatch::OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo&) {
  Begin(DiskDirectory::Work::kWriting);
}

void DiskWatch::OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) {
  End(DiskDirectory::Work::kWriting);
}

void DiskWatch::OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) {
  Begin(DiskDirectory::Work::kCompacting);
}

void DiskWatch::OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) {
  End(DiskDirectory::Work::kCompacting);
}

void DiskWatch::OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_.empty()) error_ = error->ToString();
  }
  on_error_();
}

}  // namespace ropeway::kvcache
