// What Ropeway promises holds for each architecture, here with tiny random models: what a request
// gets is what it gets alone, to the bit, in company, after preemptions, from a tier, from the disk
// and in sessions; and the bits are the same under every instruction set. Against transformers:
// architectures_golden_test.cc.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/sha256.h"
#include "determinism_harness.h"
#include "kernels/test_cpu_info.h"
#include "kvcache/disk_tier.h"
#include "kvcache/kv_windows.h"
#include "kvcache/test_tier.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "model/test_tiny_models.h"
#include "ropeway/engine.h"

namespace ropeway::test::testing {
namespace {

constexpr int kLongestTiny = 320;

// Byte ids of the tiny vocabulary.
std::vector<TokenId> TinyIds(size_t count, std::mt19937_64* random) {
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = static_cast<TokenId>(3 + (*random)() % 256);
  return ids;
}

void AddTinyParameters(int i, core::CoreRequest* request) {
  core::SampleSpec& spec = request->spec;
  spec.seed = 900 + static_cast<uint64_t>(i);
  spec.num_logprobs = i % 3;
  spec.params.temperature = i % 3 == 0 ? 0.0F : 1.0F;
  if (i % 4 == 1) spec.params.top_p = 0.9F;
  if (i % 5 == 2) spec.params.repetition_penalty = 1.3F;
  if (i % 5 == 3) spec.num_prompt_logprobs = 2;
  request->ignore_eos = i % 2 == 0;
}

// Prompts that begin alike for 15, 16, 17, 33, 96 and 150 tokens, shorter and longer than the
// models' windows.
std::vector<core::CoreRequest> TinyRequests() {
  std::mt19937_64 random(20261215);
  const std::vector<TokenId> shared = TinyIds(150, &random);
  const auto prompt = [&](size_t common, size_t own) {
    std::vector<TokenId> ids(shared.begin(), shared.begin() + static_cast<int64_t>(common));
    const std::vector<TokenId> rest = TinyIds(own, &random);
    ids.insert(ids.end(), rest.begin(), rest.end());
    return ids;
  };
  const std::vector<std::vector<TokenId>> prompts = {
      prompt(150, 5),   prompt(150, 0), prompt(96, 40), prompt(33, 30),
      prompt(150, 120), prompt(0, 170), prompt(16, 1),  prompt(15, 0),
      prompt(150, 0),   prompt(17, 64), prompt(0, 1),   prompt(0, 24)};
  std::vector<core::CoreRequest> requests;
  for (const std::vector<TokenId>& ids : prompts) {
    core::CoreRequest request;
    request.id = requests.size() + 1;
    request.prompt = ids;
    request.max_tokens = 12 + static_cast<int32_t>(random() % 20);
    AddTinyParameters(static_cast<int>(requests.size()), &request);
    requests.push_back(std::move(request));
  }
  return requests;
}

class Architectures : public ::testing::TestWithParam<std::string> {
 protected:
  Architectures() : file_(model::TinyModel(GetParam()).Bytes()) {
    auto file = model::OpenModel(file_.path());
    if (!file.ok()) throw std::runtime_error(file.status().message());
    auto model = executor::Weights::Load(**file, 1);
    if (!model.ok()) throw std::runtime_error(model.status().message());
    model_ = *std::move(model);
  }
  ~Architectures() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Few more blocks than one request of the longest kind needs.
  int TightPool() const {
    const kvcache::KvWindows windows(model_->config().kv_groups().windows);
    return static_cast<int>(windows.BlocksForAlone(kLongestTiny)) + 3;
  }

  // Runs all requests together, and compares.
  RunResult RunAndCompare(CrowdOptions options) {
    const auto& alone = Alone();
    options.model = model_;
    options.max_model_len = kLongestTiny;
    RunResult run = RunCrowd(requests_, options, kernels::ChooseKernels(nullptr));
    for (const auto& [id, output] : alone) {
      EXPECT_EQ(run.outputs[id].tokens, output.tokens) << "request " << id;
      EXPECT_EQ(run.outputs[id].logprob_bits, output.logprob_bits) << "request " << id;
      EXPECT_EQ(run.outputs[id].scored_bits, output.scored_bits) << "request " << id;
    }
    return run;
  }

  const std::map<RequestId, Output>& Alone() {
    if (alone_.empty()) {
      alone_ = RunAlone(requests_, kernels::ChooseKernels(nullptr), kernels::KvType::kF16, model_);
    }
    return alone_;
  }

  std::unique_ptr<kvcache::DiskTier> OpenDisk() {
    kvcache::DiskTierOptions options;
    options.cache.disk_path = folder_;
    options.cache.disk_bytes = int64_t{256} << 20;
    options.block_bytes = model_->config().kv_block_bytes(kernels::KvType::kF16);
    options.cache.disk_write_rate = int64_t{1} << 40;
    options.clock = &clock_;
    StatusOr<std::unique_ptr<kvcache::DiskTier>> tier = kvcache::DiskTier::Open(options);
    if (tier.ok()) return *std::move(tier);
    ADD_FAILURE() << tier.status().message();
    return nullptr;
  }

