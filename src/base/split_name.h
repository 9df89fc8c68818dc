// Names of models that are split into several files: NAME-00001-of-00003.gguf.
#ifndef ROPEWAY_BASE_SPLIT_NAME_H_
#define ROPEWAY_BASE_SPLIT_NAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ropeway::base {

// Files of one model that are read, at most.
inline constexpr uint32_t kMaxSplitFiles = 10'000;

struct SplitName {
  std::string prefix;     // All before "-00001-of-00003", with its folder.
  std::string extension;  // ".gguf"
  uint32_t number = 1;    // From 1 to `count`.
  uint32_t count = 1;

  // The name of another part.
  std::string Part(uint32_t part) const;
};

// nullopt if `path` is no such name.
std::optional<SplitName> ParseSplitName(std::string_view path);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_SPLIT_NAME_H_
