#include "gpu/program_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "base/system.h"
#include "ropeway/status.h"

namespace ropeway::gpu {
namespace {

namespace fs = std::filesystem;

// Of what is kept, before it: in a file of another program's name, too, it would not fit.
std::string SumOf(const std::string& key, std::string_view program) {
  base::Sha256Stream sum;
  sum.Add(key.data(), key.size());
  sum.Add(program.data(), program.size());
  return base::HexText(sum.End());
}

// Of a SHA-256 sum in text: a program's file has the key's as its name, and one more at its start.
constexpr size_t kDigits = 64;
constexpr std::string_view kPartEnd = ".part";

enum class Own { kNo, kProgram, kPart };

Own OwnOf(std::string_view name) {
  const size_t digits = std::min(name.find_first_not_of("0123456789abcdef"), name.size());
  if (digits != kDigits) return Own::kNo;
  if (name.size() == kDigits) return Own::kProgram;
  return name[kDigits] == '.' && name.ends_with(kPartEnd) ? Own::kPart : Own::kNo;
}

}  // namespace

fs::path ProgramCache::DefaultFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return fs::path(cache) / "ropeway" / "kernels";
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return fs::path(home) / ".cache" / "ropeway" / "kernels";
}

fs::path ProgramCache::PathOf(const std::string& key) const {
  return folder_ / base::HexText(base::Sha256(key.data(), key.size()));
}

std::optional<std::string> ProgramCache::Find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const fs::path path = PathOf(key);
  const StatusOr<std::string> text =
      base::ReadRegularFile(path.string(), static_cast<size_t>(limits_.bytes));
  if (!text.ok() || text->size() <= kDigits) return std::nullopt;
  std::string program = text->substr(kDigits);
  if (std::string_view(*text).substr(0, kDigits) != SumOf(key, program)) return std::nullopt;
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // When it was used.
  return program;
}

void ProgramCache::Keep(const std::string& key, const std::string& program) const {
  if (folder_.empty()) return;
  base::MakePrivateDirectory(folder_);
  static std::atomic<int> kept = 0;
  const fs::path path = PathOf(key);
  const fs::path part = fmt::format("{}.{}.{}{}", path.string(), getpid(), kept++, kPartEnd);
  std::error_code error;
  const bool whole = base::ReplaceFile(part.string(), SumOf(key, program) + program);
  if (whole) fs::rename(part, path, error);
  if (!whole || error) {
    fs::remove(part, error);
    return;
  }
  Prune(path);
}

void ProgramCache::Prune(const fs::path& newest) const {
  struct File {
    fs::file_time_type used;
    uintmax_t bytes = 0;
    fs::path path;
  };
  constexpr std::chrono::hours kWritten(24);  // No process writes a file for so long.
  const fs::file_time_type now = fs::file_time_type::clock::now();
  std::vector<File> programs;
  std::error_code error;
  for (fs::directory_iterator i(folder_, error), end; !error && i != end; i.increment(error)) {
    const Own own = OwnOf(i->path().filename().string());
    std::error_code gone;  // Another process may remove it meanwhile.
    if (own == Own::kNo || !fs::is_regular_file(i->symlink_status(gone))) continue;
    File file = {i->last_write_time(gone), 0, i->path()};
    if (!gone) file.bytes = i->file_size(gone);
    if (gone) continue;
    if (own == Own::kProgram)
      programs.push_back(std::move(file));
    else if (now - file.used > kWritten)
      fs::remove(file.path, gone);
  }
  std::ranges::sort(programs, [&newest](const File& a, const File& b) {
    return std::pair(a.path == newest, a.used) > std::pair(b.path == newest, b.used);
  });
  uintmax_t bytes = 0;
  for (size_t i = 0; i < programs.size(); ++i) {
    bytes += programs[i].bytes;
    if (i == 0 || (i < limits_.files && bytes <= limits_.bytes)) continue;
    fs::remove(programs[i].path, error);
  }
}

}  // namespace ropeway::gpu
