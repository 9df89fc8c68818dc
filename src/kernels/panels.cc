// Weights in panels (layout.h): packing rows of a file into them, and reading them back.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernels/weight_format.h"

namespace ropeway::kernels {
namespace {

constexpr uint32_t kNibbles = 0x0F0F0F0F;
constexpr uint32_t kPairs = 0x03030303;
constexpr uint32_t kSingles = 0x01010101;

// What lines of a block hold below the nibble lines' four bits (or instead of them), by the bits of
// a level: two lines of pairs of bits from bit `low` on, and one line of single bits.
struct LineKinds {
  explicit LineKinds(size_t bits)
      : low(bits >= 4 ? 4 : 0), pairs(bits - low >= 2), singles((bits - low) % 2 == 1) {}
  size_t low;  // Also the number of nibble lines.
  bool pairs;
  bool singles;
};

// 32 levels of `bits` bits to one column of a block's lines; `lines`: its 4 bytes of the first.
void StoreLevels(size_t bits, const uint8_t* levels, std::byte* lines) {
  uint32_t w[8];  // 4 levels each.
  std::memcpy(w, levels, sizeof w);
  size_t line = 0;
  const auto put = [&](uint32_t bytes) { std::memcpy(lines + 64 * line++, &bytes, sizeof bytes); };
  if (bits == 8) {
    for (const uint32_t bytes : w) put(bytes);
    return;
  }
  const LineKinds kinds(bits);
  for (size_t j = 0; j < kinds.low; ++j) put((w[j] & kNibbles) | (w[j + 4] & kNibbles) << 4);
  for (size_t half = 0; kinds.pairs && half < 2; ++half) {
    uint32_t bytes = 0;
    for (size_t j = 0; j < 4; ++j) bytes |= ((w[4 * half + j] >> kinds.low) & kPairs) << (2 * j);
    put(bytes);
  }
  if (kinds.singles) {
    uint32_t bytes = 0;
    for (size_t j = 0; j < 8; ++j) bytes |= ((w[j] >> (bits - 1)) & kSingles) << j;
    put(bytes);
  }
}

void LoadLevels(size_t bits, const std::byte* lines, uint8_t* levels) {
  uint32_t w[8];
  const auto get = [&](size_t line) {
    uint32_t bytes = 0;
    std::memcpy(&bytes, lines + 64 * line, sizeof bytes);
    return bytes;
  };
  const LineKinds kinds(bits);
  for (size_t j = 0; j < 8; ++j) {
    if (bits == 8) {
      w[j] = get(j);
      continue;
    }
    w[j] = kinds.low > 0 ? (get(j % 4) >> (j / 4 * 4)) & kNibbles : 0;
    if (kinds.pairs) w[j] |= ((get(kinds.low + j / 4) >> (j % 4 * 2)) & kPairs) << kinds.low;
    if (kinds.singles) w[j] |= ((get(bits - 1) >> j) & kSingles) << (bits - 1);
  }
  std::memcpy(levels, w, sizeof w);
}

// The parts of block b in a panel.
template <typename Byte>
struct BlockPlace {
  BlockPlace(const PanelLayout& layout, Byte* panel, size_t b) {
    Byte* unit = panel + b / layout.blocks * layout.bytes;
    const size_t in_unit = b % layout.blocks;
    scales = unit + in_unit * layout.scale_step;
    codes = unit + layout.codes + in_unit * layout.code_step;
    lines = unit + layout.lines + in_unit * layout.bits * 64;
  }
  Byte* scales;
  Byte* codes;
  Byte* lines;
};

// Block i of 32 of a stored block to column c of block b of the panel.
void StoreColumn(const WeightFormat& format, const StoredBlock& block, size_t i, size_t b, size_t c,
                 std::byte* panel) {
  const PanelLayout& layout = format.panel;
  const BlockPlace<std::byte> to(layout, panel, b);
  if (format.scales != ScaleKind::kExponent) {
    std::memcpy(to.scales + 2 * c, &block.d, sizeof block.d);
    if (format.has_min()) {
      std::memcpy(to.scales + kScaleMinOffset + 2 * c, &block.m, sizeof block.m);
    }
  }
  for (size_t code = 0; code < layout.code_step / kCodesOffset; ++code) {
    to.codes[code * kCodesOffset + c] = std::byte{block.codes[i][code]};
  }
  StoreLevels(layout.bits, block.levels + i * kQuantBlock, to.lines + 4 * c);
}

// `rows`: the `columns` rows of the panel.
void PackQuantised(const WeightFormat& format, size_t k, const std::byte* rows, size_t columns,
                   std::byte* panel) {
  const size_t blocks = format.block_elements / kQuantBlock;  // Of a stored block.
  const size_t stored = k / format.block_elements;            // Stored blocks of a row.
  StoredBlock block;
  for (size_t s = 0; s < stored; ++s) {
    for (size_t c = 0; c < columns; ++c) {
      const std::byte* from = rows + (c * stored + s) * format.block_bytes;
      format.take_apart(reinterpret_cast<const uint8_t*>(from), &block);
      for (size_t i = 0; i < blocks; ++i) StoreColumn(format, block, i, s * blocks + i, c, panel);
    }
  }
}

void PackFloats(size_t width, size_t k, const std::byte* rows, size_t columns, std::byte* panel) {
  for (size_t c = 0; c < columns; ++c) {
    for (size_t i = 0; i < k; ++i) {
      std::memcpy(panel + (i * kPanelCols + c) * width, rows + (c * k + i) * width, width);
    }
  }
}

float ExponentToFloat(uint8_t e) {
  // 2^(e - 128): denormal up to 2^-127.
  return std::bit_cast<float>(e < 2 ? 0x200000U << e : (uint32_t{e} - 1) << 23);
}

}  // namespace

float FloatElement(WeightType type, const std::byte* at) {
  if (type == WeightType::kF16) return HalfToFloat(LoadHalfBits(at));
  if (type == WeightType::kBF16) return BFloatToFloat(LoadHalfBits(at));
  float value = 0.0F;
  std::memcpy(&value, at, sizeof value);
  return value;
}

size_t PanelBytes(WeightType type, int k) {
  const WeightFormat& format = FormatOf(type);
  const size_t elements = static_cast<size_t>(k);
  if (!format.quantised()) return (elements * kPanelCols * format.block_bytes + 63) / 64 * 64;
  const size_t blocks = elements / kQuantBlock;
  return (blocks + format.panel.blocks - 1) / format.panel.blocks * format.panel.bytes;
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
  const WeightFormat& format = FormatOf(type);
  const size_t elements = static_cast<size_t>(k);
  const size_t row_bytes = WeightRowBytes(type, k);
  const size_t panel_bytes = PanelBytes(type, k);
  for (int p = panel_begin; p < panel_end; ++p) {
    std::byte* panel = panels + static_cast<size_t>(p) * panel_bytes;
    const std::byte* from = rows + static_cast<size_t>(p) * kPanelCols * row_bytes;
    const size_t columns = static_cast<size_t>(std::min(kPanelCols, n - p * kPanelCols));
    std::memset(panel, 0, panel_bytes);  // What no column writes has a definite value.
    if (format.quantised()) {
      PackQuantised(format, elements, from, columns, panel);
    } else {
      PackFloats(format.block_bytes, elements, from, columns, panel);
    }
  }
}

void LoadColumn(const WeightFormat& format, const std::byte* panel, size_t b, size_t c,
                ColumnBlock* column) {
  const BlockPlace<const std::byte> from(format.panel, panel, b);
  uint8_t levels[kQuantBlock];
  LoadLevels(format.panel.bits, from.lines + 4 * c, levels);
  for (size_t i = 0; i < kQuantBlock; ++i) {
    column->q[i] = format.values == nullptr ? levels[i] : format.values[levels[i]];
  }
  const auto code = [&](size_t which) {
    return static_cast<uint8_t>(from.codes[which * kCodesOffset + c]);
  };
  const auto signed_code = [&](size_t which) {
    return static_cast<float>(static_cast<int8_t>(code(which)));
  };
  const auto half = [&](size_t offset) {
    return HalfToFloat(LoadHalfBits(from.scales + offset + 2 * c));
  };
  const bool has_min = format.has_min();
  for (size_t part = 0; part < 2; ++part) {
    float& scale = column->scale[part];
    float& min = column->min[part];
    scale = min = 0.0F;
    switch (format.scales) {
      case ScaleKind::kHalf:
        scale = half(0);
        if (has_min) min = half(kScaleMinOffset);
        break;
      case ScaleKind::kCoded:
        scale = half(0) * signed_code(0);
        if (has_min) min = half(kScaleMinOffset) * signed_code(1);
        break;
      case ScaleKind::kPartsCoded:
        scale = half(0) * signed_code(part);
        break;
      case ScaleKind::kNibbleCoded:
        scale = half(0) * static_cast<float>(code(part) & 15);
        min = half(kScaleMinOffset) * static_cast<float>(code(part) >> 4);
        break;
      case ScaleKind::kExponent:
        scale = ExponentToFloat(code(0));
        break;
    }
  }
}

void UnpackRow(const Matrix& matrix, int row, float* out) {
  const WeightFormat& format = FormatOf(matrix.type);
  const size_t c = static_cast<size_t>(row % kPanelCols);
  const size_t k = static_cast<size_t>(matrix.k);
  const std::byte* panel =
      matrix.panels + static_cast<size_t>(row / kPanelCols) * PanelBytes(matrix.type, matrix.k);
  if (!format.quantised()) {
    for (size_t i = 0; i < k; ++i) {
      out[i] = FloatElement(matrix.type, panel + (i * kPanelCols + c) * format.block_bytes);
    }
    return;
  }
  const bool has_min = format.has_min();
  const int offset = format.offset();
  ColumnBlock column;
  for (size_t b = 0; b < k / kQuantBlock; ++b) {
    LoadColumn(format, panel, b, c, &column);
    for (size_t i = 0; i < kQuantBlock; ++i) {
      const size_t part = i / (kQuantBlock / 2);
      const float q = static_cast<float>(column.q[i] - offset);
      const float scale = column.scale[part];
      out[b * kQuantBlock + i] = has_min ? std::fma(scale, q, column.min[part]) : scale * q;
    }
  }
}

size_t PackedRowsBytes(WeightType type, int rows, int k) {
  const WeightFormat& format = FormatOf(type);
  const size_t groups = static_cast<size_t>((rows + kRowGroup - 1) / kRowGroup);
  const size_t elements = static_cast<size_t>(k);
  if (!format.quantised()) return groups * elements * kRowGroup * sizeof(float);
  return groups * (elements / kQuantBlock) * format.packed_block_bytes();
}

}  // namespace ropeway::kernels
