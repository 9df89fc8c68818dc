#include "executor/weights.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "model/file_digest.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_largest_allocation.h"

namespace ropeway::executor {
namespace {

using model::GgufFile;
using model::GgufTensor;
using model::GgufWriter;
using model::OpenModel;
using model::TempFile;
using model::TinyLlama;
using model::TinyLlamaOptions;
using ::testing::HasSubstr;

uint16_t HalfAt(const std::byte* at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

// The tensor's bytes in the file.
std::vector<std::byte> DataOf(const GgufFile& file, const GgufTensor& tensor) {
  std::vector<std::byte> data(tensor.bytes);
  EXPECT_TRUE(file.Read(tensor.begin, data).ok());
  return data;
}

// Element i of row `row`, straight from the file's bytes: an own reading of five formats, so that
// the panels are held against something else than their own inverse.
float FileElement(const GgufTensor& tensor, const std::vector<std::byte>& data, int row, int i) {
  const kernels::WeightType type = *model::WeightTypeOf(tensor.type);
  const size_t row_bytes = kernels::WeightRowBytes(type, static_cast<int>(tensor.shape[0]));
  const std::byte* at = data.data() + static_cast<size_t>(row) * row_bytes;
  const auto block = static_cast<size_t>(i / 32);
  const auto in = static_cast<size_t>(i % 32);
  const auto nibble = [&](const std::byte* bytes) {
    const int byte = static_cast<int>(bytes[in % 16]);
    return in < 16 ? byte & 15 : byte >> 4;
  };
  switch (type) {
    case kernels::WeightType::kF32: {
      float value = 0.0F;
      std::memcpy(&value, at + static_cast<size_t>(i) * 4, 4);
      return value;
    }
    case kernels::WeightType::kF16:
      return kernels::HalfToFloat(HalfAt(at + static_cast<size_t>(i) * 2));
    case kernels::WeightType::kQ8_0:
      at += block * 34;
      return kernels::HalfToFloat(HalfAt(at)) * static_cast<float>(static_cast<int8_t>(at[2 + in]));
    case kernels::WeightType::kQ4_0:
      at += block * 18;
      return kernels::HalfToFloat(HalfAt(at)) * static_cast<float>(nibble(at + 2) - 8);
    case kernels::WeightType::kQ4_1:
      at += block * 20;
      return std::fma(kernels::HalfToFloat(HalfAt(at)), static_cast<float>(nibble(at + 4)),
                      kernels::HalfToFloat(HalfAt(at + 2)));
    default:
      return NAN;
  }
}

// Row `row` of the file; of types that FileElement does not read, packed alone and unpacked again.
// (That these two are right is a matter of the kernels' tests.)
std::vector<float> FileRow(const GgufTensor& tensor, const std::vector<std::byte>& data, int row) {
  const kernels::WeightType type = *model::WeightTypeOf(tensor.type);
  const auto k = static_cast<int>(tensor.shape[0]);
  std::vector<float> values(static_cast<size_t>(k));
  for (int i = 0; i < k; ++i) values[static_cast<size_t>(i)] = FileElement(tensor, data, row, i);
  if (!std::isnan(values[0])) return values;
  std::vector<std::byte> panel(kernels::PanelBytes(type, k));
  const std::byte* stored =
      data.data() + static_cast<size_t>(row) * kernels::WeightRowBytes(type, k);
  kernels::PackPanels(type, 1, k, stored, 0, 1, panel.data());
  kernels::UnpackRow({.type = type, .n = 1, .k = k, .panels = panel.data()}, 0, values.data());
  return values;
}

void ExpectSameRows(const kernels::Matrix& matrix, const GgufFile& file, const std::string& name) {
  SCOPED_TRACE(name);
  const GgufTensor* tensor = file.FindTensor(name);
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(matrix.type, *model::WeightTypeOf(tensor->type));
  ASSERT_EQ(static_cast<uint64_t>(matrix.k), tensor->shape[0]);
  ASSERT_EQ(static_cast<uint64_t>(matrix.n), tensor->shape[1]);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(matrix.panels) % 64, 0U);
  const std::vector<std::byte> data = DataOf(file, *tensor);
  std::vector<float> row(static_cast<size_t>(matrix.k));
  for (int r = 0; r < matrix.n; ++r) {
    kernels::UnpackRow(matrix, r, row.data());
    ASSERT_EQ(row, FileRow(*tensor, data, r)) << r;
  }
}

void ExpectSameNorm(const float* norm, const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.FindTensor(name);
  ASSERT_NE(tensor, nullptr) << name;
  const std::vector<std::byte> data = DataOf(file, *tensor);
  for (int i = 0; i < static_cast<int>(tensor->shape[0]); ++i) {
    EXPECT_EQ(norm[i], FileElement(*tensor, data, 0, i)) << name;
  }
}

void ExpectWeightsAreTheFile(const Weights& weights, const GgufFile& file) {
  ExpectSameRows(weights.token_embedding(), file, "token_embd.weight");
  const bool tied = weights.config().tied_output;
  ExpectSameRows(weights.output(), file, tied ? "token_embd.weight" : "output.weight");
  EXPECT_EQ(weights.output().panels == weights.token_embedding().panels, tied);
  ExpectSameNorm(weights.output_norm(), file, "output_norm.weight");
  for (size_t i = 0; i < weights.layers().size(); ++i) {
    const LayerWeights& layer = weights.layers()[i];
    const std::string prefix = "blk." + std::to_string(i) + ".";
    ExpectSameNorm(layer.attention_norm, file, prefix + "attn_norm.weight");
    ExpectSameNorm(layer.ffn_norm, file, prefix + "ffn_norm.weight");
    ExpectSameRows(layer.q, file, prefix + "attn_q.weight");
    ExpectSameRows(layer.k, file, prefix + "attn_k.weight");
    ExpectSameRows(layer.v, file, prefix + "attn_v.weight");
    ExpectSameRows(layer.o, file, prefix + "attn_output.weight");
    ExpectSameRows(layer.gate, file, prefix + "ffn_gate.weight");
    ExpectSameRows(layer.up, file, prefix + "ffn_up.weight");
    ExpectSameRows(layer.down, file, prefix + "ffn_down.weight");
  }
}

// A model loaded from what `writer` writes, with the file beside it for comparison.
struct Loaded {
  explicit Loaded(const GgufWriter& writer, int threads = 1, int32_t max_positions = 0)
      : temp(writer.Bytes()), file(OpenModel(temp.path()).value()) {
    auto result = Weights::Load(*file, threads, max_positions);
    if (result.ok()) {
      weights = *std::move(result);
    } else {
      status = result.status();
    }
  }
  TempFile temp;
  std::unique_ptr<GgufFile> file;
  std::unique_ptr<Weights> weights;
  Status status;
};

class WeightTypesTest : public ::testing::TestWithParam<kernels::WeightType> {};

TEST_P(WeightTypesTest, PanelsHoldWhatTheFileHolds) {
  TinyLlamaOptions options;
  options.weights = GetParam();
  options.embedding = GetParam();
  options.tied = false;
  if (kernels::WeightBlockElements(GetParam()) == 256) {
    options.hidden = 256;
    options.head_dim = 64;
    options.ffn = 512;
  }
  const Loaded loaded(TinyLlama(options));
  ASSERT_NE(loaded.weights, nullptr) << loaded.status.message();
  EXPECT_FALSE(loaded.weights->config().tied_output);
  ExpectWeightsAreTheFile(*loaded.weights, *loaded.file);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, WeightTypesTest, ::testing::ValuesIn(kernels::kWeightTypes),
                         [](const auto& info) {
                           return std::string(kernels::WeightTypeName(info.param));
                         });

TEST(WeightsTest, TiedOutputIsTheEmbedding) {
  TinyLlamaOptions options;
  options.mixed = true;
  const Loaded loaded(TinyLlama(options));
  ASSERT_NE(loaded.weights, nullptr) << loaded.status.message();
  EXPECT_TRUE(loaded.weights->config().tied_output);
  ExpectWeightsAreTheFile(*loaded.weights, *loaded.file);
}

TEST(WeightsTest, HalfPrecisionNormsAreConverted) {
  GgufWriter writer = TinyLlama();
  std::vector<float> norm(64);
  for (size_t i = 0; i < norm.size(); ++i) norm[i] = 0.5F + static_cast<float>(i) / 64.0F;
  writer.SetTensor("blk.0.ffn_norm.weight", {64}, kernels::WeightType::kF16, norm);
  const Loaded loaded(writer);
  ASSERT_NE(loaded.weights, nullptr) << loaded.status.message();
  for (size_t i = 0; i < norm.size(); ++i)
    EXPECT_EQ(loaded.weights->layers()[0].ffn_norm[i], norm[i]);
}

TEST(WeightsTest, BrainFloatNormsAreConverted) {
  GgufWriter writer = TinyLlama();
  std::vector<float> norm(64);
  for (size_t i = 0; i < norm.size(); ++i) norm[i] = 0.5F + static_cast<float>(i) / 64.0F;
  writer.SetTensor("output_norm.weight", {64}, kernels::WeightType::kBF16, norm);
  const Loaded loaded(writer);
  ASSERT_NE(loaded.weights, nullptr) << loaded.status.message();
  for (size_t i = 0; i < norm.size(); ++i) EXPECT_EQ(loaded.weights->output_norm()[i], norm[i]);
}

// What a file in Q4_K_M is like: types by layer and by matrix, and an embedding of another one.
TEST(WeightsTest, AnyMixtureOfTypesLoads) {
  TinyLlamaOptions options;
  options.hidden = 256;
  options.head_dim = 64;
  options.ffn = 512;
  options.layers = 3;
  options.embedding = kernels::WeightType::kQ6_K;
  options.types.assign(std::begin(kernels::kWeightTypes), std::end(kernels::kWeightTypes));
  const Loaded loaded(TinyLlama(options), 2);
  ASSERT_NE(loaded.weights, nullptr) << loaded.status.message();
  ExpectWeightsAreTheFile(*loaded.weights, *loaded.file);
}

TEST(WeightsTest, ScalesThatAreNoNumbersAreNamed) {
  TinyLlamaOptions options;
  options.hidden = 256;
  options.head_dim = 64;
  options.ffn = 256;
  for (const kernels::WeightType type : {kernels::WeightType::kQ4_1, kernels::WeightType::kQ4_K}) {
    options.weights = type;
    std::string bytes = TinyLlama(options).Bytes();
    const TempFile good(bytes);
    const auto file = OpenModel(good.path());
    ASSERT_TRUE(file.ok());
    const GgufTensor* tensor = (*file)->FindTensor("blk.1.ffn_up.weight");
    const size_t at = tensor->begin + kernels::WeightRowBytes(type, 256) * 255;
    const uint16_t infinity = 0x7C00;
    std::memcpy(&bytes[at + 2], &infinity, 2);  // The minimum of row 255's first block.
    const TempFile bad(bytes);
    const auto bad_file = OpenModel(bad.path());
    ASSERT_TRUE(bad_file.ok());
    for (const int threads : {1, 3}) {
      const auto model = Weights::Load(**bad_file, threads);
      ASSERT_FALSE(model.ok());
      EXPECT_EQ(model.status().code(), StatusCode::kDataLoss);
      EXPECT_EQ(model.status().field(), "tensor \"blk.1.ffn_up.weight\"");
      EXPECT_THAT(model.status().message(),
                  HasSubstr("\": the scale of block 0 of row 255 is not a finite number"));
    }
  }
}

TEST(WeightsTest, WeightsThatCannotBeQuantisedAreNamed) {
  TinyLlamaOptions options;
  options.weights = kernels::WeightType::kF16;
  std::string bytes = TinyLlama(options).Bytes();
  const TempFile good(bytes);
  const auto file = OpenModel(good.path());
  ASSERT_TRUE(file.ok());
  const GgufTensor* tensor = (*file)->FindTensor("blk.1.ffn_up.weight");
  const uint16_t nan = 0x7E00;
  std::memcpy(&bytes[tensor->begin + 2 * 64 * 95], &nan, 2);  // The first of the last row.
  const TempFile bad(bytes);
  const auto bad_file = OpenModel(bad.path(), "q8_0");
  ASSERT_TRUE(bad_file.ok()) << bad_file.status().message();
  const Status status = Weights::Load(**bad_file, 2).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.field(), "tensor \"blk.1.ffn_up.weight\"");
  EXPECT_THAT(
      status.message(),
      HasSubstr(bad.path() + ": tensor \"blk.1.ffn_up.weight\": a weight in row 95 of "
                             "a matrix of 96 times 64 cannot be quantised: it is not finite"));
}

// Bytes of every matrix of the model, padding included.
std::string AllPanels(const Weights& weights) {
  std::string bytes;
  const auto add = [&](const kernels::Matrix& m) {
    bytes.append(reinterpret_cast<const char*>(m.panels), kernels::MatrixBytes(m.type, m.n, m.k));
  };
  add(weights.token_embedding());
  add(weights.output());
  for (const LayerWeights& l : weights.layers()) {
    for (const kernels::Matrix* m : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) add(*m);
  }
  return bytes;
}

TEST(WeightsTest, ThreadsDoNotChangeAByte) {
  TinyLlamaOptions options;
  options.mixed = true;
  options.hidden = 256;  // Several jobs a matrix.
  options.ffn = 1024;
  options.tied = false;
  const GgufWriter writer = TinyLlama(options);
  const Loaded one(writer, 1);
  const Loaded two(writer, 2);
  const Loaded seven(writer, 7);
  ASSERT_NE(one.weights, nullptr) << one.status.message();
  ASSERT_NE(two.weights, nullptr) << two.status.message();
  ASSERT_NE(seven.weights, nullptr) << seven.status.message();
  EXPECT_EQ(AllPanels(*one.weights), AllPanels(*two.weights));
  EXPECT_EQ(AllPanels(*one.weights), AllPanels(*seven.weights));
}

// Writes eight random bytes, or a small number, anywhere before the tensors' data: the file is
// rejected or the model loads.
TEST(WeightsTest, NoCorruptHeaderCrashesTheLoader) {
  const std::string whole = TinyLlama().Bytes();
  const TempFile temp(whole);
  const uint64_t header = OpenModel(temp.path()).value()->data_offset();
  const int fd = open(temp.path().c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  std::mt19937_64 random(7);
  int rejected = 0;
  int loaded = 0;
  for (int i = 0; i < 1500; ++i) {
    const auto at = static_cast<size_t>(random() % (header - 8));
    // Halves of the attempts aim at the configuration, which is a small part of the header.
    const size_t target = i % 2 == 0 ? at : at % 900;
    const uint64_t value = i % 3 == 0 ? random() : random() % 300;
    const size_t width = i % 5 == 0 ? 1 : i % 5 == 1 ? 8 : 4;
    ASSERT_EQ(pwrite(fd, &value, width, static_cast<off_t>(target)), static_cast<ssize_t>(width));
    const auto file = OpenModel(temp.path());
    if (file.ok()) {
      const auto model = Weights::Load(**file, 1);
      ++(model.ok() ? loaded : rejected);
    } else {
      ++rejected;
    }
    const auto original = static_cast<ssize_t>(width);
    ASSERT_EQ(pwrite(fd, whole.data() + target, width, static_cast<off_t>(target)), original);
  }
  close(fd);
  EXPECT_GT(rejected, 300);
  EXPECT_GT(loaded, 100);  // Else the test no longer reaches the loader.
}

TEST(WeightsTest, TheTinyModelIsTheSameEveryTime) {
  EXPECT_EQ(TinyLlama().Bytes(), TinyLlama().Bytes());
  TinyLlamaOptions other;
  other.seed = 2;
  EXPECT_NE(TinyLlama().Bytes(), TinyLlama(other).Bytes());
}

// A mapped file would end the process here, by SIGBUS.
TEST(WeightsTest, AFileThatIsCutOffWhileItIsReadIsAnError) {
  const std::string whole = TinyLlama().Bytes();
  for (size_t i = 0; i < 40; ++i) {
    const TempFile temp(whole);
    const auto file = OpenModel(temp.path());
    ASSERT_TRUE(file.ok());
    ASSERT_EQ(truncate(temp.path().c_str(), static_cast<off_t>(whole.size() * i / 40)), 0);
    const auto model = Weights::Load(**file, 2);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(model.status().message(), HasSubstr(temp.path() + ": the file was changed"));
    EXPECT_EQ(model::FileDigest(**file, 2).status().code(), StatusCode::kDataLoss);
    EXPECT_FALSE((*file)->metadata().empty());  // They are our own.
  }
}

TEST(WeightsTest, AFileThatIsCutOffAtAnyMomentIsAnErrorOrAModel) {
  TinyLlamaOptions options;
  options.hidden = 256;
  options.ffn = 1024;
  const std::string whole = TinyLlama(options).Bytes();
  std::mt19937_64 random(3);
  for (int i = 0; i < 40; ++i) {
    const TempFile temp(whole);
    const auto size = static_cast<off_t>(random() % whole.size());
    const std::chrono::microseconds wait(random() % 3000);
    std::thread cutter([&] {
      std::this_thread::sleep_for(wait);
      EXPECT_EQ(truncate(temp.path().c_str(), size), 0);
    });
    const auto file = OpenModel(temp.path());
    if (file.ok()) {
      const auto model = Weights::Load(**file, 2);
      if (!model.ok()) {
        EXPECT_THAT(model.status().message(), HasSubstr(temp.path()));
      }
    }
    cutter.join();
  }
}

TEST(WeightsTest, AFileThatIsRewrittenWhileItLoadsIsNotAModel) {
  const std::string whole = TinyLlama().Bytes();
  const TempFile temp(whole);
  const auto file = OpenModel(temp.path());
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
  const timespec times[2] = {{1, 0}, {1, 500}};  // As a write of the same length leaves it.
  ASSERT_EQ(utimensat(AT_FDCWD, temp.path().c_str(), times, 0), 0);
  const auto model = Weights::Load(**file, 1);
  EXPECT_EQ(model.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(model.status().message(), HasSubstr("was changed while it was read"));
  EXPECT_FALSE(model::FileDigest(**file, 1).ok());
}

TEST(WeightsTest, LoadsTheDefaultModel) {
  const char* path = std::getenv("ROPEWAY_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "ROPEWAY_TEST_MODEL is not set";
  const auto file = OpenModel(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto model = Weights::Load(**file, 2);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const model::ModelConfig& config = (*model)->config();
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.rope.freq_base, 100000.0);
  EXPECT_TRUE(config.tied_output);
  ExpectSameRows((*model)->layers()[29].down, **file, "blk.29.ffn_down.weight");
  ExpectSameRows((*model)->layers()[7].k, **file, "blk.7.attn_k.weight");
  ExpectSameNorm((*model)->output_norm(), **file, "output_norm.weight");
}

}  // namespace
}  // namespace ropeway::executor
