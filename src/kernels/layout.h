// Memory layouts shared by the loader and every table of kernels. Constants only: files of one
// instruction set include this, so it has no inline functions.
//
// Weight panels (16 output features each; c = column in the panel, b = block of 32 input features):
//   F32:  [k][16] f32.    F16, BF16: [k][16] of their 16 bits (padded to 64 bytes).
//   Quantised: units (PanelLayout) of one or several blocks. A unit is
//     scales: [16] f16 d, and [16] f16 m of types with a minimum, for each block or, of types that
//       store 256 elements together, once (there m is their minimum's negative);
//     codes: of each block [16] bytes for each of its one or two codes. Q4_K, Q5_K: sc, then mn;
//       Q3_K, Q6_K: sc of each part; IQ4_XS: sc (all int8); Q2_K: sc + 16 * mn of each part;
//       MXFP4: e;
//     lines: of each block as many lines of 64 bytes as a level has bits, 4 bytes a column.
//   In the lines, byte i of a column belongs to feature 4j + i of the block, for several j < 8:
//     8 bits (Q8_0, plus 128 as unsigned bytes): line j holds the level.
//     4, 5, 6 bits: lines 0 .. 3 hold the low four bits, j in the low nibble and j + 4 in the high.
//     2, 3, 6 bits: two lines hold the low two bits (2, 3) or the high two (6): for j = 0 .. 3 in
//       the first, for j = 4 .. 7 in the second, j % 4 in the bits 2 * (j % 4) and the one above.
//     3, 5 bits: the last line holds the highest bits, for each j in bit j.
//   IQ4_NL, IQ4_XS and MXFP4 keep the index into their values.
//   Units that are not full, and columns beyond the matrix, are zero.
//
// Packed activation rows, in groups of kRowGroup = 4 (r = row in the group; missing rows are zero):
//   kFloats: [k][4] f32.
//   Others: per block of 32 kPackedBlockBytes or, of parts, kPackedPartsBytes: [8][4 rows][4] int8
//         (line j: inputs 4j .. 4j + 3 of each row), [4] f32 scale d, then [4] 32-bit aux, of parts
//         one after the other for both: kScaledSum: f32 d * sum; kOffsetN: int32 -N * sum.
#ifndef ROPEWAY_KERNELS_LAYOUT_H_
#define ROPEWAY_KERNELS_LAYOUT_H_

#include <stddef.h>
#include <stdint.h>

namespace ropeway::kernels {

enum LayoutConstant : size_t {
  kQuantBlock = 32,         // Elements that share an activation scale.
  kPackedBlockBytes = 160,  // One block of four packed rows ...
  kPackedPartsBytes = 176,  // ... with sums of its parts.
  kPackedScaleOffset = 128,
  kPackedAuxOffset = 144,
  kScaleMinOffset = 32,  // From a panel's scales d to its minima m.
  kCodesOffset = 16,     // From a block's first codes to its second.
};

// Where the parts of a unit of a quantised panel lie, in bytes from its start.
struct PanelLayout {
  size_t blocks;      // Of the unit.
  size_t bytes;       // Of the unit; a multiple of 64.
  size_t scale_step;  // From a block's scales to the next block's; 0: the unit has one.
  size_t codes;       // Codes of the first block, ...
  size_t code_step;   // ... and from a block's to the next block's; 0: there are none.
  size_t lines;       // Lines of the first block; the other blocks' follow.
  size_t bits;        // Of a level, and lines of a block.
};

constexpr PanelLayout kQ40Panel = {2, 64 + 2 * 4 * 64, 32, 0, 0, 64, 4};  // IQ4_NL too.
constexpr PanelLayout kQ41Panel = {1, 64 + 4 * 64, 0, 0, 0, 64, 4};
constexpr PanelLayout kQ50Panel = {2, 64 + 2 * 5 * 64, 32, 0, 0, 64, 5};
constexpr PanelLayout kQ51Panel = {1, 64 + 5 * 64, 0, 0, 0, 64, 5};
constexpr PanelLayout kQ80Panel = {2, 64 + 2 * 8 * 64, 32, 0, 0, 64, 8};
constexpr PanelLayout kQ2KPanel = {8, 320 + 8 * 2 * 64, 0, 64, 32, 320, 2};
constexpr PanelLayout kQ3KPanel = {8, 320 + 8 * 3 * 64, 0, 32, 32, 320, 3};
constexpr PanelLayout kQ4KPanel = {8, 320 + 8 * 4 * 64, 0, 64, 32, 320, 4};
constexpr PanelLayout kQ5KPanel = {8, 320 + 8 * 5 * 64, 0, 64, 32, 320, 5};
constexpr PanelLayout kQ6KPanel = {8, 320 + 8 * 6 * 64, 0, 32, 32, 320, 6};
constexpr PanelLayout kIq4XsPanel = {8, 192 + 8 * 4 * 64, 0, 32, 16, 192, 4};
constexpr PanelLayout kMxfp4Panel = {4, 64 + 4 * 4 * 64, 0, 0, 16, 64, 4};

// The values of the levels of IQ4_NL and IQ4_XS, plus 128, and of MXFP4, plus 16.
alignas(16) constexpr uint8_t kIq4Values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                129, 141, 153, 166, 181, 197, 217, 241};
alignas(16) constexpr uint8_t kMxfp4Values[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                  16, 15, 14, 13, 12, 10, 8,  4};

}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_LAYOUT_H_
