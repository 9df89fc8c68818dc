#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_largest_allocation.h"

namespace ropeway::model {
namespace {

using ::testing::HasSubstr;

StatusOr<std::unique_ptr<Model>> MakeModel(const GgufWriter& writer, int32_t max_positions = 0) {
  const TempFile temp(writer.Bytes());
  const auto file = OpenModel(temp.path()).value();
  return Model::Make(*file, BindTensors(*file).value(), max_positions);
}

TEST(ModelTest, RopeTableHoldsEveryPosition) {
  GgufWriter writer = TinyLlama();
  const std::vector<float> divisors = {1, 1, 1, 1, 1, 1, 1, 8};
  writer.SetTensor("rope_freqs.weight", {8}, kernels::WeightType::kF32, divisors);
  writer.SetFloat32("llama.rope.scaling.factor", 2.0F);
  const auto model = MakeModel(writer);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->max_positions(), 512);
  for (const int position : {0, 1, 255, 256, 511}) {
    const float* row = (*model)->rope_row(0, position, false);
    for (size_t i = 0; i < 8; ++i) {
      const double angle =
          position * std::pow(10000.0, -static_cast<double>(i) / 8) / divisors[i] / 2.0;
      EXPECT_NEAR(row[i], std::cos(angle), 6.1e-8);
      EXPECT_NEAR(row[8 + i], std::sin(angle), 6.1e-8);
    }
  }
  EXPECT_EQ((*MakeModel(writer, 100))->max_positions(), 100);
  EXPECT_EQ((*MakeModel(writer, 10000))->max_positions(), 512);
}

TEST(ModelTest, AHugeContextIsRejectedBeforeAnAllocation) {
  GgufWriter writer = TinyLlama();
  writer.SetUint32("llama.context_length", 1 << 24);
  TakeLargestAllocation();
  const Status status = MakeModel(writer).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("metadata \"llama.context_length\": 16777216"));
  EXPECT_LT(TakeLargestAllocation(), size_t{1} << 20);
  EXPECT_TRUE(MakeModel(writer, 64).ok());
}

}  // namespace
}  // namespace ropeway::model
