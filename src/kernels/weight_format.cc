// GGUF's tensor types: what the file stores of each, and the table of all of them.
#include "kernels/weight_format.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace ropeway::kernels {
namespace {

// 16 bytes: the low nibbles are the first 16 levels, the high ones the next.
void TakeNibbles(const uint8_t* bytes, uint8_t* levels) {
  for (int i = 0; i < 16; ++i) {
    levels[i] = bytes[i] & 15;
    levels[i + 16] = bytes[i] >> 4;
  }
}

// Bit i of the 4 bytes is the fifth bit of level i.
void AddFifthBits(const uint8_t* bytes, uint8_t* levels) {
  for (int i = 0; i < 32; ++i) {
    levels[i] |= static_cast<uint8_t>(((bytes[i / 8] >> (i % 8)) & 1) << 4);
  }
}

void TakeQ40(const uint8_t* at, StoredBlock* to) {
  to->d = LoadHalfBits(at);
  TakeNibbles(at + 2, to->levels);
}

void TakeQ41(const uint8_t* at, StoredBlock* to) {
  to->d = LoadHalfBits(at);
  to->m = LoadHalfBits(at + 2);
  TakeNibbles(at + 4, to->levels);
}

void TakeQ50(const uint8_t* at, StoredBlock* to) {
  to->d = LoadHalfBits(at);
  TakeNibbles(at + 6, to->levels);
  AddFifthBits(at + 2, to->levels);
}

void TakeQ51(const uint8_t* at, StoredBlock* to) {
  to->d = LoadHalfBits(at);
  to->m = LoadHalfBits(at + 2);
  TakeNibbles(at + 8, to->levels);
  AddFifthBits(at + 4, to->levels);
}

void TakeQ80(const uint8_t* at, StoredBlock* to) {
  to->d = LoadHalfBits(at);
  // Adding 128 modulo 256 turns a signed byte into the unsigned one plus 128.
  for (int i = 0; i < 32; ++i) to->levels[i] = static_cast<uint8_t>(at[2 + i] + 128);
}

void TakeMxfp4(const uint8_t* at, StoredBlock* to) {
  to->codes[0][0] = at[0];
  TakeNibbles(at + 1, to->levels);
}

// The K types. Their 256 elements are 8 blocks of 32, or 16 parts of 16.

// 64 bytes: four levels of 2 bits in each; 32 bytes hold four blocks, from the lowest bits up.
void TakePairs(const uint8_t* bytes, uint8_t* levels) {
  for (int b = 0; b < 8; ++b) {
    for (int i = 0; i < 32; ++i) {
      levels[32 * b + i] = (bytes[b / 4 * 32 + i] >> (b % 4 * 2)) & 3;
    }
  }
}

// 128 bytes: 32 bytes hold two blocks, the first in the low nibbles.
void TakeNibbleBlocks(const uint8_t* bytes, uint8_t* levels) {
  for (int b = 0; b < 8; ++b) {
    for (int i = 0; i < 32; ++i) levels[32 * b + i] = (bytes[b / 2 * 32 + i] >> (b % 2 * 4)) & 15;
  }
}

// 32 bytes: bit b of byte i is the bit `bit` of level i of block b.
void AddBits(const uint8_t* bytes, int bit, uint8_t* levels) {
  for (int b = 0; b < 8; ++b) {
    for (int i = 0; i < 32; ++i) {
      levels[32 * b + i] |= static_cast<uint8_t>(((bytes[i] >> b) & 1) << bit);
    }
  }
}

// The scales and minima of Q4_K and Q5_K: 6 bits each in 12 bytes.
void TakeSixBitScales(const uint8_t* at, StoredBlock* to) {
  for (int b = 0; b < 4; ++b) {
    to->codes[b][0] = at[b] & 63;
    to->codes[b][1] = at[b + 4] & 63;
    to->codes[b + 4][0] = static_cast<uint8_t>((at[b + 8] & 15) | ((at[b] >> 6) << 4));
    to->codes[b + 4][1] = static_cast<uint8_t>((at[b + 8] >> 4) | ((at[b + 4] >> 6) << 4));
  }
}

// d, then dmin: subtracted in the file's terms, so the panel keeps its negative.
void TakeScaleAndMin(const uint8_t* at, StoredBlock* to) {
  to->d = LoadHalfBits(at);
  to->m = LoadHalfBits(at + 2) ^ 0x8000;
}

void TakeQ2K(const uint8_t* at, StoredBlock* to) {
  for (int part = 0; part < 16; ++part) to->codes[part / 2][part % 2] = at[part];
  TakePairs(at + 16, to->levels);
  TakeScaleAndMin(at + 80, to);
}

void TakeQ3K(const uint8_t* at, StoredBlock* to) {
  TakePairs(at + 32, to->levels);
  AddBits(at, 2, to->levels);
  const uint8_t* scales = at + 96;
  for (int part = 0; part < 16; ++part) {
    const int low = (scales[part % 8] >> (part / 8 * 4)) & 15;
    const int high = (scales[8 + part % 4] >> (part / 4 * 2)) & 3;
    to->codes[part / 2][part % 2] = static_cast<uint8_t>((low | (high << 4)) - 32);
  }
  to->d = LoadHalfBits(at + 108);
}

void TakeQ4K(const uint8_t* at, StoredBlock* to) {
  TakeScaleAndMin(at, to);
  TakeSixBitScales(at + 4, to);
  TakeNibbleBlocks(at + 16, to->levels);
}

void TakeQ5K(const uint8_t* at, StoredBlock* to) {
  TakeScaleAndMin(at, to);
  TakeSixBitScales(at + 4, to);
  TakeNibbleBlocks(at + 48, to->levels);
  AddBits(at + 16, 4, to->levels);
}

// Each 128 elements: 64 bytes hold the low four bits of blocks 0 and 1 in their low nibbles, of 2
// and 3 in their high ones; 32 bytes the high two bits of all four, from the lowest bits up.
void TakeQ6K(const uint8_t* at, StoredBlock* to) {
  for (int b = 0; b < 8; ++b) {
    const uint8_t* low = at + b / 4 * 64 + b % 2 * 32;
    const uint8_t* high = at + 128 + b / 4 * 32;
    for (int i = 0; i < 32; ++i) {
      const int low_bits = (low[i] >> (b % 4 / 2 * 4)) & 15;
      const int high_bits = (high[i] >> (b % 4 * 2)) & 3;
      to->levels[32 * b + i] = static_cast<uint8_t>(low_bits | (high_bits << 4));
    }
  }
  for (int part = 0; part < 16; ++part) to->codes[part / 2][part % 2] = at[192 + part];
  to->d = LoadHalfBits(at + 208);
}

void TakeIq4Xs(const uint8_t* at, StoredBlock* to) {
  to->d = LoadHalfBits(at);
  const int high = LoadHalfBits(at + 2);
  for (int b = 0; b < 8; ++b) {
    const int low = (at[4 + b / 2] >> (b % 2 * 4)) & 15;
    to->codes[b][0] = static_cast<uint8_t>((low | (((high >> (2 * b)) & 3) << 4)) - 32);
    TakeNibbles(at + 8 + 16 * b, to->levels + 32 * b);
  }
}

bool IsFiniteHalf(const std::byte* at) { return (LoadHalfBits(at) & 0x7C00) != 0x7C00; }

// The index of the first of `count` numbers whose bits of `exponent` are all set: an infinity or
// NaN; -1 if there is none. All weights of a file may come by here, so chunks are looked at whole.
template <typename Bits>
int64_t FindNotFinite(Bits exponent, const std::byte* numbers, int64_t count) {
  constexpr int64_t kChunk = 64;
  const auto bad = [=](int64_t i) {
    Bits bits = 0;
    std::memcpy(&bits, numbers + static_cast<size_t>(i) * sizeof bits, sizeof bits);
    return (bits & exponent) == exponent;
  };
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, count);
    unsigned any = 0;
    for (int64_t i = begin; i < end; ++i) any |= bad(i) ? 1U : 0U;
    if (any == 0) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (bad(i)) return i;
    }
  }
  return -1;
}

}  // namespace

