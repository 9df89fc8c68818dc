#include "model/rope_table.h"

#include <algorithm>
#include <utility>

#include "model/rope.h"

namespace ropeway::model {

StatusOr<std::unique_ptr<RopeTable>> RopeTable::Make(std::vector<double> frequencies,
                                                     double magnitude, int32_t positions) {
  const uint64_t bytes = Bytes(positions, static_cast<int32_t>(2 * frequencies.size()));
  StatusOr<base::PageArena> arena = base::PageArena::Make(static_cast<size_t>(bytes));
  if (!arena.ok()) return arena.status();
  return std::unique_ptr<RopeTable>(
      new RopeTable(std::move(frequencies), magnitude, positions, *std::move(arena)));
}

RopeTable::RopeTable(std::vector<double> frequencies, double magnitude, int32_t positions,
                     base::PageArena arena)
    : frequencies_(std::move(frequencies)),
      magnitude_(magnitude),
      positions_(static_cast<size_t>(positions)),
      arena_(std::move(arena)),
      filled_(new std::atomic<bool>[(positions_ + kGroup - 1) / kGroup]()) {}

void RopeTable::Fill(size_t group) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (filled_[group].load(std::memory_order_relaxed)) return;
  const size_t end = std::min((group + 1) * kGroup, positions_);
  for (size_t position = group * kGroup; position < end; ++position) {
    FillRopeRow(frequencies_, magnitude_, static_cast<int32_t>(position),
                rows() + position * row_floats());
  }
  filled_[group].store(true, std::memory_order_release);
}

}  // namespace ropeway::model
