// Products with weights of every type, and their rows, on a device: the reference's bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gpu/ops.h"
#include "gpu/test_gpu.h"
#include "kernels/kernels.h"
#include "kernels/reference.h"
#include "kernels/test_util.h"

namespace ropeway::gpu {
namespace {

using kernels::Matrix;
using kernels::WeightType;
using kernels::testing::AlignedBytes;
using kernels::testing::AllSameBits;
using kernels::testing::Rng;
using kernels::testing::Values;
using kernels::testing::WholeBlocks;
using testing::Download;
using testing::OpenTestGpu;
using testing::Upload;

constexpr float kUnwritten = 7.0F;  // Where nothing may be written.

// Values on the device, some bytes behind the begin of a buffer.
class OnDevice {
 public:
  template <typename T>
  OnDevice(Gpu* gpu, const std::vector<T>& values, size_t before) {
    std::vector<T> all(before / sizeof(T));
    all.insert(all.end(), values.begin(), values.end());
    all.push_back(T{});  // A buffer is never empty.
    buffer_ = Upload(gpu, all);
    view_ = {buffer_.get(), before};
  }
  View view() const { return view_; }

 private:
  std::unique_ptr<Buffer> buffer_;
  View view_;
};

struct HostPacked {
  std::vector<int8_t> levels;
  std::vector<float> scales;
  std::vector<int32_t> sums;
};

HostPacked PackOnHost(const std::vector<float>& x) {
  HostPacked packed;
  packed.levels.resize(x.size());
  for (size_t at = 0; at + 32 <= x.size(); at += 32) {
    packed.scales.push_back(kernels::reference::Quantise(&x[at], 32, &packed.levels[at]));
    for (size_t part = at; part < at + 32; part += 16) {
      int32_t sum = 0;
      for (size_t i = part; i < part + 16; ++i) sum += packed.levels[i];
      packed.sums.push_back(sum);
    }
  }
  return packed;
}

// Matrices of one shape, one after the other, as GGUF's random rows make them.
struct HostMatrices {
  HostMatrices(WeightType type, int n, int k, int count, Values values, Rng& rng)
      : bytes(kernels::MatrixBytes(type, n, k)) {
    for (int i = 0; i < count; ++i) {
      AlignedBytes one(bytes);
      kernels::testing::Pack(type, n, k, kernels::testing::RandomRows(type, n, k, values, rng),
                             &one);
      panels.insert(panels.end(), one.get(), one.get() + bytes);
    }
  }
  // Matrix i, for the reference: no alignment is asked for there.
  Matrix Get(WeightType type, int n, int k, int i) const {
    return {.type = type, .n = n, .k = k, .panels = &panels[static_cast<size_t>(i) * bytes]};
  }

  size_t bytes;
  std::vector<std::byte> panels;
};

struct MatMulProblem {
  int n;
  int k;  // Rounded up to whole stored blocks.
  int rows;
  Values values = Values::kNormal;
  bool bias = false;
  int matrices = 1;  // Above 1: each row has ids.
  int shared_by = 1;
  int gap = 0;  // Of the strides.
};

class GpuMatMul : public ::testing::TestWithParam<WeightType> {
 protected:
  void SetUp() override {
    gpu_ = OpenTestGpu();
    ASSERT_NE(gpu_, nullptr);
    ops_ = Ops::MakeForTypes(gpu_.get());
    const Status added = ops_->AddType(type_);
    ASSERT_TRUE(added.ok()) << added.message();
  }