int WeightFormat::offset() const {
  switch (packing) {
    case RowPacking::kFloats:
    case RowPacking::kScaledSum:
    case RowPacking::kPartsScaledSum:
      return 0;
    case RowPacking::kPartsOffset4:
      return 4;
    case RowPacking::kOffset8:
      return 8;
    case RowPacking::kOffset16:
      return 16;
    case RowPacking::kPartsOffset32:
      return 32;
    case RowPacking::kOffset128:
      return 128;
  }
  std::abort();  // No value of the enum.
}

const WeightFormat& FormatOf(WeightType type) {
  using P = RowPacking;
  using S = ScaleKind;
  // In the order of WeightType.
  static constexpr WeightFormat kFormats[] = {
      {.name = "F32", .block_elements = 1, .block_bytes = 4},
      {.name = "F16", .block_elements = 1, .block_bytes = 2},
      {.name = "BF16", .block_elements = 1, .block_bytes = 2},
      {"Q4_0", 32, 18, P::kOffset8, kQ40Panel, S::kHalf, {0, -1}, TakeQ40},
      {"Q4_1", 32, 20, P::kScaledSum, kQ41Panel, S::kHalf, {0, 2}, TakeQ41},
      {"Q5_0", 32, 22, P::kOffset16, kQ50Panel, S::kHalf, {0, -1}, TakeQ50},
      {"Q5_1", 32, 24, P::kScaledSum, kQ51Panel, S::kHalf, {0, 2}, TakeQ51},
      {"Q8_0", 32, 34, P::kOffset128, kQ80Panel, S::kHalf, {0, -1}, TakeQ80},
      {"Q2_K", 256, 84, P::kPartsScaledSum, kQ2KPanel, S::kNibbleCoded, {80, 82}, TakeQ2K},
      {"Q3_K", 256, 110, P::kPartsOffset4, kQ3KPanel, S::kPartsCoded, {108, -1}, TakeQ3K},
      {"Q4_K", 256, 144, P::kScaledSum, kQ4KPanel, S::kCoded, {0, 2}, TakeQ4K},
      {"Q5_K", 256, 176, P::kScaledSum, kQ5KPanel, S::kCoded, {0, 2}, TakeQ5K},
      {"Q6_K", 256, 210, P::kPartsOffset32, kQ6KPanel, S::kPartsCoded, {208, -1}, TakeQ6K},
      {"IQ4_NL", 32, 18, P::kOffset128, kQ40Panel, S::kHalf, {0, -1}, TakeQ40, kIq4Values},
      {"IQ4_XS", 256, 136, P::kOffset128, kIq4XsPanel, S::kCoded, {0, -1}, TakeIq4Xs, kIq4Values},
      {"MXFP4", 32, 17, P::kOffset16, kMxfp4Panel, S::kExponent, {-1, -1}, TakeMxfp4, kMxfp4Values},
  };
  static_assert(std::size(kFormats) == std::size(kWeightTypes));
  return kFormats[static_cast<size_t>(type)];
}

