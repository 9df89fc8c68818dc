// How a matrix product is divided into tiles. Included by one file per instruction set, after the
// header that defines its kMaxRows and TilesOf.
#ifndef ROPEWAY_KERNELS_CPU_MATMUL_INL_H_
#define ROPEWAY_KERNELS_CPU_MATMUL_INL_H_

#include "kernels/cpu/matmul-tile-inl.h"
#include "kernels/layout.h"

namespace ropeway::kernels {
namespace {

constexpr int kMaxGroups = kMaxRows / kRowGroup;
constexpr size_t kPrefetchAhead = 4096;
// Bytes of packed rows that are multiplied with one panel after the other: they stay in the
// second-level cache beside the weights that stream through it. But at least kMinBlockTiles tiles,
// however long their rows are: each block reads all weights again, which costs more than rows from
// the next cache.
constexpr size_t kRowBlockBytes = 384 * 1024;
constexpr int kMinBlockTiles = 2;

template <typename Type>
constexpr TileFunctions kTiles = TilesOf<Type>();

static const TileFunctions& TilesFor(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return kTiles<F32>;
    case WeightType::kF16:
      return kTiles<F16>;
    case WeightType::kBF16:
      return kTiles<BF16>;
    case WeightType::kQ4_0:
      return kTiles<Q40>;
    case WeightType::kQ4_1:
      return kTiles<Q41>;
    case WeightType::kQ5_0:
      return kTiles<Q50>;
    case WeightType::kQ5_1:
      return kTiles<Q51>;
    case WeightType::kQ8_0:
      return kTiles<Q80>;
    case WeightType::kQ2_K:
      return kTiles<Q2K>;
    case WeightType::kQ3_K:
      return kTiles<Q3K>;
    case WeightType::kQ4_K:
      return kTiles<Q4K>;
    case WeightType::kQ5_K:
      return kTiles<Q5K>;
    case WeightType::kQ6_K:
      return kTiles<Q6K>;
    case WeightType::kIQ4_NL:
      return kTiles<Iq4Nl>;
    case WeightType::kIQ4_XS:
      return kTiles<Iq4Xs>;
    case WeightType::kMXFP4:
      return kTiles<Mxfp4>;
  }
  __builtin_trap();
}

// Rows that are multiplied with each panel in turn, in tiles of about equal height, each a multiple
// of kRowGroup rows but the last: `larger` tiles of tile_groups + 1 groups, then the others.
struct RowBlock {
  const uint8_t* packed;
  size_t group_bytes;
  int rows;
  int tiles;
  int tile_groups;
  int larger;
};

static RowBlock RowBlockOf(const uint8_t* packed, size_t group_bytes, int rows) {
  const int groups = (rows + kRowGroup - 1) / kRowGroup;
  const int tiles = (groups + kMaxGroups - 1) / kMaxGroups;
  return {packed, group_bytes, rows, tiles, groups / tiles, groups % tiles};
}

// A panel that is multiplied with a block of rows.
struct PanelWork {
  const uint8_t* panel;
  size_t bytes;
  bool first;           // Nothing of it has been fetched.
  size_t whole_stride;  // Stride with which one tile fetches a whole panel.
  size_t part_bytes;    // The part of a panel that each of the block's tiles fetches, ...
  size_t part_stride;   // ... and its stride.
};

// What tile t of the block prefetches. A single tile: the bytes kPrefetchAhead after its own.
// Several: each a part of the next panel, so that memory is read evenly; only the very first panel
// is fetched by its own first tile.
RW_INLINE Fetch FetchOf(const PanelWork& work, const RowBlock& block, int t) {
  // One or two rows are bound by memory, and the hardware's own prefetching of one stream is at
  // least as good: these fetch what is in the cache already.
  if (block.rows <= 2) return {block.packed, 0};
  if (block.tiles == 1 || (work.first && t == 0)) {
    return {work.panel + kPrefetchAhead, work.whole_stride};
  }
  return {work.panel + work.bytes + static_cast<size_t>(t) * work.part_bytes, work.part_stride};
}

static void MultiplyPanel(const TileFunctions& functions, const PanelWork& work, int k,
                          const RowBlock& block, int cols, float* y, int64_t y_stride) {
  TileRows rows = {block.packed, block.group_bytes};
  int left = block.rows;
  for (int t = 0; t < block.tiles; ++t) {
    const int groups = block.tile_groups + (t < block.larger ? 1 : 0);
    const int height = groups * kRowGroup < left ? groups * kRowGroup : left;
    functions.rows[height](work.panel, k, FetchOf(work, block, t), rows, cols, y, y_stride);
    rows.group += static_cast<size_t>(groups) * block.group_bytes;
    y += height * y_stride;
    left -= height;
  }
}

static void MatMul(const Matrix& w, const std::byte* packed, int rows, int panel_begin,
                   int panel_end, float* y, int64_t y_stride) {
  const TileFunctions& functions = TilesFor(w.type);
  const size_t panel_bytes = PanelBytes(w.type, w.k);
  const size_t group_bytes = PackedRowsBytes(w.type, kRowGroup, w.k);
  const size_t steps = static_cast<size_t>(w.k / functions.elements);
  const uint8_t* panels = reinterpret_cast<const uint8_t*>(w.panels);
  const uint8_t* groups = reinterpret_cast<const uint8_t*>(packed);
  // Blocks of about equal height, each a multiple of kRowGroup rows but the last.
  const int total = (rows + kRowGroup - 1) / kRowGroup;
  const size_t tile_bytes = group_bytes * kMaxGroups;
  const int fitting = static_cast<int>(kRowBlockBytes / tile_bytes);
  const int most = (fitting > kMinBlockTiles ? fitting : kMinBlockTiles) * kMaxGroups;
  const int blocks = (total + most - 1) / most;
  for (int i = 0, row = 0; i < blocks; ++i) {
    const int edge = total * (i + 1) / blocks * kRowGroup;
    const int row_end = edge < rows ? edge : rows;
    const RowBlock block = RowBlockOf(groups + static_cast<size_t>(row / kRowGroup) * group_bytes,
                                      group_bytes, row_end - row);
    const size_t part_bytes = panel_bytes / static_cast<size_t>(block.tiles);
    PanelWork work = {nullptr,    panel_bytes,
                      true,       panel_bytes / steps,
                      part_bytes, (part_bytes + steps - 1) / steps};
    for (int p = panel_begin; p < panel_end; ++p) {
      work.panel = panels + static_cast<size_t>(p) * panel_bytes;
      MultiplyPanel(functions, work, w.k, block, w.n - p * kPanelCols,
                    y + row * y_stride + static_cast<int64_t>(p) * kPanelCols, y_stride);
      work.first = false;
    }
    row = row_end;
  }
}

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_MATMUL_INL_H_
