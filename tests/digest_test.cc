// The bits themselves, checked in: a prompt's KV bytes, tokens and log-probabilities have the same
// SHA-256 under every instruction set and on every machine; a short prompt on the default model, a
// long one, beyond one softmax group and one split, on a tiny model with the first five weight
// types, and a short one on a tiny model with the others. A change of bits needs a new
// kNumericsVersion (kernels.h) and with it new lines in tests/data/digest.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/sha256.h"
#include "determinism_harness.h"
#include "executor/cpu_executor.h"
#include "kernels/test_cpu_info.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"

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

std::shared_ptr<const model::Model> LoadTinyModel(const model::TinyLlamaOptions& options) {
  const model::TempFile file(model::TinyLlama(options).Bytes());
  auto gguf = model::OpenModel(file.path());
  if (!gguf.ok()) throw std::runtime_error(gguf.status().message());
  auto model = model::Model::Load(**gguf, 1);
  if (!model.ok()) throw std::runtime_error(model.status().message());
  return std::move(*model);
}

// Layers of five types of weights. Its heads are no power of two and its groups of three.
std::shared_ptr<const model::Model> MixedModel() {
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
std::shared_ptr<const model::Model> OtherTypesModel() {
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
  std::shared_ptr<const model::Model> model;
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
    sha.Add(bytes.data(), bytes.size());
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
  EXPECT_EQ(DigestOf(WorkOf(context), kernels, kv_type), CheckedInDigest(context, kv_type));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Digest,
                         ::testing::Combine(::testing::Values("short", "long", "types"),
                                            ::testing::Values("reference", "avx2", "avx512vnni"),
                                            ::testing::Values(kernels::KvType::kF16,
                                                              kernels::KvType::kQ8_0)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param) + "_" +
                                  kernels::KvTypeName(std::get<2>(info.param));
                         });

}  // namespace
}  // namespace ropeway::test::testing
