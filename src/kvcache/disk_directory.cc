#include "kvcache/disk_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rocksdb/env.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <filesystem>
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
constexpr std::string_view kTitle = "ropeway kv blocks\n";
constexpr uint32_t kEndOfNumbers = 1'000'000'000;
constexpr char kMarker[] = "MADE_BY_ROPEWAY";
constexpr char kPartial[] = ".partial";
constexpr char kFormat[] = "FORMAT";
constexpr char kUnderWay[] = "UNDER_WAY";
constexpr char kLetters[] = {'w', 'c', 'd'};
constexpr const char* kNames[] = {"writing", "compacting", "dropping a generation"};
constexpr char kNothingUnderWay = '-';

Status Unusable(const std::string& path, const std::string& why) {
  return InvalidArgument(fmt::format("kv_disk_path (--kv-disk-path): '{}': {}", path, why),
                         "kv_disk_path");
}

Status FullDisk(const std::string& path, const std::string& why) {
  return {StatusCode::kUnavailable, fmt::format("'{}': {}", path, why), "kv_disk_path"};
}

// A failure to write: the user's to mend, unless the disk is full.
Status WriteFailed(const std::string& path, const rocksdb::Status& status) {
  const std::string why = status.ToString();
  return status.IsNoSpace() || why.find("quota exceeded") != std::string::npos
             ? FullDisk(path, why)
             : Unusable(path, why);
}

Status WriteFailed(const std::string& path, const std::error_code& error, const char* what) {
  const std::string why = what + error.message();
  return error.value() == ENOSPC || error.value() == EDQUOT ? FullDisk(path, why)
                                                            : Unusable(path, why);
}

// `text` with a line that holds the checksum of all before it.
std::string Sealed(const std::string& text) {
  return fmt::format("{}checksum {:016x}\n", text, XXH3_64bits(text.data(), text.size()));
}

std::string FormatText(size_t block_bytes) {
  return Sealed(fmt::format("{}format {}\nblock_bytes {}\nbyte_order little\n", kTitle, kDiskFormat,
                            block_bytes));
}

// Whether a FORMAT is one, of whatever version.
bool IsFormat(const std::string& text) {
  const size_t checksum = text.rfind("checksum ");
  return text.starts_with(kTitle) && checksum != std::string::npos &&
         text == Sealed(text.substr(0, checksum));
}

// The first version had no checksum.
bool IsFirstFormat(const std::string& text) {
  const std::string begin = fmt::format("{}format 1\nblock_bytes ", kTitle);
  const std::string end = "\nbyte_order little\n";
  if (!text.starts_with(begin) || !text.ends_with(end) ||
      text.size() <= begin.size() + end.size()) {
    return false;
  }
  const std::string number = text.substr(begin.size(), text.size() - begin.size() - end.size());
  return number.find_first_not_of("0123456789") == std::string::npos;
}

std::string MarkerText(uint32_t generation) {
  return Sealed(fmt::format("{}generation {}\n", kTitle, generation));
}

// The number of what is named like a generation; 0: it is not.
uint32_t NumberOf(std::string_view name) {
  if (!name.starts_with(kGeneration)) return 0;
  uint32_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, problem] = std::from_chars(name.data() + kGeneration.size(), end, number);
  const bool good = problem == std::errc() && number < kEndOfNumbers;
  return good && name == fmt::format("{}{:08}", kGeneration, number) ? number : 0;
}

// Whether the tier may have made the entry: what it writes to must not lead elsewhere.
bool IsOwnEntry(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code unknown;
  const fs::file_status status = entry.symlink_status(unknown);
  if (NumberOf(name) > 0) return fs::is_directory(status);
  if (!fs::is_regular_file(status)) return false;
  if (name == "LOCK") return entry.file_size(unknown) == 0;
  return name == kFormat || name == std::string(kFormat) + kPartial || name == kUnderWay;
}

