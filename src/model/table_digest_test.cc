#include <gtest/gtest.h>

#include <array>
#include <string>

#include "model/describe.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_hf_writer.h"
#include "model/test_tiny_models.h"

namespace ropeway::model {
namespace {

std::string DigestOf(const GgufWriter& writer) {
  const TempFile file(writer.Bytes());
  const auto opened = OpenModel(file.path());
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  return opened.ok() ? TableDigest(**opened) : std::string();
}

TEST(TableDigestTest, IsThatOfTheTablesWhereverTheModelLies) {
  const std::string digest = DigestOf(TinyModel("llama"));
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(DigestOf(TinyModel("llama")), digest);
  EXPECT_NE(DigestOf(TinyModel("qwen2")), digest);
  EXPECT_NE(DigestOf(TinyModel("llama", kernels::WeightType::kF16)), digest) << "types of tensors";
}

TEST(TableDigestTest, OfAFolderItIsTheSameUnderAnyName) {
  const TempFolder one;
  const TempFolder two;
  TinyLlamaOptions options;
  options.weights = options.embedding = kernels::WeightType::kF32;
  WriteTinyFolder(options, one.path());
  WriteTinyFolder(options, two.path());
  const auto digest = [](const std::string& path) {
    const auto opened = OpenModel(path);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? TableDigest(**opened) : std::string();
  };
  EXPECT_EQ(digest(one.path()), digest(two.path()));
  EXPECT_EQ(digest(one.path()), digest(one.path() + "/"));
}

TEST(TableDigestTest, EveryEntryCounts) {
  const std::string digest = DigestOf(TinyModel("llama"));
  const auto with = [](const auto& change) {
    GgufWriter writer = TinyModel("llama");
    change(&writer);
    return DigestOf(writer);
  };
  EXPECT_NE(with([](GgufWriter* w) { w->SetString("general.author", "another"); }), digest);
  EXPECT_NE(with([](GgufWriter* w) { w->SetFloat32("x", 1.0F); }),
            with([](GgufWriter* w) { w->SetFloat32("x", 1.5F); }));
  EXPECT_NE(with([](GgufWriter* w) { w->SetInt32("x", -1); }),
            with([](GgufWriter* w) { w->SetUint32("x", 1); }));
  EXPECT_NE(with([](GgufWriter* w) {
              w->SetInt32s("x", {1, 2});
            }),
            with([](GgufWriter* w) {
              w->SetInt32s("x", {2, 1});
            }));
  EXPECT_NE(with([](GgufWriter* w) {
              w->SetStrings("x", {"a", "b"});
            }),
            with([](GgufWriter* w) {
              w->SetStrings("x", {"ab", ""});
            }));
  const std::array<float, 4> values{};
  EXPECT_NE(with([&](GgufWriter* w) { w->SetTensor("x", {4}, kernels::WeightType::kF32, values); }),
            with([&](GgufWriter* w) {
              w->SetTensor("x", {2, 2}, kernels::WeightType::kF32, values);
            }));
}

}  // namespace
}  // namespace ropeway::model
