// Internal to this room and its tests: compiled programs in a folder, so that the next start need
// not compile them.
#ifndef ROPEWAY_GPU_PROGRAM_CACHE_H_
#define ROPEWAY_GPU_PROGRAM_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace ropeway::gpu {

// Several processes may have one folder. What cannot be kept or found again is no error: it
// is compiled.
//
// What was used least recently goes where a new program would be one too many: programs of earlier
// drivers, compilers and versions of the kernels are asked for no more. Nothing else of the folder
// is touched.
class ProgramCache {
 public:
  // The newest is kept in any case. A device has some 20 programs, one for each type of weights.
  struct Limits {
    size_t files = 256;
    uintmax_t bytes = uintmax_t{64} << 20;
  };

  // An empty path: nothing is kept.
  explicit ProgramCache(std::filesystem::path folder) : ProgramCache(std::move(folder), Limits()) {}
  ProgramCache(std::filesystem::path folder, Limits limits)
      : folder_(std::move(folder)), limits_(limits) {}

  // $XDG_CACHE_HOME/ropeway/kernels, or ~/.cache/ropeway/kernels; empty where there is no home.
  static std::filesystem::path DefaultFolder();

  // What was kept under the key, whole and unchanged.
  std::optional<std::string> Find(const std::string& key) const;
  void Keep(const std::string& key, const std::string& program) const;

 private:
  std::filesystem::path PathOf(const std::string& key) const;

  // Removes what is beyond the limits, but not `newest`, and what killed processes left half-done.
  void Prune(const std::filesystem::path& newest) const;

  std::filesystem::path folder_;
  Limits limits_;
};

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_PROGRAM_CACHE_H_
