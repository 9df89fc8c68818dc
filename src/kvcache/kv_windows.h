// Which KV blocks a sequence needs of each group of layers.
#ifndef ROPEWAY_KVCACHE_KV_WINDOWS_H_
#define ROPEWAY_KVCACHE_KV_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/kv_block.h"

namespace ropeway::kvcache {

// The number of blocks for `positions` positions.
inline int32_t BlocksFor(int64_t positions) {
  return static_cast<int32_t>((positions + base::kBlockTokens - 1) / base::kBlockTokens);
}

// A model's layers are divided into groups, and each has blocks of its own for the same positions.
// The layers of one group see equally many positions: all, or a window of the last ones. What no
// row sees any more is not kept.
class KvWindows {
 public:
  // Each group's window; 0: all positions. At least one group.
  explicit KvWindows(std::vector<int32_t> windows);

  int32_t groups() const { return static_cast<int32_t>(windows_.size()); }
  int32_t window(int32_t group) const { return windows_[static_cast<size_t>(group)]; }
  // Whether any group has a window.
  bool any() const { return any_; }

  // The first block of the group that is kept once `positions` positions are computed: the first
  // one that a row behind their last full block sees, so that a sequence can go on from there.
  int32_t FirstKept(int32_t group, int32_t positions) const;

  // The most new blocks of the group that a sequence takes when it starts behind block `from` and
  // needs `positions` positions. With a window it takes the rest as it goes on, and gives back
  // what it has passed.
  int32_t MostTaken(int32_t group, int32_t from, int32_t positions) const;

  // The blocks with which a sequence of `positions` positions can start and end where it is alone.
  int64_t BlocksForAlone(int64_t positions) const;
  // The most positions, in whole blocks, for which `blocks` are enough.
  int64_t MostPositions(int64_t blocks) const;

 private:
  const std::vector<int32_t> windows_;
  const bool any_;
};

}  // namespace ropeway::kvcache

#endif  // ROPEWAY_KVCACHE_KV_WINDOWS_H_
