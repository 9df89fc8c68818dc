// The in-memory form of weights (layout.h), made from rows as GGUF stores them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace ropeway {
namespace {

uint16_t LoadHalfBits(const std::byte* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

void StoreHalfBits(std::byte* at, uint16_t bits) { std::memcpy(at, &bits, sizeof bits); }

size_t GgufBlockBytes(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return 4;
    case WeightType::kF16:
      return 2;
    case WeightType::kQ4_0:
      return 2 + 16;
    case WeightType::kQ4_1:
      return 4 + 16;
    case WeightType::kQ8_0:
      return 2 + 32;
  }
  return 0;
}

size_t Pairs(int k) { return (static_cast<size_t>(k) / kQuantBlock + 1) / 2; }

// Where block b of column c lies within a panel: its scales (d; Q4_1 also m, 32 bytes behind d) and
// the first of its lines of 64 bytes, 4 bytes of the column in each.
struct BlockPlace {
  size_t d;
  size_t line;
  int lines;
};

BlockPlace PlaceOf(WeightType type, size_t b, size_t c) {
  const size_t pair = b / 2;
  const size_t half = b % 2;
  switch (type) {
    case WeightType::kQ4_1:
      return {b * kQ41BlockBytes + 2 * c, b * kQ41BlockBytes + kQ41DataOffset + 4 * c, 4};
    case WeightType::kQ4_0:
      return {pair * kQ40PairBytes + half * 32 + 2 * c,
              pair * kQ40PairBytes + 64 + half * 256 + 4 * c, 4};
    default:
      return {pair * kQ80PairBytes + half * 32 + 2 * c,
              pair * kQ80PairBytes + 64 + half * 512 + 4 * c, 8};
  }
}

// One column of a panel from one GGUF row; src == nullptr: a padding column, all weights zero.
void PackColumn(WeightType type, int k, const std::byte* src, size_t c, std::byte* panel) {
  const size_t elements = static_cast<size_t>(k);
  if (type == WeightType::kF32 || type == WeightType::kF16) {
    const size_t width = GgufBlockBytes(type);
    for (size_t i = 0; i < elements; ++i) {
      std::byte* to = panel + (i * kPanelCols + c) * width;
      if (src != nullptr) {
        std::memcpy(to, src + i * width, width);
      } else {
        std::memset(to, 0, width);
      }
    }
    return;
  }
  const int zero = type == WeightType::kQ8_0 ? 128 : 0;
  for (size_t b = 0; b < elements / kQuantBlock; ++b) {
    const BlockPlace place = PlaceOf(type, b, c);
    const std::byte* block = src == nullptr ? nullptr : src + b * GgufBlockBytes(type);
    StoreHalfBits(panel + place.d, block == nullptr ? 0 : LoadHalfBits(block));
    size_t header = 2;
    if (type == WeightType::kQ4_1) {
      StoreHalfBits(panel + place.d + 32, block == nullptr ? 0 : LoadHalfBits(block + 2));
      header = 4;
    }
    for (int j = 0; j < place.lines; ++j) {
      std::byte* to = panel + place.line + static_cast<size_t>(j) * 64;
      for (size_t i = 0; i < 4; ++i) {
        // Adding 128 modulo 256 turns a signed byte into the unsigned one plus 128.
        const int value =
            block == nullptr
                ? zero
                : static_cast<int>(block[header + static_cast<size_t>(j) * 4 + i]) + zero;
        to[i] = static_cast<std::byte>(value & 0xFF);
      }
    }
  }
}

}  // namespace

const char* WeightTypeName(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return "F32";
    case WeightType::kF16:
      return "F16";
    case WeightType::kQ4_0:
      return "Q4_0";
    case WeightType::kQ4_1:
      return "Q4_1";
    case WeightType::kQ8_0:
      return "Q8_0";
  }
  return "unknown";
}

int WeightBlockElements(WeightType type) {
  return type == WeightType::kF32 || type == WeightType::kF16 ? 1 : static_cast<int>(kQuantBlock);
}

size_t WeightRowBytes(WeightType type, int k) {
  return static_cast<size_t>(k / WeightBlockElements(type)) * GgufBlockBytes(type);
}

