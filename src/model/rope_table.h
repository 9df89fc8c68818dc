// The rows of cosines and sines of a model's positions, computed when they are first asked for:
// most contexts that models allow are much longer than what they are used with.
#ifndef ROPEWAY_MODEL_ROPE_TABLE_H_
#define ROPEWAY_MODEL_ROPE_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/page_arena.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Thread rule: all calls from any thread.
class RopeTable {
 public:
  // `frequencies` and `magnitude` as for FillRopeRow. Of all rows address space is taken at once,
  // and memory as they are filled. kResourceExhausted if the system denies it. May throw bad_alloc.
  static StatusOr<std::unique_ptr<RopeTable>> Make(std::vector<double> frequencies,
                                                   double magnitude, int32_t positions);

  // Bytes of a table whose rows are all filled. `dim`: RopeParams'.
  static uint64_t Bytes(int32_t positions, int32_t dim) {
    return static_cast<uint64_t>(positions) * static_cast<uint64_t>(dim) * sizeof(float);
  }

  // See FillRopeRow. REQUIRES: 0 <= position < positions.
  const float* row(int32_t position) const {
    const auto at = static_cast<size_t>(position);
    if (!filled_[at / kGroup].load(std::memory_order_acquire)) Fill(at / kGroup);
    return rows() + at * row_floats();
  }

 private:
  // Positions that are filled together: a tenth of a millisecond of work.
  static constexpr size_t kGroup = 16;

  RopeTable(std::vector<double> frequencies, double magnitude, int32_t positions,
            base::PageArena arena);

  size_t row_floats() const { return 2 * frequencies_.size(); }
  float* rows() const { return reinterpret_cast<float*>(arena_.data()); }
  void Fill(size_t group) const;

  const std::vector<double> frequencies_;
  const double magnitude_;
  const size_t positions_;
  const base::PageArena arena_;
  mutable std::mutex mutex_;  // Held to fill a group.
  const std::unique_ptr<std::atomic<bool>[]> filled_;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_ROPE_TABLE_H_
