// Packing and multiplying: every table against the reference by bits, and the reference against
// double precision on dequantised weights.
#include <array>
#include <cstring>
#include <tuple>

#include "kernels/layout.h"
#include "kernels/test_util.h"

namespace ropeway::kernels::testing {
namespace {

struct MatMulProblem {
  WeightType type;
  int n;
  int k;
  int rows;
  Values values;
};

std::vector<float> Activations(const MatMulProblem& problem, Rng& rng) {
  std::vector<float> x(static_cast<size_t>(problem.rows) * static_cast<size_t>(problem.k));
  for (float& value : x) value = Activation(problem.values, rng);
  if (problem.values == Values::kExtreme && problem.rows > 1) {
    // One row at the limit in every element, with one sign.
    for (int i = 0; i < problem.k; ++i) x[static_cast<size_t>(i)] = -3.0F;
  }
  return x;
}

std::vector<std::byte> PackAll(const Kernels& kernels, const MatMulProblem& problem, const float* x,
                               int rows) {
  std::vector<std::byte> packed(PackedRowsBytes(problem.type, rows, problem.k), std::byte{0x5A});
  kernels.pack_rows(problem.type, x, problem.k, 0, rows, problem.k, packed.data());
  return packed;
}

std::vector<float> Multiply(const Kernels& kernels, const Matrix& w,
                            const std::vector<std::byte>& packed, int rows) {
  std::vector<float> y(static_cast<size_t>(rows) * static_cast<size_t>(w.n), 7.0F);
  kernels.matmul(w, packed.data(), rows, 0, w.num_panels(), y.data(), w.n);
  return y;
}

// Lengths of rows: whole stored blocks, with full and with half filled units of panels.
std::vector<int> LengthsOf(WeightType type) {
  if (WeightBlockElements(type) == 256) return {256, 512, 1280};
  return {32, 64, 96, 160, 224, 576};
}

class MatMulTest : public TableTest {
 protected:
  // problem.k is rounded up to whole stored blocks.
  void Check(MatMulProblem problem) {
    problem.k = WholeBlocks(problem.type, problem.k);
    SCOPED_TRACE(std::string(WeightTypeName(problem.type)) + " n " + std::to_string(problem.n) +
                 " k " + std::to_string(problem.k) + " rows " + std::to_string(problem.rows) +
                 " values " + std::to_string(static_cast<int>(problem.values)));
    Rng rng(static_cast<uint32_t>(problem.n * 1000 + problem.k + problem.rows));
    AlignedBytes panels(MatrixBytes(problem.type, problem.n, problem.k));
    const Matrix w =
        Pack(problem.type, problem.n, problem.k,
             RandomRows(problem.type, problem.n, problem.k, problem.values, rng), &panels);
    const std::vector<float> x = Activations(problem, rng);
    const auto expected_packed = PackAll(reference_, problem, x.data(), problem.rows);
    const auto packed = PackAll(*kernels_, problem, x.data(), problem.rows);
    if (problem.values != Values::kHostile) {
      ASSERT_EQ(packed, expected_packed);
    } else if (WeightBlockElements(problem.type) > 1) {
      // NaN scales may differ in their payload, integers may not.
      const size_t block_bytes = PackedRowsBytes(problem.type, kRowGroup, kQuantBlock);
      for (size_t i = 0; i < packed.size(); ++i) {
        if (i % block_bytes < kPackedScaleOffset) {
          ASSERT_EQ(packed[i], expected_packed[i]) << i;
        }
      }
    }
    ASSERT_TRUE(AllSameBits(Multiply(reference_, w, expected_packed, problem.rows),
                            Multiply(*kernels_, w, packed, problem.rows)));
  }
};

TEST_P(MatMulTest, EqualsReferenceForEveryRowCount) {
  for (const WeightType type : kWeightTypes) {
    for (int rows = 1; rows <= 40; ++rows) Check({type, 80, 96, rows, Values::kNormal});
    for (const int rows : {64, 100, 128, 511, 512}) Check({type, 39, 96, rows, Values::kNormal});
  }
}

TEST_P(MatMulTest, EqualsReferenceForEveryShape) {
  for (const WeightType type : kWeightTypes) {
    for (const int k : LengthsOf(type)) {
      for (const int n : {1, 8, 9, 16, 17, 63, 64, 100}) {
        for (const int rows : {1, 2, 5, 13}) Check({type, n, k, rows, Values::kNormal});
      }
    }
  }
}

// So many rows of so many features that they are multiplied in several blocks (matmul-inl.h).
TEST_P(MatMulTest, EqualsReferenceBeyondOneBlockOfRows) {
  for (const WeightType type : kWeightTypes) {
    Check({type, 33, 2080, 301, Values::kNormal});
    Check({type, 17, 8192, 50, Values::kNormal});
  }
}

// Rows so long that a block has its least number of tiles: just within one block, and the first
// numbers of rows that take two and three of them, of unequal tiles.
TEST_P(MatMulTest, EqualsReferenceForLongRows) {
  for (const int rows : {12, 13, 24, 25, 29, 49}) {
    for (const WeightType type : {WeightType::kF32, WeightType::kF16}) {
      Check({type, 33, 4160, rows, Values::kNormal});
    }
    for (const WeightType type : {WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ8_0,
                                  WeightType::kQ4_K, WeightType::kQ6_K}) {
      Check({type, 33, 13120, rows, Values::kNormal});
    }
  }
}

TEST_P(MatMulTest, EqualsReferenceAtTheLimitsOfIntegers) {
  for (const WeightType type : kWeightTypes) {
    for (int rows = 1; rows <= 26; ++rows) Check({type, 50, 352, rows, Values::kExtreme});
  }
}

TEST_P(MatMulTest, EqualsReferenceForInfinitiesAndNan) {
  for (const WeightType type : kWeightTypes) {
    for (int rows = 1; rows <= 26; ++rows) Check({type, 50, 352, rows, Values::kHostile});
  }
}

// Rows of `k` elements whose bytes are all the same, except for the scales: 1.
std::vector<std::byte> EqualBytes(WeightType type, int n, int k, int byte) {
  const size_t row_bytes = WeightRowBytes(type, k);
  std::vector<std::byte> rows(row_bytes * static_cast<size_t>(n), static_cast<std::byte>(byte));
  const uint16_t one = FloatToHalf(1.0F);
  const StoredScales stored = StoredScalesOf(type);
  const auto blocks = static_cast<size_t>(k / WeightBlockElements(type));
  for (size_t at = 0; at < rows.size(); at += row_bytes / blocks) {
    if (stored.scale >= 0) std::memcpy(&rows[at] + stored.scale, &one, 2);
    if (stored.min >= 0) std::memcpy(&rows[at] + stored.min, &one, 2);
    if (type == WeightType::kMXFP4) rows[at] = std::byte{128};
  }
  return rows;
}

// Every weight and every activation at one end of its range: the largest sums of either sign.
TEST_P(MatMulTest, EqualsReferenceForTheLargestSums) {
  for (const WeightType type : kWeightTypes) {
    if (WeightBlockElements(type) == 1) continue;
    const int k = WholeBlocks(type, 96);
    for (const int byte : {0x00, 0x0F, 0x7F, 0x80, 0xF0, 0xFF}) {
      AlignedBytes panels(MatrixBytes(type, 20, k));
      const Matrix w = Pack(type, 20, k, EqualBytes(type, 20, k, byte), &panels);
      std::vector<float> weights(static_cast<size_t>(k));
      UnpackRow(w, 0, weights.data());
      for (const float sign : {1.0F, -1.0F}) {
        const std::string what = std::string(WeightTypeName(type)) + " byte " +
                                 std::to_string(byte) + " sign " + std::to_string(sign);
        const MatMulProblem problem = {type, 20, k, 13, Values::kNormal};
        const std::vector<float> x(static_cast<size_t>(13 * k), sign * 127.0F);
        const auto expected =
            Multiply(reference_, w, PackAll(reference_, problem, x.data(), 13), 13);
        ASSERT_TRUE(AllSameBits(
            expected, Multiply(*kernels_, w, PackAll(*kernels_, problem, x.data(), 13), 13)))
            << what;
        double sum = 0.0;
        double magnitude = 0.0;
        for (const float weight : weights) {
          sum += static_cast<double>(weight) * sign * 127.0;
          magnitude += std::fabs(static_cast<double>(weight) * 127.0);
        }
        // Minima are added apart from what they are subtracted from. Below 2^24 all is exact.
        const double bound = magnitude + std::fabs(sum) < 0x1p+20 ? 0.0 : 1e-5 * magnitude + 1.0;
        EXPECT_NEAR(expected[0], sum, bound) << what;
      }
    }
  }
}

// A row's product does not depend on the rows beside it, nor on how panels are shared out.
TEST_P(MatMulTest, RowsAreAlone) {
  for (const WeightType type : kWeightTypes) {
    Rng rng(5);
    const MatMulProblem problem = {type, 150, WholeBlocks(type, 288), 33, Values::kNormal};
    AlignedBytes panels(MatrixBytes(type, problem.n, problem.k));
    const Matrix w = Pack(type, problem.n, problem.k,
                          RandomRows(type, problem.n, problem.k, Values::kNormal, rng), &panels);
    const std::vector<float> x = Activations(problem, rng);
    const std::vector<float> together =
        Multiply(*kernels_, w, PackAll(*kernels_, problem, x.data(), problem.rows), problem.rows);
    for (int r = 0; r < problem.rows; ++r) {
      const auto packed = PackAll(*kernels_, problem, x.data() + r * problem.k, 1);
      std::vector<float> alone(static_cast<size_t>(w.n));
      for (int p = 0; p < w.num_panels(); p += 3) {
        kernels_->matmul(w, packed.data(), 1, p, std::min(p + 3, w.num_panels()), alone.data(),
                         w.n);
      }
      const auto row = together.begin() + static_cast<int64_t>(r) * w.n;
      ASSERT_TRUE(AllSameBits({row, row + w.n}, alone)) << "row " << r;
    }
  }
}

// Any range of panels, any stride: what is written equals the reference, and nothing else is.
TEST_P(MatMulTest, WritesOnlyItsPanelsAndRows) {
  for (const WeightType type : kWeightTypes) {
    Rng rng(6);
    for (const int rows : {1, 3, 6, 17, 29}) {
      const MatMulProblem problem = {type, 90, WholeBlocks(type, 64), rows, Values::kNormal};
      AlignedBytes panels(MatrixBytes(type, problem.n, problem.k));
      const Matrix w = Pack(type, problem.n, problem.k,
                            RandomRows(type, problem.n, problem.k, Values::kNormal, rng), &panels);
      const std::vector<float> x = Activations(problem, rng);
      const auto packed = PackAll(*kernels_, problem, x.data(), rows);
      const std::vector<float> whole =
          Multiply(reference_, w, PackAll(reference_, problem, x.data(), rows), rows);
      for (const auto& [begin, end] :
           {std::pair{0, 1}, std::pair{1, 4}, std::pair{4, 6}, std::pair{2, 2}, std::pair{0, 6}}) {
        for (const int stride : {90, 101, 128}) {
          const size_t size = static_cast<size_t>(stride) * static_cast<size_t>(rows + 1);
          std::vector<float> expected(size, 42.0F);
          for (int r = 0; r < rows; ++r) {
            for (int c = begin * kPanelCols; c < std::min(end * kPanelCols, w.n); ++c) {
              expected[static_cast<size_t>(r * stride + c)] =
                  whole[static_cast<size_t>(r * w.n + c)];
            }
          }
          std::vector<float> y(size, 42.0F);
          kernels_->matmul(w, packed.data(), rows, begin, end, y.data(), stride);
          ASSERT_TRUE(AllSameBits(expected, y))
              << WeightTypeName(type) << " rows " << rows << " panels " << begin << " to " << end;
        }
      }
    }
  }
}

TEST_P(MatMulTest, PacksInPiecesAsAtOnce) {
  for (const WeightType type : kWeightTypes) {
    Rng rng(7);
    const MatMulProblem problem = {type, 0, 96, 19, Values::kNormal};
    const std::vector<float> x = Activations(problem, rng);
    const auto at_once = PackAll(*kernels_, problem, x.data(), problem.rows);
    std::vector<std::byte> packed(at_once.size());
    for (const auto& [begin, end] : {std::pair{8, 16}, std::pair{0, 8}, std::pair{16, 19}}) {
      kernels_->pack_rows(type, x.data(), problem.k, begin, end, problem.k, packed.data());
    }
    EXPECT_EQ(packed, at_once);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, MatMulTest, ::testing::Values("avx2", "avx512vnni"),
                         [](const auto& info) { return std::string(info.param); });

// Relative root mean square error of the reference against exact products.
double ErrorAgainstDouble(WeightType type) {
  Rng rng(8);
  const MatMulProblem problem = {type, 64, WholeBlocks(type, 576), 9, Values::kNormal};
  AlignedBytes panels(MatrixBytes(type, problem.n, problem.k));
  const Matrix w = Pack(type, problem.n, problem.k,
                        RandomRows(type, problem.n, problem.k, Values::kNormal, rng), &panels);
  const std::vector<float> x = Activations(problem, rng);
  const std::vector<float> y =
      Multiply(kReferenceKernels, w, PackAll(kReferenceKernels, problem, x.data(), problem.rows),
               problem.rows);
  double error = 0;
  double norm = 0;
  std::vector<float> weights(static_cast<size_t>(w.k));
  for (int c = 0; c < w.n; ++c) {
    UnpackRow(w, c, weights.data());
    for (int r = 0; r < problem.rows; ++r) {
      double exact = 0;
      for (int i = 0; i < w.k; ++i) {
        exact += static_cast<double>(weights[static_cast<size_t>(i)]) *
                 x[static_cast<size_t>(r * w.k + i)];
      }
      error += std::pow(y[static_cast<size_t>(r * w.n + c)] - exact, 2);
      norm += exact * exact;
    }
  }
  return std::sqrt(error / norm);
}

TEST(ReferenceMatMul, IsCloseToDoublePrecision) {
  for (const WeightType type : kWeightTypes) {
    // 8-bit activations: about 0.5 %.
    EXPECT_LT(ErrorAgainstDouble(type), WeightBlockElements(type) == 1 ? 1e-6 : 0.008)
        << WeightTypeName(type);
  }
}

TEST(ReferenceMatMul, QuantisesByTheRule) {
  std::vector<float> x(32, 0.0F);
  x[0] = -254.0F;  // d = 2
  x[1] = 1.0F;     // 0.5: tie to 0
  x[2] = 3.0F;     // 1.5: tie to 2
  x[3] = -5.0F;    // -2.5: tie to -2
  x[31] = 254.0F;
  std::vector<std::byte> packed(PackedRowsBytes(WeightType::kQ4_1, 1, 32));
  kReferenceKernels.pack_rows(WeightType::kQ4_1, x.data(), 32, 0, 1, 32, packed.data());
  EXPECT_EQ(static_cast<int8_t>(packed[0]), -127);
  EXPECT_EQ(static_cast<int8_t>(packed[1]), 0);
  EXPECT_EQ(static_cast<int8_t>(packed[2]), 2);
  EXPECT_EQ(static_cast<int8_t>(packed[3]), -2);
  EXPECT_EQ(static_cast<int8_t>(packed[7 * 16 + 3]), 127);
  float d = 0;
  float s = 1;
  std::memcpy(&d, &packed[128], 4);
  std::memcpy(&s, &packed[144], 4);
  EXPECT_EQ(d, 2.0F);
  EXPECT_EQ(s, 0.0F);
}

// Types with parts have the sum of each half of a block.
TEST(ReferenceMatMul, SumsPartsByThemselves) {
  std::vector<float> x(32, -127.0F);
  for (size_t i = 0; i < 16; ++i) x[i] = static_cast<float>(i);
  const auto aux_of = [&](WeightType type) {
    std::vector<std::byte> packed(PackedRowsBytes(type, 1, 32));
    kReferenceKernels.pack_rows(type, x.data(), 32, 0, 1, 32, packed.data());
    std::array<uint32_t, 2> aux = {};
    std::memcpy(&aux[0], &packed[kPackedAuxOffset], 4);
    std::memcpy(&aux[1], &packed[kPackedAuxOffset + 16], 4);
    return aux;
  };
  EXPECT_EQ(PackedRowsBytes(WeightType::kQ6_K, 4, 32), kPackedPartsBytes);
  EXPECT_EQ(aux_of(WeightType::kQ6_K)[0], static_cast<uint32_t>(-32 * 120));
  EXPECT_EQ(aux_of(WeightType::kQ6_K)[1], static_cast<uint32_t>(32 * 16 * 127));
  EXPECT_EQ(aux_of(WeightType::kQ3_K)[0], static_cast<uint32_t>(-4 * 120));
  EXPECT_EQ(std::bit_cast<float>(aux_of(WeightType::kQ2_K)[0]), 120.0F);
  EXPECT_EQ(std::bit_cast<float>(aux_of(WeightType::kQ2_K)[1]), -16.0F * 127.0F);
}

}  // namespace
}  // namespace ropeway::kernels::testing
