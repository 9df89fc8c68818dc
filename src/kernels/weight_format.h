// For this room and gpu: how weights of each type are stored, in files and in panels (layout.h).
#ifndef ROPEWAY_KERNELS_WEIGHT_FORMAT_H_
#define ROPEWAY_KERNELS_WEIGHT_FORMAT_H_

#include <cstring>

#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace ropeway::kernels {

// A stored block of one row, taken apart into what a panel holds of it.
struct StoredBlock {
  uint8_t levels[256];       // As many as the type stores together, as the panel's lines hold them.
  uint8_t codes[8][2] = {};  // Of each block of 32.
  uint16_t d = 0;            // f16, as m.
  uint16_t m = 0;
};

// How the scale and the minimum of a block, or of a part of one, are made (docs/numerics.md).
enum class ScaleKind : uint8_t {
  kHalf,         // d; m
  kCoded,        // d * sc; m * mn
  kPartsCoded,   // d * sc of each part
  kNibbleCoded,  // d * sc; m * mn of each part, both in one byte
  kExponent,     // 2^(e - 128)
};

struct WeightFormat {
  const char* name;
  size_t block_elements;  // That the file stores together; 1: not quantised.
  size_t block_bytes;     // Their bytes in the file.
  RowPacking packing = RowPacking::kFloats;
  PanelLayout panel = {};
  ScaleKind scales = ScaleKind::kHalf;
  StoredScales stored = {};
  void (*take_apart)(const uint8_t* stored, StoredBlock* block) = nullptr;
  const uint8_t* values = nullptr;  // What the levels stand for; nullptr: themselves.

  bool quantised() const { return block_elements > 1; }
  // Sums of each half of a block count.
  bool of_parts() const { return packing >= RowPacking::kPartsScaledSum; }
  // The weight is fma(scale, level, min), else scale * (level - offset).
  bool has_min() const {
    return packing == RowPacking::kScaledSum || packing == RowPacking::kPartsScaledSum;
  }
  int offset() const;
  size_t packed_block_bytes() const { return of_parts() ? kPackedPartsBytes : kPackedBlockBytes; }
};

const WeightFormat& FormatOf(WeightType type);

// One column of a block of 32 features of a panel: integer weights (levels, to which has_min() and
// offset() apply) and the scale and minimum of each part, both parts' alike in types of one scale.
struct ColumnBlock {
  int16_t q[kQuantBlock];
  float scale[2];
  float min[2];
};

// Column c of block b. REQUIRES: format.quantised().
void LoadColumn(const WeightFormat& format, const std::byte* panel, size_t b, size_t c,
                ColumnBlock* column);

// One element of a type that is not quantised, as stored.
float FloatElement(WeightType type, const std::byte* at);

inline uint16_t LoadHalfBits(const void* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_WEIGHT_FORMAT_H_
