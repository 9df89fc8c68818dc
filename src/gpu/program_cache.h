// Internal to this room and its tests: compiled programs in a folder, so that the next start need
// not compile them.
#ifndef ROPEWAY_GPU_PROGRAM_CACHE_H_
#define ROPEWAY_GPU_PROGRAM_CACHE_H_

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace ropeway::gpu {

// Several processes may have one folder. What cannot be kept or found again is no error: it
// is compiled.
class ProgramCache {
 public:
  // An empty path: nothing is kept.
  explicit ProgramCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // $XDG_CACHE_HOME/ropeway/kernels, or ~/.cache/ropeway/kernels; empty where there is no home.
  static std::filesystem::path DefaultFolder();

  // What was kept under the key, whole and unchanged.
  std::optional<std::string> Find(const std::string& key) const;
  void Keep(const std::string& key, const std::string& program) const;

 private:
  std::filesystem::path PathOf(const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_PROGRAM_CACHE_H_
