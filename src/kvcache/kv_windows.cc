#include "kvcache/kv_windows.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ropeway::kvcache {

KvWindows::KvWindows(std::vector<int32_t> windows)
    : windows_(std::move(windows)),
      any_(std::any_of(windows_.begin(), windows_.end(),
                       [](int32_t window) { return window > 0; })) {}

int32_t KvWindows::FirstKept(int32_t group, int32_t positions) const {
  if (window(group) == 0) return 0;
  const int32_t whole = positions / base::kBlockTokens * base::kBlockTokens;
  return std::max(0, whole + 1 - window(group)) / base::kBlockTokens;
}

int32_t KvWindows::MostTaken(int32_t group, int32_t from, int32_t positions) const {
  const int32_t all = std::max(0, BlocksFor(positions) - from);
  return window(group) == 0 ? all : std::min(all, BlocksFor(window(group)) + 1);
}

int64_t KvWindows::BlocksForAlone(int64_t positions) const {
  const int64_t all = (positions + base::kBlockTokens - 1) / base::kBlockTokens;
  int64_t blocks = 0;
  for (const int32_t window : windows_) {
    // What its first row sees of a cached prefix, and what it takes at once.
    blocks += window == 0 ? all : std::min(all, 2 * int64_t{BlocksFor(window)} + 1);
  }
  return blocks;
}

int64_t KvWindows::MostPositions(int64_t blocks) const {
  int64_t fits = 0;
  int64_t beyond = int64_t{std::numeric_limits<int32_t>::max()} + 1;
  while (beyond - fits > 1) {
    const int64_t middle = fits + (beyond - fits) / 2;
    (BlocksForAlone(middle * base::kBlockTokens) <= blocks ? fits : beyond) = middle;
  }
  return fits * base::kBlockTokens;
}

}  // namespace ropeway::kvcache