// A small file's contents; "" where it cannot be read, or is a pipe, which would be waited for.
std::string ReadAll(const std::string& path) {
  constexpr size_t kMost = 4096;  // More than any of ours has.
  const StatusOr<std::string> read = base::ReadRegularFile(path, kMost);
  return read.ok() ? *read : "";
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// Writes the file atomically, also if the process or the machine stops.
Status WriteWhole(const std::string& path, const std::string& text, rocksdb::Env* env) {
  const std::string partial = path + kPartial;
  rocksdb::Status status = rocksdb::WriteStringToFile(env, text, partial, true);
  if (status.ok()) status = env->RenameFile(partial, path);
  return status.ok() ? Status() : WriteFailed(path, status);
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
    return WriteFailed(path, error, "cannot be made: ");
  }
  std::unique_ptr<DiskDirectory> directory(new DiskDirectory(path, env));
  // Before the lock is made in it too: a directory that is not ours stays as it is.
  StatusOr<Contents> contents = directory->Inspect(block_bytes);
  if (!contents.ok()) return contents.status();
  if (Status status = directory->Lock(); !status.ok()) return status;
  contents = directory->Inspect(block_bytes);  // No other process changes it now.
  if (!contents.ok()) return contents.status();
  if (Status status = directory->Prepare(*contents, block_bytes); !status.ok()) return status;
  directory->TidyUnmarked();
  if (Status status = directory->OpenMarks(); !status.ok()) return status;
  return directory;
}

DiskDirectory::~DiskDirectory() {
  if (marks_ >= 0) {
    close(marks_);
    unlink((path_ + "/" + kUnderWay).c_str());
  }
  if (lock_ != nullptr) env_->UnlockFile(lock_);
}

Status DiskDirectory::Lock() {
  const rocksdb::Status status = env_->LockFile(path_ + "/LOCK", &lock_);
  if (status.ok()) return {};
  const std::string why = status.ToString();
  const bool held = why.find("While lock file") != std::string::npos ||
                    why.find("lock hold by current process") != std::string::npos;
  if (held) return Unusable(path_, "another process uses it; each needs a directory of its own");
  return WriteFailed(path_, status);
}

StatusOr<DiskDirectory::Contents> DiskDirectory::Inspect(size_t block_bytes) const {
  const StatusOr<Contents> contents = InspectFormat(block_bytes);
  if (!contents.ok()) return contents.status();
  const StatusOr<std::string> foreign = base::FindForeignEntry(path_, IsOwnEntry);
  if (!foreign.ok()) return Unusable(path_, foreign.status().message());
  if (foreign->empty()) return *contents;
  return Unusable(path_ + "/" + *foreign,
                  "was not made by Ropeway; choose another directory, or move this elsewhere");
}

StatusOr<DiskDirectory::Contents> DiskDirectory::InspectFormat(size_t block_bytes) const {
  const std::string file = path_ + "/" + kFormat;
  const std::string found = ReadAll(file);
  if (found == FormatText(block_bytes)) return Contents::kSame;
  if (IsFormat(found)) return Contents::kOther;
  if (IsFirstFormat(found)) return Contents::kUnmarked;
  const std::string advice =
      "; choose another directory, or empty this one if nothing in it is needed";
  if (Exists(file)) return Unusable(file, "is damaged, or was not made by Ropeway" + advice);
  // Without a FORMAT there is nothing else of ours, except for one that was being written.
  const std::string partial = ReadAll(file + kPartial);
  if (!kTitle.starts_with(partial.substr(0, kTitle.size()))) {
    return Unusable(file + kPartial, "was not made by Ropeway" + advice);
  }
  std::string foreign;
  if (Exists(path_ + "/" + kUnderWay)) foreign = path_ + "/" + kUnderWay;
  if (const std::vector<uint32_t> numbers = Numbers(); !numbers.empty()) {
    foreign = PathOf(numbers.front());
  }
  if (foreign.empty()) return Contents::kNothing;
  return Unusable(foreign, "was not made by Ropeway (there is no FORMAT file next to it)" + advice);
}

Status DiskDirectory::Prepare(Contents contents, size_t block_bytes) const {
  if (contents == Contents::kSame) return {};
  const std::vector<uint32_t> generations =
      contents == Contents::kUnmarked ? Numbers() : Generations();
  if (!generations.empty()) {
    base::Log().info("{}: its KV blocks were made for another model or version and are removed",
                     path_);
  }
  for (const uint32_t generation : generations) {
    if (Status status = Remove(generation); !status.ok()) return status;
  }
  return WriteWhole(path_ + "/" + kFormat, FormatText(block_bytes), env_);
}