  void Check(MatMulProblem problem) {
    problem.k = WholeBlocks(type_, problem.k);
    const auto& [n, k, rows, values, with_bias, matrices, shared_by, gap] = problem;
    SCOPED_TRACE("n " + std::to_string(n) + " k " + std::to_string(k) + " rows " +
                 std::to_string(rows) + " values " + std::to_string(static_cast<int>(values)));
    Rng rng(static_cast<uint32_t>(n * 1000 + k + rows));
    const HostMatrices weights(type_, n, k, matrices, values, rng);
    std::vector<float> x(static_cast<size_t>((rows + shared_by - 1) / shared_by * k));
    for (float& value : x) value = kernels::testing::Activation(values, rng);
    if (values == Values::kExtreme) {  // The first row is at the limit, with one sign.
      std::fill_n(x.begin(), std::min(x.size(), static_cast<size_t>(k)), -3.0F);
    }
    std::vector<float> bias(static_cast<size_t>(n * matrices));
    for (float& value : bias) value = kernels::testing::Normal(rng);
    std::vector<int32_t> ids(static_cast<size_t>(rows));
    for (int32_t& id : ids) id = static_cast<int32_t>(rng() % static_cast<uint32_t>(matrices));

    const int stride = n + gap;
    std::vector<float> expected(static_cast<size_t>(rows * stride + 9), kUnwritten);
    const bool alone = matrices > 1 || shared_by > 1;
    if (!alone) Multiply(weights.Get(type_, n, k, 0), x.data(), rows, expected.data(), stride);
    for (int r = 0; r < rows; ++r) {
      float* const y = &expected[static_cast<size_t>(r * stride)];
      if (alone) {
        Multiply(weights.Get(type_, n, k, ids[static_cast<size_t>(r)]),
                 &x[static_cast<size_t>(r / shared_by * k)], 1, y, stride);
      }
      const float* const b = &bias[static_cast<size_t>(ids[static_cast<size_t>(r)] * n)];
      for (int c = 0; with_bias && c < n; ++c) y[c] = y[c] + b[c];
    }

    Gpu* const gpu = gpu_.get();
    const std::vector<float> before(expected.size() + 3, kUnwritten);
    const OnDevice panels(gpu, weights.panels, 128);
    const OnDevice to(gpu, before, 0);
    const OnDevice biases(gpu, bias, 12);
    const OnDevice which(gpu, ids, 8);
    // The input: rows with a gap, or packed ones.
    std::vector<float> apart;
    for (size_t at = 0; at < x.size(); at += static_cast<size_t>(k)) {
      apart.insert(apart.end(), &x[at], &x[at] + k);
      apart.resize(apart.size() + static_cast<size_t>(gap), kUnwritten);
    }
    const HostPacked packed = PackOnHost(x);
    const OnDevice floats(gpu, apart, 4);
    const OnDevice levels(gpu, packed.levels, 32);
    const OnDevice scales(gpu, packed.scales, 20);
    const OnDevice sums(gpu, packed.sums, 24);
    Input input;
    if (kernels::WeightBlockElements(type_) == 1) {
      input.rows = {floats.view(), k + gap};
    } else {
      input.packed = {levels.view(), scales.view(), sums.view()};
    }
    const DeviceMatrix matrix = {type_, n, k, panels.view(), with_bias ? biases.view() : View{}};
    ops_->MatMul(matrix, input, rows, {to.view() + 3 * sizeof(float), stride},
                 {matrices > 1 ? which.view() : View{}, shared_by});

    expected.insert(expected.begin(), 3, kUnwritten);
    ASSERT_TRUE(AllSameBits(expected, Download<float>(gpu, to.view(), expected.size())));
  }

  // By the reference.
  static void Multiply(const Matrix& matrix, const float* x, int rows, float* y, int stride) {
    const kernels::Kernels& reference = kernels::kReferenceKernels;
    std::vector<std::byte> packed(kernels::PackedRowsBytes(matrix.type, rows, matrix.k));
    reference.pack_rows(matrix.type, x, matrix.k, 0, rows, matrix.k, packed.data());
    reference.matmul(matrix, packed.data(), rows, 0, matrix.num_panels(), y, stride);
  }

