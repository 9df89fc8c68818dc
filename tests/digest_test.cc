// The bits themselves, checked in: a prompt's KV bytes, tokens and log-probabilities have the same
// SHA-256 under every instruction set and on every machine; a short prompt on the default model, a
// long one, beyond one softmax group and one split, on a tiny model with the first five weight
// types, and a short one on a tiny model with the others; of an encoder, the embeddings of
// inputs that are computed together. A change of bits needs a new
// kNumericsVersion (kernels.h) and with it new lines in tests/data/digest.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "determinism_harness.h"
#include "executor/cpu_executor.h"
#include "kernels/test_cpu_info.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_tiny_models.h"

namespace ropeway::test::testing {
namespace {

// The line of tests/data/digest.txt: "VERSION CONTEXT KV-TYPE SHA-256".
std::string CheckedInDigest(const std::string& context, kernels::KvType kv_type) {
  std::ifstream file(ROPEWAY_DIGEST_FILE);
  int version = 0;
  std::string name;
  std::string type;
  for (std::string hex; file >> version >> name >> type >> hex;) {
    if (version == kernels::kNumericsVersion && name == context &&
        type == kernels::KvTypeName(kv_type))
      return hex;
  }
  return "(none for this kNumericsVersion)";
}

std::shared_ptr<const executor::Weights> LoadTinyModel(const model::TinyLlamaOptions& options) {
  const model::TempFile file(model::TinyLlama(options).Bytes());
  auto gguf = model::OpenModel(file.path());
  if (!gguf.ok()) throw std::runtime_error(gguf.status().message());
  auto model = executor::Weights::Load(**gguf, 1);
  if (!model.ok()) throw std::runtime_error(model.status().message());
  return std::move(*model);
}

// Layers of five types of weights. Its heads are no power of two and its groups of three.
std::shared_ptr<const executor::Weights> MixedModel() {
  model::TinyLlamaOptions options;
  options.mixed = true;
  options.tied = false;
  options.hidden = 96;
  options.heads = 6;
  options.head_dim = 48;
  options.layers = 3;
  options.context_length = 2304;
  return LoadTinyModel(options);
}

// Layers of all other types.
std::shared_ptr<const executor::Weights> OtherTypesModel() {
  model::TinyLlamaOptions options;
  options.tied = false;
  options.hidden = 256;
  options.head_dim = 64;
  options.ffn = 512;
  options.embedding = kernels::WeightType::kQ6_K;
  options.types = {
      kernels::WeightType::kQ4_K,  kernels::WeightType::kQ5_K,   kernels::WeightType::kQ6_K,
      kernels::WeightType::kQ2_K,  kernels::WeightType::kQ3_K,   kernels::WeightType::kQ5_0,
      kernels::WeightType::kQ5_1,  kernels::WeightType::kIQ4_NL, kernels::WeightType::kIQ4_XS,
      kernels::WeightType::kMXFP4, kernels::WeightType::kBF16};
  return LoadTinyModel(options);
}

// What is computed. `tokens` are whole blocks: no byte of them is left unwritten.
struct Work {
  std::shared_ptr<const executor::Weights> model;
  int prompt_tokens;
  int chunk;
  int tokens;
};

Work WorkOf(const std::string& context) {
  if (context == "short") return {TestModel(), 33, 33, 48};
  if (context == "types") return {OtherTypesModel(), 33, 20, 48};
  return {MixedModel(), 1100, 150, 1120};
}

// Prefills the prompt in chunks, then decodes greedily up to `tokens` ids.
std::string DigestOf(const Work& work, const kernels::Kernels* kernels, kernels::KvType kv_type) {
  executor::CpuExecutor executor(work.model, kernels, 2, kv_type);
  const int num_blocks = work.tokens / base::kBlockTokens + 1;
  const size_t block_bytes = work.model->config().kv_block_bytes(kv_type);
  auto layout = executor.Init(num_blocks * static_cast<int64_t>(block_bytes), work.chunk, 1);
  if (!layout.ok()) return layout.status().message();

  std::vector<TokenId> ids;
  for (int i = 0; i < work.prompt_tokens; ++i) {
    ids.push_back((1000 + 97 * i) % work.model->config().vocab_size);
  }
  core::Batch batch;
  core::BatchItem& item = batch.items.emplace_back();
  std::vector<core::BlockId> blocks(static_cast<size_t>(num_blocks));
  std::iota(blocks.rbegin(), blocks.rend(), 0);
  item.blocks = blocks;
  core::SampleSpec spec;
  spec.params.temperature = 0;
  spec.prompt_len = work.prompt_tokens;
  spec.num_logprobs = 5;
  item.spec = &spec;

  base::Sha256Stream sha;
  int computed = 0;
  while (computed < work.tokens) {
    const int count = std::min(work.chunk, static_cast<int>(ids.size()) - computed);
    item.start = computed;
    item.tokens = std::span(ids).subspan(static_cast<size_t>(computed), static_cast<size_t>(count));
    computed += count;
    item.sample = computed == static_cast<int>(ids.size());
    executor.Launch(batch);
    const auto result = executor.Wait();
    if (!result.ok()) return result.status().message();
    if (!item.sample) continue;
    const core::Sampled& sampled = result->sampled[0];
    ids.push_back(sampled.token);
    sha.Add(&sampled.token, sizeof sampled.token);
    sha.Add(&sampled.logprob, sizeof sampled.logprob);
    for (const TokenLogprob& top : sampled.top_logprobs) {
      sha.Add(&top.id, sizeof top.id);
      sha.Add(&top.logprob, sizeof top.logprob);
    }
  }
  std::vector<std::byte> bytes(block_bytes);
  for (int i = 0; i < work.tokens / base::kBlockTokens; ++i) {
    executor.ReadBlock(item.blocks[static_cast<size_t>(i)], bytes);
    EXPECT_TRUE(executor.FinishReads().ok());
    sha.Add(bytes.data(), bytes.size());
  }
  return base::HexText(sha.End());
}

// The sums of inputs' hidden states on a tiny encoder, all inputs in one step. That their company
// changes no bit is executor/encoder_test.cc's.
std::string EncoderDigest(kernels::WeightType weights, const kernels::Kernels* kernels,
                          kernels::KvType kv_type) {
  constexpr int kLengths[] = {1,  2,   16, 17,
                              65, 200, 700};  // Of the last, more than one softmax group.
  constexpr Pooling kPoolings[] = {Pooling::kMean, Pooling::kLast, Pooling::kFirst};
  const model::TempFile file(model::TinyModel("bert", weights).Bytes());
  auto gguf = model::OpenModel(file.path());
  if (!gguf.ok()) return gguf.status().message();
  auto loaded = executor::Weights::Load(**gguf, 1);
  if (!loaded.ok()) return loaded.status().message();
  const std::shared_ptr<const executor::Weights> model = std::move(*loaded);
  const int rows = std::accumulate(std::begin(kLengths), std::end(kLengths), 0);
  const int num_blocks = rows / base::kBlockTokens + static_cast<int>(std::size(kLengths));
  const size_t block_bytes = model->config().kv_block_bytes(kv_type);
  executor::CpuExecutor executor(model, kernels, 2, kv_type);
  auto layout = executor.Init(num_blocks * static_cast<int64_t>(block_bytes), rows,
                              static_cast<int>(std::size(kLengths)));
  if (!layout.ok()) return layout.status().message();

  core::Batch batch;
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::vector<core::BlockId>> blocks;
  std::vector<core::SampleSpec> specs(std::size(kLengths));
  ids.reserve(std::size(kLengths));
  blocks.reserve(std::size(kLengths));
  core::BlockId next = 0;
  for (size_t i = 0; i < std::size(kLengths); ++i) {
    std::vector<TokenId>& its = ids.emplace_back();
    for (int k = 0; k < kLengths[i]; ++k) {
      its.push_back(static_cast<TokenId>((11 * i + 97 * static_cast<size_t>(k)) %
                                         static_cast<size_t>(model->config().vocab_size)));
    }
    blocks.emplace_back(static_cast<size_t>((kLengths[i] - 1) / base::kBlockTokens + 1));
    std::iota(blocks.back().begin(), blocks.back().end(), next);
    next += static_cast<core::BlockId>(blocks.back().size());
    specs[i].prompt_len = kLengths[i];
    specs[i].pooling = kPoolings[i % std::size(kPoolings)];
    core::BatchItem& item = batch.items.emplace_back();
    item.sequence = i;
    item.tokens = item.ids = its;
    item.blocks = blocks.back();
    item.pool_begin = *specs[i].pooling == Pooling::kLast ? kLengths[i] - 1 : 0;
    item.pool_end = *specs[i].pooling == Pooling::kFirst ? 1 : kLengths[i];
    item.spec = &specs[i];
  }
  executor.Launch(batch);
  const auto result = executor.Wait();
  if (!result.ok()) return result.status().message();
  if (result->pooled.size() != std::size(kLengths)) return "not all were pooled";
  base::Sha256Stream sha;
  for (const core::Pooled& pooled : result->pooled) {
    sha.Add(pooled.sum.data(), pooled.sum.size() * sizeof(float));
  }
  return base::HexText(sha.End());
}

class Digest
    : public ::testing::TestWithParam<std::tuple<const char*, const char*, kernels::KvType>> {};

TEST_P(Digest, EqualsTheCheckedInOne) {
  const auto [context, name, kv_type] = GetParam();
  const kernels::Kernels* kernels = kernels::KernelsByName(name);
  if (kernels == nullptr) {
    ASSERT_FALSE(kernels::testing::CpuHas(name))
        << "the CPU has it, and dispatch.cc does not find it";
    GTEST_SKIP() << "needs hardware: a CPU that runs " << name;
  }
  EXPECT_STREQ(kernels->name, name);
  const std::string_view what = context;
  const std::string digest =
      what == "encoder"        ? EncoderDigest(kernels::WeightType::kF32, kernels, kv_type)
      : what == "encoder_q8_0" ? EncoderDigest(kernels::WeightType::kQ8_0, kernels, kv_type)
                               : DigestOf(WorkOf(context), kernels, kv_type);
  EXPECT_EQ(digest, CheckedInDigest(context, kv_type));
}

INSTANTIATE_TEST_SUITE_P(
    InstructionSets, Digest,
    ::testing::Combine(::testing::Values("short", "long", "types", "encoder", "encoder_q8_0"),
                       ::testing::Values("reference", "avx2", "avx512vnni"),
                       ::testing::Values(kernels::KvType::kF16, kernels::KvType::kQ8_0)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param) + "_" +
             kernels::KvTypeName(std::get<2>(info.param));
    });

}  // namespace
}  // namespace ropeway::test::testing
