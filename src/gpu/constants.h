// Internal to this room: the sizes that the kernels (device/) and the functions of Ops share. Each
// source begins with them as macros.
#ifndef ROPEWAY_GPU_CONSTANTS_H_
#define ROPEWAY_GPU_CONSTANTS_H_

#include "kernels/kernels.h"

namespace ropeway::gpu {

// Lanes of a group.
inline constexpr int kRowLanes = 64;
inline constexpr int kKvLanes = 64;
inline constexpr int kLogitLanes = 64;
inline constexpr int kMatMulLanes = 64;  // Each has a column of a product.

inline constexpr int kRowChunk = 256;  // Columns of a group, where groups share a row.
inline constexpr int kQueries = 4;     // That a group of attend has at most.
inline constexpr int kTileRows = 4;    // Of a product, for which a lane decodes a weight once.
// Blocks of a column that the lanes of a group of matmul_few have at a time.
inline constexpr int kSlices = 16;
inline constexpr int kFewLanes = kSlices * kernels::kPanelCols;

// What a device must have: the lanes of the largest group, and the shared memory of attend's, which
// has the most.
inline constexpr int kMostLanes = kFewLanes;
inline constexpr int kMostSharedBytes = 22 * 1024;

struct Constant {
  const char* name;
  int value;
};
inline constexpr Constant kConstants[] = {{"ROW_LANES", kRowLanes},
                                          {"KV_LANES", kKvLanes},
                                          {"LOGIT_LANES", kLogitLanes},
                                          {"MATMUL_LANES", kMatMulLanes},
                                          {"CHUNK", kRowChunk},
                                          {"QUERIES", kQueries},
                                          {"TILE_ROWS", kTileRows},
                                          {"SLICES", kSlices},
                                          {"FEW_LANES", kFewLanes},
                                          {"PANEL_COLS", kernels::kPanelCols},
                                          {"PARTIAL_EXTRA", kernels::PartialFloats(0)}};

}  // namespace ropeway::gpu

#endif  // ROPEWAY_GPU_CONSTANTS_H_
