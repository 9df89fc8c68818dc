#include "bench/kernels/shapes.h"

#include <gtest/gtest.h>

#include "model/gguf.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"

namespace ropeway::bench {
namespace {

ModelShapes ShapesOfTinyModel(const model::TinyLlamaOptions& options) {
  const model::TempFile file(model::TinyLlama(options).Bytes());
  auto gguf = model::OpenModel(file.path());
  EXPECT_TRUE(gguf.ok());
  auto tensors = model::BindTensors(**gguf);
  EXPECT_TRUE(tensors.ok());
  return ShapesOf(*tensors, "tiny");
}

TEST(ShapesTest, ProductsThatShareTheirInputAreOneShapeThatCountsItsLayers) {
  const ModelShapes shapes = ShapesOfTinyModel({.layers = 3});
  ASSERT_EQ(shapes.layers.size(), 4U);
  EXPECT_EQ(shapes.layers[0].label, "q/k/v");
  EXPECT_EQ(shapes.layers[0].Size(), "64 x 64+32+32");
  EXPECT_EQ(shapes.layers[1].Size(), "64 x 64");
  EXPECT_EQ(shapes.layers[2].label, "gate/up");
  EXPECT_EQ(shapes.layers[2].Size(), "64 x 96+96");
  EXPECT_EQ(shapes.layers[3].Size(), "96 x 64");
  for (const MatMulShape& shape : shapes.layers) {
    EXPECT_EQ(shape.count, 3);
    EXPECT_EQ(shape.type, kernels::WeightType::kQ4_1);
    EXPECT_FALSE(shape.logits);
  }
  EXPECT_EQ(shapes.output.type, kernels::WeightType::kQ8_0);  // Tied: the embedding's.
  EXPECT_EQ(shapes.output.n, std::vector<int>{model::kTinyVocab});
  EXPECT_TRUE(shapes.output.logits);
  EXPECT_EQ(shapes.attention.num_kv_heads, 2);
  EXPECT_EQ(shapes.attention.group, 2);
  EXPECT_EQ(shapes.attention.head_dim, 16);
  EXPECT_EQ(shapes.attention.num_layers, 3);
}

TEST(ShapesTest, MatricesOfDifferentTypesArePackedApart) {
  const ModelShapes shapes = ShapesOfTinyModel({.layers = 1, .mixed = true});
  size_t matrices = 0;
  for (const MatMulShape& shape : shapes.layers) {
    EXPECT_EQ(shape.n.size(), 1U) << shape.label;
    matrices += shape.n.size();
  }
  EXPECT_EQ(matrices, 7U);
}

TEST(ShapesTest, OneBillionHasTheWeightsOfItsName) {
  const ModelShapes shapes =
      OneBillionShapes(kernels::WeightType::kQ4_1, kernels::WeightType::kQ8_0);
  double weights = shapes.output.ops_per_row() / 2;
  for (const MatMulShape& shape : shapes.layers) weights += shape.ops_per_row() / 2 * shape.count;
  EXPECT_NEAR(weights, 1.236e9, 1e6);  // The output is the embedding.
  EXPECT_EQ(shapes.main_type(), kernels::WeightType::kQ4_1);
  // 20 bytes for 32 weights of Q4_1, 34 for 32 of Q8_0.
  EXPECT_NEAR(static_cast<double>(shapes.weight_bytes()), 973.1e6 * 20 / 32 + 262.7e6 * 34 / 32,
              1e6);
}

TEST(ShapesTest, AProductSaysItsSizeAndWork) {
  const MatMulShape shape = {"q/k/v", kernels::WeightType::kQ4_1, 576, {576, 192, 192}, 30, false};
  EXPECT_EQ(shape.Size(), "576 x 576+192+192");
  EXPECT_EQ(shape.total_n(), 960);
  EXPECT_EQ(shape.ops_per_row(), 2.0 * 576 * 960);
  EXPECT_EQ(shape.weight_bytes(), size_t{576} * 960 * 20 / 32);
}

TEST(ShapesTest, VocabulariesRiseFrom49kTo256k) {
  const std::vector<MatMulShape> shapes = VocabularyShapes(kernels::WeightType::kQ8_0, 576);
  ASSERT_EQ(shapes.size(), 2U * 4);
  EXPECT_EQ(shapes.front().total_n(), 49152);
  EXPECT_EQ(shapes.back().total_n(), 256000);
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_TRUE(shapes[i].logits);
    EXPECT_EQ(shapes[i].greedy, i % 2 == 1);
  }
}

}  // namespace
}  // namespace ropeway::bench