const char* WeightTypeName(WeightType type) { return FormatOf(type).name; }

int WeightBlockElements(WeightType type) { return static_cast<int>(FormatOf(type).block_elements); }

size_t WeightRowBytes(WeightType type, int k) {
  const WeightFormat& format = FormatOf(type);
  return static_cast<size_t>(k) / format.block_elements * format.block_bytes;
}

RowPacking RowPackingOf(WeightType type) { return FormatOf(type).packing; }

StoredScales StoredScalesOf(WeightType type) { return FormatOf(type).stored; }

int64_t FindBadScale(WeightType type, const std::byte* blocks, int64_t count) {
  if (type == WeightType::kF32) return FindNotFinite<uint32_t>(0x7F800000, blocks, count);
  if (type == WeightType::kF16) return FindNotFinite<uint16_t>(0x7C00, blocks, count);
  if (type == WeightType::kBF16) return FindNotFinite<uint16_t>(0x7F80, blocks, count);
  const WeightFormat& format = FormatOf(type);
  const StoredScales at = format.stored;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* block = blocks + static_cast<size_t>(i) * format.block_bytes;
    const bool good =
        format.scales == ScaleKind::kExponent
            ? block[0] != std::byte{255}
            : IsFiniteHalf(block + at.scale) && (at.min < 0 || IsFiniteHalf(block + at.min));
    if (!good) return i;
  }
  return -1;
}

}  // namespace ropeway::kernels
