// The types of weights, as policies for the tiles of each instruction set (layout.h has the
// layouts, reference_matmul.cc the meaning). Included by matmul-avx2-inl.h and matmul-avx512-inl.h,
// after they have defined for their width
//   Levels            bytes of one line: 4 features of some columns,
//   Columns           an f32 for each of these columns,
//   LoadLevels, KeepBits, InsertBits, ShiftDown, LookUp      on Levels,
//   HalfColumns, BFloatColumns, CodeColumns, LowCodeColumns, HighCodeColumns, ExponentColumns
//                     numbers in memory as Columns,
//   MulColumns, LoadColumns.
#ifndef ROPEWAY_KERNELS_CPU_MATMUL_TYPES_INL_H_
#define ROPEWAY_KERNELS_CPU_MATMUL_TYPES_INL_H_

#include "kernels/cpu/matmul-tile-inl.h"
#include "kernels/layout.h"

namespace ropeway::kernels {
namespace {

// Block b of a panel, or the half of its columns that a narrower register holds.
struct BlockAddress {
  const uint8_t* scales;
  const uint8_t* codes;
  const uint8_t* lines;
};

// Scales. kScales: of a block, one or one for each part of 16 features.

struct HalfScales {
  static constexpr int kScales = 1;
  RW_INLINE Columns Scale(const BlockAddress& at, int /*part*/) { return HalfColumns(at.scales); }
  RW_INLINE Columns Min(const BlockAddress& at, int /*part*/) {
    return HalfColumns(at.scales + kScaleMinOffset);
  }
};

struct CodedScales {
  static constexpr int kScales = 1;
  RW_INLINE Columns Scale(const BlockAddress& at, int /*part*/) {
    return MulColumns(HalfColumns(at.scales), CodeColumns(at.codes));
  }
  RW_INLINE Columns Min(const BlockAddress& at, int /*part*/) {
    return MulColumns(HalfColumns(at.scales + kScaleMinOffset),
                      CodeColumns(at.codes + kCodesOffset));
  }
};

struct ExponentScales {
  static constexpr int kScales = 1;
  RW_INLINE Columns Scale(const BlockAddress& at, int /*part*/) {
    return ExponentColumns(at.codes);
  }
};

struct PartsCodedScales {
  static constexpr int kScales = 2;
  RW_INLINE Columns Scale(const BlockAddress& at, int part) {
    return MulColumns(HalfColumns(at.scales), CodeColumns(at.codes + kCodesOffset * part));
  }
};

struct NibbleCodedScales {
  static constexpr int kScales = 2;
  RW_INLINE Columns Scale(const BlockAddress& at, int part) {
    return MulColumns(HalfColumns(at.scales), LowCodeColumns(at.codes + kCodesOffset * part));
  }
  RW_INLINE Columns Min(const BlockAddress& at, int part) {
    return MulColumns(HalfColumns(at.scales + kScaleMinOffset),
                      HighCodeColumns(at.codes + kCodesOffset * part));
  }
};

// Levels. Line<j> gives the levels of features 4j .. 4j + 3 of each column as unsigned bytes, at
// most kMaxLevel. Shifts move bits from one byte to the next; what is kept of them has not.

struct Bits2 {
  static constexpr int kMaxLevel = 3;
  template <int kJ>
  RW_INLINE Levels Line(const uint8_t* lines) {
    return KeepBits(ShiftDown<kJ % 4 * 2>(LoadLevels(lines + kJ / 4 * 64)), 3);
  }
};

struct Bits3 {
  static constexpr int kMaxLevel = 7;
  template <int kJ>
  RW_INLINE Levels Line(const uint8_t* lines) {
    return InsertBits(Bits2::Line<kJ>(lines), ShiftDown<kJ - 2>(LoadLevels(lines + 2 * 64)), 4);
  }
};

struct Bits4 {
  static constexpr int kMaxLevel = 15;
  template <int kJ>
  RW_INLINE Levels Line(const uint8_t* lines) {
    return KeepBits(ShiftDown<kJ / 4 * 4>(LoadLevels(lines + kJ % 4 * 64)), 15);
  }
};

struct Bits5 {
  static constexpr int kMaxLevel = 31;
  template <int kJ>
  RW_INLINE Levels Line(const uint8_t* lines) {
    return InsertBits(Bits4::Line<kJ>(lines), ShiftDown<kJ - 4>(LoadLevels(lines + 4 * 64)), 16);
  }
};

struct Bits6 {
  static constexpr int kMaxLevel = 63;
  template <int kJ>
  RW_INLINE Levels Line(const uint8_t* lines) {
    const Levels high = LoadLevels(lines + (4 + kJ / 4) * 64);
    return InsertBits(Bits4::Line<kJ>(lines), ShiftDown<kJ % 4 * 2 - 4>(high), 48);
  }
};

struct Bits8 {
  static constexpr int kMaxLevel = 255;
  template <int kJ>
  RW_INLINE Levels Line(const uint8_t* lines) {
    return LoadLevels(lines + kJ * 64);
  }
};

struct Iq4Levels {
  static constexpr int kMaxLevel = 241;
  template <int kJ>
  RW_INLINE Levels Line(const uint8_t* lines) {
    return LookUp(kIq4Values, Bits4::Line<kJ>(lines));
  }
};

struct Mxfp4Levels {
  static constexpr int kMaxLevel = 28;
  template <int kJ>
  RW_INLINE Levels Line(const uint8_t* lines) {
    return LookUp(kMxfp4Values, Bits4::Line<kJ>(lines));
  }
};

// The types. kHasMin: m * sum is added; else the packed rows' aux is added to the integer sums.

template <typename Scales, typename Bits, const PanelLayout* kLayout, bool kMin>
struct Quantised : Scales, Bits {
  static constexpr PanelLayout kPanel = *kLayout;
  static constexpr bool kHasMin = kMin;
  static constexpr int kElements = 32;  // Features of one step.
  static constexpr size_t kPackedBytes =
      Scales::kScales == 1 ? kPackedBlockBytes : kPackedPartsBytes;
  // Lines of 64 bytes that a step prefetches.
  static constexpr int kFetchLines = static_cast<int>((kPanel.bytes / kPanel.blocks + 63) / 64);
};

using Q40 = Quantised<HalfScales, Bits4, &kQ40Panel, false>;
using Q41 = Quantised<HalfScales, Bits4, &kQ41Panel, true>;
using Q50 = Quantised<HalfScales, Bits5, &kQ50Panel, false>;
using Q51 = Quantised<HalfScales, Bits5, &kQ51Panel, true>;
using Q80 = Quantised<HalfScales, Bits8, &kQ80Panel, false>;
using Q2K = Quantised<NibbleCodedScales, Bits2, &kQ2KPanel, true>;
using Q3K = Quantised<PartsCodedScales, Bits3, &kQ3KPanel, false>;
using Q4K = Quantised<CodedScales, Bits4, &kQ4KPanel, true>;
using Q5K = Quantised<CodedScales, Bits5, &kQ5KPanel, true>;
using Q6K = Quantised<PartsCodedScales, Bits6, &kQ6KPanel, false>;
using Iq4Nl = Quantised<HalfScales, Iq4Levels, &kQ40Panel, false>;
using Iq4Xs = Quantised<CodedScales, Iq4Levels, &kIq4XsPanel, false>;
using Mxfp4 = Quantised<ExponentScales, Mxfp4Levels, &kMxfp4Panel, false>;

template <typename Type>
RW_INLINE BlockAddress AddressOf(const uint8_t* panel, size_t b) {
  constexpr PanelLayout kPanel = Type::kPanel;
  const uint8_t* unit = panel + b / kPanel.blocks * kPanel.bytes;
  const size_t in_unit = b % kPanel.blocks;
  return {unit + in_unit * kPanel.scale_step, unit + kPanel.codes + in_unit * kPanel.code_step,
          unit + kPanel.lines + in_unit * kPanel.bits * 64};
}

// Not quantised: one feature a step; groups of rows are [k][4] f32. Load gives one of `at`, the
// panel's numbers of that feature (kBytes a column), from a column on.

template <size_t kBytesOfOne>
struct Unquantised {
  static constexpr size_t kBytes = kBytesOfOne;
  static constexpr int kElements = 1;
  static constexpr int kFetchLines = 1;
};

struct F32 : Unquantised<4> {
  RW_INLINE Columns Load(const uint8_t* at) { return LoadColumns(at); }
};

struct F16 : Unquantised<2> {
  RW_INLINE Columns Load(const uint8_t* at) { return HalfColumns(at); }
};

struct BF16 : Unquantised<2> {
  RW_INLINE Columns Load(const uint8_t* at) { return BFloatColumns(at); }
};

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_MATMUL_TYPES_INL_H_
