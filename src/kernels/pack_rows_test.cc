// Packing activations: every table's bytes against the reference's, for all types, shapes and kinds
// of values, in parts and whole.
#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "kernels/layout.h"
#include "kernels/test_util.h"

namespace ropeway::kernels::testing {
namespace {

// A type for each packing.
constexpr WeightType kTypesByPacking[] = {WeightType::kF32,  WeightType::kQ4_1, WeightType::kQ4_0,
                                          WeightType::kQ5_0, WeightType::kQ8_0, WeightType::kQ2_K,
                                          WeightType::kQ3_K, WeightType::kQ6_K};

bool HasFloatSums(RowPacking packing) {
  return packing == RowPacking::kScaledSum || packing == RowPacking::kPartsScaledSum;
}

size_t BlockBytes(RowPacking packing) {
  return packing >= RowPacking::kPartsScaledSum ? kPackedPartsBytes : kPackedBlockBytes;
}

// NaN's sign and payload have no meaning: every NaN among the scales and sums becomes the same one.
void MakeNanAlike(WeightType type, AlignedBytes* packed, size_t size) {
  const RowPacking packing = RowPackingOf(type);
  const bool floats = packing == RowPacking::kFloats;
  for (size_t at = 0; at + 4 <= size; at += 4) {
    const size_t in_block = at % BlockBytes(packing);
    if (!floats && in_block < kPackedScaleOffset) continue;
    if (!floats && in_block >= kPackedAuxOffset && !HasFloatSums(packing)) continue;
    float value;
    std::memcpy(&value, packed->get() + at, 4);
    if (!std::isnan(value)) continue;
    value = std::nanf("");
    std::memcpy(packed->get() + at, &value, 4);
  }
}

class PackRowsTest : public TableTest {};

TEST_P(PackRowsTest, GivesTheReferencesBytes) {
  uint32_t seed = 1;
  for (const WeightType type : kTypesByPacking) {
    for (const Values values : {Values::kNormal, Values::kExtreme, Values::kHostile,
                                Values::kCancelling, Values::kAnyBits}) {
      for (const int k : {32, 64, 96, 576, 1536}) {
        for (const int rows : {1, 2, 3, 4, 5, 7, 8, 13, 33}) {
          Rng rng(seed++);
          const int stride = k + static_cast<int>(rng() % 9);
          std::vector<float> x(static_cast<size_t>(rows) * static_cast<size_t>(stride));
          for (float& value : x) value = Activation(values, rng);
          const size_t size = PackedRowsBytes(type, rows, k);
          AlignedBytes expected(size);
          AlignedBytes actual(size);
          reference_.pack_rows(type, x.data(), stride, 0, rows, k, expected.get());
          // In parts, each a multiple of kRowGroup rows but the last.
          for (int begin = 0; begin < rows;) {
            const int groups = 1 + static_cast<int>(rng() % 3);
            const int end = std::min(rows, begin + groups * kRowGroup);
            kernels_->pack_rows(type, x.data(), stride, begin, end, k, actual.get());
            begin = end;
          }
          MakeNanAlike(type, &expected, size);
          MakeNanAlike(type, &actual, size);
          ASSERT_EQ(std::memcmp(expected.get(), actual.get(), size), 0)
              << WeightTypeName(type) << " " << rows << " x " << k;
        }
      }
    }
  }
}

// The rounding of each element, and what is left of a block that is nearly nothing.
TEST_P(PackRowsTest, TiesAndLimitsOfQuantising) {
  for (const WeightType type : std::span(kTypesByPacking).subspan(1)) {
    for (const float largest : {127.0F, 1.0F, 0x1p-100F, 0x1.fffffep-101F, 0x1p-126F, 0x1p-149F,
                                0x1.fffffep+127F, 3.0F * 0x1p-99F}) {
      std::vector<float> x(32 * 4);
      for (size_t i = 0; i < x.size(); ++i) {
        // Halves, and their neighbours, between -127 and 127 times the scale.
        const float half = 0.5F * static_cast<float>(static_cast<int>(i * 37 % 509) - 254);
        const float value = i % 3 == 0 ? half : std::nextafter(half, i % 3 == 1 ? 200.0F : -200.0F);
        x[i] = value * (largest / 127.0F);
      }
      for (size_t r = 0; r < 4; ++r) x[32 * r + 7 * r] = r % 2 == 0 ? largest : -largest;
      const size_t size = PackedRowsBytes(type, 4, 32);
      AlignedBytes expected(size);
      AlignedBytes actual(size);
      reference_.pack_rows(type, x.data(), 32, 0, 4, 32, expected.get());
      kernels_->pack_rows(type, x.data(), 32, 0, 4, 32, actual.get());
      ASSERT_EQ(std::memcmp(expected.get(), actual.get(), size), 0)
          << WeightTypeName(type) << " " << largest;
    }
  }
}

// Every packing is tested above, and each type's rows are packed as one tested type's.
TEST(RowPackingTest, EqualPackingsGiveEqualBytes) {
  std::set<RowPacking> tested;
  for (const WeightType type : kTypesByPacking) tested.insert(RowPackingOf(type));
  EXPECT_EQ(tested.size(), std::size(kTypesByPacking));
  Rng rng(3);
  std::vector<float> x(7 * 512);
  for (float& value : x) value = Activation(Values::kNormal, rng);
  for (const WeightType type : kWeightTypes) {
    const WeightType* like = std::ranges::find(kTypesByPacking, RowPackingOf(type), RowPackingOf);
    ASSERT_NE(like, std::end(kTypesByPacking)) << WeightTypeName(type);
    const size_t size = PackedRowsBytes(type, 7, 512);
    ASSERT_EQ(size, PackedRowsBytes(*like, 7, 512)) << WeightTypeName(type);
    std::vector<std::byte> a(size);
    std::vector<std::byte> b(size);
    kReferenceKernels.pack_rows(type, x.data(), 512, 0, 7, 512, a.data());
    kReferenceKernels.pack_rows(*like, x.data(), 512, 0, 7, 512, b.data());
    EXPECT_EQ(a, b) << WeightTypeName(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, PackRowsTest, ::testing::Values("avx2", "avx512vnni"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ropeway::kernels::testing