void DiskDirectory::TidyUnmarked() const {
  for (const uint32_t number : Numbers()) {
    if (IsMarked(number)) continue;
    const std::string folder = PathOf(number);
    const std::string partial = folder + "/" + kMarker + kPartial;
    if (Exists(partial) && MarkerText(number).starts_with(ReadAll(partial))) {
      unlink(partial.c_str());
      rmdir(folder.c_str());  // If nothing else is in it.
    }
    std::error_code unknown;
    if (!Exists(folder) || fs::is_empty(folder, unknown)) continue;
    base::TryLog(spdlog::level::warn,
                 "{}: has no valid {}, so it was not made by the disk tier and is left alone",
                 folder, kMarker);
  }
}

Status DiskDirectory::OpenMarks() {
  const std::string file = path_ + "/" + kUnderWay;
  if (const std::string last = ReadAll(file); !last.empty()) {
    for (size_t i = 0; i < std::size(kLetters) && i < last.size(); ++i) {
      if (last[i] == kLetters[i]) {
        stopped_in_ += fmt::format("{}{}", stopped_in_.empty() ? "" : ", ", kNames[i]);
      }
    }
    if (stopped_in_.empty()) stopped_in_ = "idle";
  }
  const std::string none(std::size(kLetters), kNothingUnderWay);
  marks_ = open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (marks_ < 0 || pwrite(marks_, none.data(), none.size(), 0) < 0) {
    return WriteFailed(file, std::error_code(errno, std::generic_category()), "");
  }
  return {};
}

std::vector<uint32_t> DiskDirectory::Numbers() const {
  std::vector<uint32_t> found;
  std::error_code error;
  for (fs::directory_iterator i(path_, error), end; !error && i != end; i.increment(error)) {
    const uint32_t number = NumberOf(i->path().filename().string());
    if (number > 0) found.push_back(number);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool DiskDirectory::IsMarked(uint32_t generation) const {
  return ReadAll(PathOf(generation) + "/" + kMarker) == MarkerText(generation);
}

std::vector<uint32_t> DiskDirectory::Generations() const {
  std::vector<uint32_t> found = Numbers();
  std::erase_if(found, [this](uint32_t number) { return !IsMarked(number); });
  return found;
}

uint32_t DiskDirectory::NextNumber() const {
  const std::vector<uint32_t> numbers = Numbers();
  return numbers.empty() ? 1 : numbers.back() + 1;
}

std::string DiskDirectory::PathOf(uint32_t generation) const {
  return fmt::format("{}/{}{:08}", path_, kGeneration, generation);
}

Status DiskDirectory::Create(uint32_t generation) const {
  const std::string folder = PathOf(generation);
  if (const rocksdb::Status status = env_->CreateDir(folder); !status.ok()) {
    return WriteFailed(folder, status);
  }
  // RocksDB gives folders and files to all readers. The blocks are private in a public directory
  // too.
  if (chmod(folder.c_str(), 0700) != 0) {
    return WriteFailed(folder, std::error_code(errno, std::generic_category()), "");
  }
  return WriteWhole(folder + "/" + kMarker, MarkerText(generation), env_);
}

Status DiskDirectory::Remove(uint32_t generation) const {
  const std::string folder = PathOf(generation);
  std::error_code error;
  std::vector<fs::path> ours;
  bool others = false;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    if (name == kMarker) continue;
    std::error_code unknown;
    if (base::IsRocksDbName(name) && fs::is_regular_file(i->symlink_status(unknown))) {
      ours.push_back(i->path());
    } else {
      others = true;
    }
  }
  // A kill in between leaves what is known to be ours.
  ours.push_back(folder + "/" + kMarker);
  if (!others) ours.push_back(folder);
  for (size_t i = 0; i < ours.size() && !error; ++i) fs::remove(ours[i], error);
  if (error && error != std::errc::no_such_file_or_directory) {
    return Unusable(folder, fmt::format("cannot be removed: {}", error.message()));
  }
  if (others) {
    base::TryLog(spdlog::level::warn,
                 "{}: its KV blocks are removed, and its other files are left alone", folder);
  }
  return {};
}

void DiskDirectory::Mark(Work work, bool under_way) {
  const auto slot = static_cast<size_t>(work);
  const std::lock_guard<std::mutex> lock(mutex_);
  under_way_[slot] += under_way ? 1 : -1;
  const char letter = under_way_[slot] > 0 ? kLetters[slot] : kNothingUnderWay;
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

void DiskWatch::OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                                     bool* auto_recovery) {
  *auto_recovery = false;
}

void DiskWatch::OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_.empty()) error_ = error->ToString();
  }
  on_error_();
}

}  // namespace ropeway::kvcache
