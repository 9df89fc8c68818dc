// Memory layouts shared by the loader and every table of kernels. Constants only: files of one
// instruction set include this, so it has no inline functions.
//
// Weight panels (16 output features each; c = column in the panel, b = block of 32 input features):
//   F32:  [k][16] f32.    F16: [k][16] f16 (padded to 64 bytes).
//   Q4_1: per b: [16] f16 d, [16] f16 m, 4 lines of 64 bytes. Line j holds bytes 4j .. 4j + 3 of
//         each column's 16 GGUF bytes: low nibbles are inputs 4j .., high nibbles 16 + 4j ..
//   Q4_0: per two blocks: [2][16] f16 d, [2] x 4 lines as above.
//   Q8_0: per two blocks: [2][16] f16 d, [2] x 8 lines of 64 bytes. Line j holds inputs
//         4j .. 4j + 3 of each column, plus 128 as unsigned bytes.
//   Of Q4_0 and Q8_0, an odd last block has an unused twin.
//
// Packed activation rows, in groups of kRowGroup = 4 (r = row in the group; missing rows are zero):
//   F32, F16: [k][4] f32.
//   quantised: per b one block of kPackedBlockBytes: [8][4 rows][4] int8 (line j: inputs
//         4j .. 4j + 3 of each row), [4] f32 scale d, [4] 32-bit aux: Q4_1: f32 d * sum;
//         Q4_0: int32 -8 * sum; Q8_0: int32 -128 * sum.
#ifndef ROPEWAY_KERNELS_LAYOUT_H_
#define ROPEWAY_KERNELS_LAYOUT_H_

#include <stddef.h>

namespace ropeway::kernels {

enum LayoutConstant : size_t {
  kQuantBlock = 32,      // Elements of one quantisation block.
  kQ41BlockBytes = 320,  // One panel block.
  kQ41DataOffset = 64,
  kQ40PairBytes = 64 + 2 * 256,
  kQ80PairBytes = 64 + 2 * 512,
  kPackedBlockBytes = 160,  // One block of four packed rows.
  kPackedScaleOffset = 128,
  kPackedAuxOffset = 144,
};

}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_LAYOUT_H_
