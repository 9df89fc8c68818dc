// The bits themselves, checked in: one prompt's KV bytes and log-probabilities on the default model
// have the same SHA-256 under every instruction set and on every machine. A change of bits needs a
// new kNumericsVersion (kernels.h) and with it a new line in tests/data/digest.txt.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <tuple>

#include "executor/cpu_executor.h"
#include "kernels/test_cpu_info.h"
#include "sameness_harness.h"

namespace ropeway::testing {
namespace {

class Sha256 {
 public:
  Sha256() { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(const void* data, size_t size) { EVP_DigestUpdate(context_, data, size); }

  std::string Hex() {
    unsigned char bytes[32];
    EVP_DigestFinal_ex(context_, bytes, nullptr);
    std::string hex;
    for (unsigned char byte : bytes) {
      hex += "0123456789abcdef"[byte >> 4];
      hex += "0123456789abcdef"[byte & 15];
    }
    return hex;
  }

 private:
  EVP_MD_CTX* context_ = EVP_MD_CTX_new();
};

// The line of tests/data/digest.txt: "VERSION KV-TYPE SHA-256".
std::string CheckedInDigest(KvType kv_type) {
  std::ifstream file(ROPEWAY_DIGEST_FILE);
  int version = 0;
  std::string type;
  for (std::string hex; file >> version >> type >> hex;) {
    if (version == kNumericsVersion && type == KvTypeName(kv_type)) return hex;
  }
  return "(none for this kNumericsVersion)";
}

constexpr int kPromptTokens = 33;
constexpr int kTokens = 48;  // Three whole blocks: no byte of them is left unwritten.

// Prefills the prompt as one chunk, then decodes greedily up to kTokens ids.
std::string DigestOf(const Kernels* kernels, KvType kv_type) {
  const std::shared_ptr<const Model> model = TestModel();
  CpuExecutor executor(model, kernels, 2, kv_type);
  const size_t block_bytes = model->config().kv_block_bytes(kv_type);
  auto layout = executor.Init(static_cast<int64_t>(4 * block_bytes), kPromptTokens, 1);
  if (!layout.ok()) return layout.status().message();

  Batch batch;
  BatchItem& item = batch.items.emplace_back();
  for (int i = 0; i < kPromptTokens; ++i) item.tokens.push_back(1000 + 97 * i);
  item.blocks = {2, 0, 3, 1};
  item.sample = true;
  item.spec.params.temperature = 0;
  item.spec.prompt_len = kPromptTokens;
  item.spec.num_logprobs = 5;

  Sha256 sha;
  for (int known = kPromptTokens; known <= kTokens; ++known) {
    executor.Launch(batch);
    const auto result = executor.Wait();
    if (!result.ok()) return result.status().message();
    const Sampled& sampled = result->sampled[0];
    sha.Add(&sampled.token, sizeof sampled.token);
    sha.Add(&sampled.logprob, sizeof sampled.logprob);
    for (const TokenLogprob& top : sampled.top_logprobs) {
      sha.Add(&top.id, sizeof top.id);
      sha.Add(&top.logprob, sizeof top.logprob);
    }
    item.start = known;
    item.tokens = {sampled.token};
  }
  std::vector<std::byte> bytes(block_bytes);
  for (BlockId block : {2, 0, 3}) {
    executor.ReadBlock(block, bytes);
    sha.Add(bytes.data(), bytes.size());
  }
  return sha.Hex();
}

class Digest : public ::testing::TestWithParam<std::tuple<const char*, KvType>> {};

TEST_P(Digest, EqualsTheCheckedInOne) {
  const auto [name, kv_type] = GetParam();
  const Kernels* kernels = KernelsByName(name);
  if (kernels == nullptr) {
    ASSERT_FALSE(CpuHas(name)) << "the CPU has it, and dispatch.cc does not find it";
    GTEST_SKIP() << "needs hardware: a CPU that runs " << name;
  }
  EXPECT_STREQ(kernels->name, name);
  EXPECT_EQ(DigestOf(kernels, kv_type), CheckedInDigest(kv_type));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Digest,
                         ::testing::Combine(::testing::Values("reference", "avx2", "avx512vnni"),
                                            ::testing::Values(KvType::kF16, KvType::kQ8_0)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  KvTypeName(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace ropeway::testing