  const WeightType type_ = GetParam();
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<Ops> ops_;
};

TEST_P(GpuMatMul, HasTheReferencesBits) {
  for (const int rows : {0, 1, 3, 17, 64}) {
    Check({.n = 80, .k = 96, .rows = rows, .gap = 5});
    Check({.n = 100, .k = 288, .rows = rows, .bias = true});
  }
  for (const int n : {1, 15, 16, 17, 63, 64, 65, 130}) Check({.n = n, .k = 64, .rows = 2});
  for (const int k : {32, 64, 128, 160, 224, 576, 1280}) Check({.n = 20, .k = k, .rows = 5});
}

TEST_P(GpuMatMul, HasTheReferencesBitsForEveryNumber) {
  for (const Values values :
       {Values::kExtreme, Values::kHostile, Values::kCancelling, Values::kAnyBits}) {
    Check({.n = 70, .k = 512, .rows = 9, .values = values, .bias = true});
  }
}

// So many that a device has enough to do without splitting rows.
TEST_P(GpuMatMul, HasTheReferencesBitsForManyRows) {
  Check({.n = 250, .k = 96, .rows = 515, .bias = true, .gap = 3});
  Check({.n = 250, .k = 512, .rows = 513, .values = Values::kHostile});
}

TEST_P(GpuMatMul, RowsHaveTheirOwnMatrices) {
  Check({.n = 70, .k = 64, .rows = 260, .bias = true, .matrices = 5, .shared_by = 4});
  Check({.n = 70, .k = 96, .rows = 13, .bias = true, .matrices = 5, .shared_by = 1, .gap = 2});
  Check({.n = 70, .k = 96, .rows = 12, .bias = true, .matrices = 3, .shared_by = 4, .gap = 2});
  // Without ids an input row may serve several rows all the same.
  Check({.n = 33, .k = 96, .rows = 10, .shared_by = 2});
}

TEST_P(GpuMatMul, UnpacksRows) {
  for (const Values values : {Values::kNormal, Values::kExtreme, Values::kHostile}) {
    for (const int unrounded : {32, 96, 800}) {
      constexpr int kN = 37;
      const int k = WholeBlocks(type_, unrounded);
      Rng rng(static_cast<uint32_t>(k));
      const HostMatrices weights(type_, kN, k, 1, values, rng);
      const std::vector<int32_t> ids = {36, 0, 16, 15, 36, 1};
      const int stride = k + 3;
      std::vector<float> expected(2 + ids.size() * static_cast<size_t>(stride), kUnwritten);
      const std::vector<float> before = expected;
      for (size_t r = 0; r < ids.size(); ++r) {
        kernels::UnpackRow(weights.Get(type_, kN, k, 0), ids[r],
                           &expected[2 + r * static_cast<size_t>(stride)]);
      }
      const OnDevice panels(gpu_.get(), weights.panels, 64);
      const OnDevice which(gpu_.get(), ids, 4);
      const OnDevice to(gpu_.get(), before, 0);
      const DeviceMatrix matrix = {type_, kN, k, panels.view(), {}};
      ops_->Unpack(matrix, which.view(), static_cast<int>(ids.size()), {to.view() + 8, stride});
      ops_->Unpack(matrix, which.view(), 0, {to.view(), stride});
      ASSERT_TRUE(AllSameBits(expected, Download<float>(gpu_.get(), to.view(), expected.size())))
          << "k " << k << " values " << static_cast<int>(values);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuMatMul, ::testing::ValuesIn(kernels::kWeightTypes),
                         [](const auto& tested) { return WeightTypeName(tested.param); });

// A row with every element of 16 bits that there is.
TEST(GpuUnpack, KnowsEveryHalf) {
  constexpr int kElements = 1 << 16;
  std::vector<uint16_t> row(kElements);
  std::iota(row.begin(), row.end(), uint16_t{0});
  const std::unique_ptr<Gpu> gpu = OpenTestGpu();
  ASSERT_NE(gpu, nullptr);
  const std::unique_ptr<Ops> ops = Ops::MakeForTypes(gpu.get());
  for (const WeightType type : {WeightType::kF16, WeightType::kBF16}) {
    ASSERT_TRUE(ops->AddType(type).ok());
    std::vector<std::byte> stored(row.size() * sizeof row[0]);
    std::memcpy(stored.data(), row.data(), stored.size());
    AlignedBytes bytes(kernels::MatrixBytes(type, 1, kElements));
    const Matrix matrix = kernels::testing::Pack(type, 1, kElements, stored, &bytes);
    std::vector<float> expected(kElements);
    kernels::UnpackRow(matrix, 0, expected.data());
    const OnDevice panels(gpu.get(), std::vector(bytes.get(), bytes.get() + bytes.size()), 0);
    const OnDevice ids(gpu.get(), std::vector<int32_t>{0}, 0);
    const OnDevice to(gpu.get(), std::vector<float>(kElements, kUnwritten), 0);
    ops->Unpack({type, 1, kElements, panels.view(), {}}, ids.view(), 1, {to.view(), kElements});
    ASSERT_TRUE(AllSameBits(expected, Download<float>(gpu.get(), to.view(), kElements)));
  }
}

}  // namespace
}  // namespace ropeway::gpu