size_t PanelBytes(WeightType type, int k) {
  const size_t elements = static_cast<size_t>(k);
  switch (type) {
    case WeightType::kF32:
      return elements * 64;
    case WeightType::kF16:
      return (elements * 32 + 63) / 64 * 64;
    case WeightType::kQ4_0:
      return Pairs(k) * kQ40PairBytes;
    case WeightType::kQ4_1:
      return elements / kQuantBlock * kQ41BlockBytes;
    case WeightType::kQ8_0:
      return Pairs(k) * kQ80PairBytes;
  }
  return 0;
}

Matrix Matrix::PanelRange(int begin, int end) const {
  Matrix part = *this;
  part.n = std::min(end * kPanelCols, n) - begin * kPanelCols;
  part.panels = panels + static_cast<size_t>(begin) * PanelBytes(type, k);
  return part;
}

size_t MatrixBytes(WeightType type, int n, int k) {
  return static_cast<size_t>((n + kPanelCols - 1) / kPanelCols) * PanelBytes(type, k);
}

void PackPanels(WeightType type, int n, int k, const std::byte* rows, int panel_begin,
                int panel_end, std::byte* panels) {
  const size_t row_bytes = WeightRowBytes(type, k);
  const size_t panel_bytes = PanelBytes(type, k);
  const bool has_twin =
      type == WeightType::kQ4_0 || type == WeightType::kQ8_0 || type == WeightType::kF16;
  for (int p = panel_begin; p < panel_end; ++p) {
    std::byte* panel = panels + static_cast<size_t>(p) * panel_bytes;
    // What no column writes (an odd last block's twin) gets a definite value.
    if (has_twin) {
      const size_t tail = std::min<size_t>(panel_bytes, kQ80PairBytes);
      std::memset(panel + panel_bytes - tail, 0, tail);
    }
    for (int c = 0; c < kPanelCols; ++c) {
      const int row = p * kPanelCols + c;
      const std::byte* src = row < n ? rows + static_cast<size_t>(row) * row_bytes : nullptr;
      PackColumn(type, k, src, static_cast<size_t>(c), panel);
    }
  }
}

void UnpackRow(const Matrix& matrix, int row, float* out) {
  const WeightType type = matrix.type;
  const size_t c = static_cast<size_t>(row % kPanelCols);
  const size_t k = static_cast<size_t>(matrix.k);
  const std::byte* panel =
      matrix.panels + static_cast<size_t>(row / kPanelCols) * PanelBytes(type, matrix.k);
  if (type == WeightType::kF32) {
    for (size_t i = 0; i < k; ++i) std::memcpy(out + i, panel + (i * kPanelCols + c) * 4, 4);
    return;
  }
  if (type == WeightType::kF16) {
    for (size_t i = 0; i < k; ++i)
      out[i] = HalfToFloat(LoadHalfBits(panel + (i * kPanelCols + c) * 2));
    return;
  }
  for (size_t b = 0; b < k / kQuantBlock; ++b) {
    const BlockPlace place = PlaceOf(type, b, c);
    const float d = HalfToFloat(LoadHalfBits(panel + place.d));
    const float m =
        type == WeightType::kQ4_1 ? HalfToFloat(LoadHalfBits(panel + place.d + 32)) : 0.0F;
    float* block = out + b * kQuantBlock;
    for (size_t i = 0; i < static_cast<size_t>(place.lines) * 4; ++i) {
      const int byte = static_cast<int>(panel[place.line + i / 4 * 64 + i % 4]);
      if (type == WeightType::kQ8_0) {
        block[i] = d * static_cast<float>(byte - 128);
      } else if (type == WeightType::kQ4_0) {
        block[i] = d * static_cast<float>((byte & 15) - 8);
        block[i + 16] = d * static_cast<float>((byte >> 4) - 8);
      } else {
        block[i] = std::fma(d, static_cast<float>(byte & 15), m);
        block[i + 16] = std::fma(d, static_cast<float>(byte >> 4), m);
      }
    }
  }
}

size_t PackedRowsBytes(WeightType type, int rows, int k) {
  const size_t groups = static_cast<size_t>((rows + kRowGroup - 1) / kRowGroup);
  const size_t elements = static_cast<size_t>(k);
  if (WeightBlockElements(type) == 1) return groups * elements * kRowGroup * sizeof(float);
  return groups * (elements / kQuantBlock) * kPackedBlockBytes;
}

}  // namespace ropeway