  const model::TempFile file_;
  std::shared_ptr<const executor::Weights> model_;
  const std::vector<core::CoreRequest> requests_ = TinyRequests();
  const base::RealClock clock_;
  const std::string folder_ =
      ::testing::TempDir() + "architectures_" + GetParam() + "_" + std::to_string(getpid());

 private:
  std::map<RequestId, Output> alone_;
};

INSTANTIATE_TEST_SUITE_P(Models, Architectures, ::testing::ValuesIn(model::TinyModelNames()),
                         [](const auto& info) { return info.param; });

TEST_P(Architectures, CompanyAndPreemptionsChangeNoBit) {
  const RunResult run = RunAndCompare({.chunk = 100, .threads = 2});
  EXPECT_EQ(run.stats.experts_read > 0, model_->config().experts.count > 0);
  // Which order of arrivals ends in preemptions depends on the model's windows: several are tried.
  for (const bool caching : {true, false}) {
    uint64_t preemptions = 0;
    int64_t mixed_steps = 0;
    for (const int seed : {3, 4, 5, 6, 7, 8}) {
      const int pool = TightPool() + 2 * (seed - 3);
      const RunResult tight = RunAndCompare({.chunk = caching ? 7 : 512,
                                             .pool_blocks = pool,
                                             .arrival_seed = static_cast<uint64_t>(seed),
                                             .prefix_caching = caching});
      preemptions += tight.shape.preemptions;
      mixed_steps += tight.shape.mixed_steps;
    }
    EXPECT_GT(preemptions, 0U);
    EXPECT_GT(mixed_steps, 0);
  }
}

TEST_P(Architectures, ATierChangesNoBit) {
  kvcache::TestTier tier;
  const RunResult run = RunAndCompare({.chunk = 64,
                                       .pool_blocks = TightPool(),
                                       .arrival_seed = 5,
                                       .checkpoint_always = true,
                                       .tier = &tier});
  EXPECT_GT(run.stats.transfers.stored_blocks, 0U);
  // Another engine goes on from it.
  kvcache::TestTier left;
  left.blocks = tier.blocks;
  EXPECT_GT(RunAndCompare({.arrival_seed = 6, .tier = &left}).shape.written_blocks, 0);
}

TEST_P(Architectures, TheDiskGivesTheBitsBackAfterARestart) {
  {
    const auto tier = OpenDisk();
    ASSERT_NE(tier, nullptr);
    RunAndCompare({.one_by_one = true, .tier = tier.get()});
  }
  const auto tier = OpenDisk();
  ASSERT_NE(tier, nullptr);
  const RunResult run = RunAndCompare({.arrival_seed = 7, .tier = tier.get()});
  EXPECT_GT(run.stats.transfers.fetched_blocks, 0U);
  EXPECT_EQ(run.stats.transfers.failed_reads, 0U);
  EXPECT_EQ(tier->Usage().rejected_blocks, 0U);
}

// Each request is cut behind some of its tokens, and goes on in another engine.
TEST_P(Architectures, AnotherEngineGoesOnWithTheBitsOfTheWhole) {
  for (const size_t part : {2, 5}) {
    std::vector<core::CoreRequest> rests = requests_;
    for (core::CoreRequest& rest : rests) {
      const std::vector<TokenId>& tokens = Alone().at(rest.id).tokens;
      const size_t cut = tokens.size() - tokens.size() / part;
      rest.spec.num_prompt_logprobs = -1;
      if (cut == tokens.size()) continue;  // It has so few.
      rest.resume_ids.assign(tokens.begin(), tokens.begin() + static_cast<int64_t>(cut));
    }
    const CrowdOptions options{.model = model_,
                               .chunk = part == 2 ? 7 : 512,
                               .pool_blocks = TightPool() + 4,
                               .arrival_seed = part,
                               .max_model_len = kLongestTiny};
    RunResult run = RunCrowd(rests, options, kernels::ChooseKernels(nullptr));
    for (const core::CoreRequest& rest : rests) {
      const Output& whole = Alone().at(rest.id);
      // A token has its own log-prob, and an id and a log-prob for each of the top ones.
      const size_t bits = 1 + 2 * static_cast<size_t>(rest.spec.num_logprobs);
      const auto cut = static_cast<int64_t>(rest.resume_ids.size());
      const std::vector<TokenId> tokens(whole.tokens.begin() + cut, whole.tokens.end());
      const std::vector<uint32_t> logprobs(
          whole.logprob_bits.begin() + cut * static_cast<int64_t>(bits), whole.logprob_bits.end());
      EXPECT_EQ(run.outputs[rest.id].tokens, tokens) << "request " << rest.id;
      EXPECT_EQ(run.outputs[rest.id].logprob_bits, logprobs) << "request " << rest.id;
    }
  }
}

// One turn of a chat; `cached`: tokens of its prompt that were not computed again; `session`: those
// that the session had before.
struct TinyTurn {
  std::vector<TokenId> ids;
  int32_t cached = 0;
  int32_t session = 0;
};

const std::vector<std::string>& TinyQuestions() {
  static const std::vector<std::string> texts = {
      "The quick brown fox jumps over the lazy dog, and over the other one too.",
      "And then? Tell me what the dog did after the fox had jumped over it.", "Why?"};
  return texts;
}

EngineOptions TinyEngineOptions(const std::string& path) {
  EngineOptions options;
  options.model.path = path;
  options.model.max_model_len = 512;
  options.threads = 1;
  options.cache.kv_bytes = int64_t{8} << 20;
  return options;
}

TinyTurn AskTiny(Engine* engine, const std::string& text) {
  Request request;
  request.session_id = "chat";
  request.prompt = Chat{.messages = {{.role = "user", .content = text}}};
  request.max_tokens = 30;
  request.ignore_eos = true;
  request.sampling.temperature = 1;
  request.sampling.seed = text.size();
  auto handle = engine->Submit(std::move(request));
  EXPECT_TRUE(handle.ok()) << handle.status().message();
  if (!handle.ok()) return {};
  const Result result = handle->Wait().value();
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  TinyTurn turn;
  turn.cached = result.finish.usage.cached_tokens;
  turn.session = result.finish.session_tokens;
  for (const OutputToken& token : result.tokens) turn.ids.push_back(token.id);
  return turn;
}

TEST_P(Architectures, SessionsGoOnWithTheBitsThatWereThere) {
  const std::vector<std::string>& texts = TinyQuestions();
  EngineOptions options = TinyEngineOptions(file_.path());
  std::vector<std::vector<TinyTurn>> chats;
  for (const bool caching : {false, true}) {
    options.cache.prefix_caching = caching;
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    std::vector<TinyTurn>& chat = chats.emplace_back();
    for (const std::string& text : texts) chat.push_back(AskTiny(engine->get(), text));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(chats[0][i].ids.size(), 30U);
    EXPECT_EQ(chats[1][i].ids, chats[0][i].ids) << "turn " << i;
    EXPECT_EQ(chats[0][i].cached, 0);
    if (i > 0) {
      EXPECT_GT(chats[1][i].cached, 64) << "turn " << i;
    }
  }
}

// An engine is closed after two turns; another one on the same state path takes the third.
TEST_P(Architectures, SessionsGoOnInAnEngineThatIsOpenedAnew) {
  EngineOptions options = TinyEngineOptions(file_.path());
  auto kept = Engine::Create(options);
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  options.sessions.state_path = folder_;
  const std::vector<std::string>& texts = TinyQuestions();
  size_t turn = 0;
  for (const size_t end : {size_t{2}, texts.size()}) {
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    for (; turn < end; ++turn) {
      const TinyTurn expected = AskTiny(kept->get(), texts[turn]);
      const TinyTurn actual = AskTiny(engine->get(), texts[turn]);
      EXPECT_EQ(actual.ids.size(), 30U);
      EXPECT_EQ(actual.ids, expected.ids) << "turn " << turn;
      EXPECT_EQ(actual.session, expected.session) << "turn " << turn;
      EXPECT_EQ(actual.session > 0, turn > 0) << "turn " << turn;
    }
  }
}

// The line of tests/data/architectures.txt: "VERSION NAME SHA-256".
std::string CheckedInTinyDigest(const std::string& wanted) {
  std::ifstream file(ROPEWAY_ARCHITECTURES_FILE);
  int version = 0;
  std::string name;
  for (std::string hex; file >> version >> name >> hex;) {
    if (version == kernels::kNumericsVersion && name == wanted) return hex;
  }
  return "(none for this kNumericsVersion)";
}

std::string TinyDigest(const std::map<RequestId, Output>& outputs) {
  base::Sha256Stream sum;
  const auto add = [&sum](const auto& values) {
    sum.Add(values.data(), values.size() * sizeof values[0]);
  };
  for (const auto& [id, output] : outputs) {
    add(output.tokens);
    add(output.logprob_bits);
    add(output.scored_bits);
  }
  return base::HexText(sum.End());
}

TEST_P(Architectures, BitsAreTheCheckedInOnesUnderEveryInstructionSet) {
  const std::string expected = CheckedInTinyDigest(GetParam());
  CrowdOptions options;
  options.model = model_;
  options.max_model_len = kLongestTiny;
  options.threads = 2;
  for (const char* name : {"reference", "avx2", "avx512vnni"}) {
    const kernels::Kernels* kernels = kernels::KernelsByName(name);
    if (kernels == nullptr) {
      EXPECT_FALSE(kernels::testing::CpuHas(name)) << name;
      continue;
    }
    EXPECT_EQ(TinyDigest(RunCrowd(requests_, options, kernels).outputs), expected) << name;
  }
}

}  // namespace
}  // namespace ropeway::test::testing
