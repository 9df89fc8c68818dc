#include "gpu/program_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/sha256.h"

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

constexpr size_t kSumBytes = 64;

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
  std::ifstream file(PathOf(key), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.size() <= kSumBytes) return std::nullopt;
  std::string program = text.substr(kSumBytes);
  if (std::string_view(text).substr(0, kSumBytes) != SumOf(key, program)) return std::nullopt;
  return program;
}

void ProgramCache::Keep(const std::string& key, const std::string& program) const {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  static std::atomic<int> kept = 0;
  const fs::path path = PathOf(key);
  const fs::path part = folder_ / fmt::format("{}.{}.part", getpid(), kept++);
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << SumOf(key, program) << program;
  file.close();
  if (file.good()) fs::rename(part, path, error);
  if (!file.good() || error) fs::remove(part, error);
}

}  // namespace ropeway::gpu
