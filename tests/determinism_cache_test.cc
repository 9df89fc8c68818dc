// Invariant 1 with a KV memory that keeps, shares, moves, loses and finds blocks again: what a
// request gets is what it gets alone in an engine that caches nothing, to the bit.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <set>

#include "base/clock.h"
#include "determinism_harness.h"
#include "kvcache/disk_tier.h"
#include "kvcache/test_tier.h"
#include "model/model_tensors.h"
#include "model/open_model.h"
#include "ropeway/engine.h"

namespace ropeway::test::testing {
namespace {

// The longest request has 19 blocks; a few together have more.
constexpr int kMaxLen = 384;
constexpr int kTinyPool = 28;

constexpr RequestId kFirstChoice = 50;

std::vector<TokenId> Join(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What a request may ask for beside its prompt, differently for each.
void AddParameters(int i, core::CoreRequest* request) {
  core::SampleSpec& spec = request->spec;
  spec.seed = 77 + static_cast<uint64_t>(i);
  spec.num_logprobs = i % 4;
  spec.params.temperature = i % 3 == 0 ? 0.0F : 1.0F;
  if (i % 4 == 1) spec.params.top_p = 0.9F;
  if (i % 5 == 2) {
    spec.params.repetition_penalty = 1.3F;
    spec.params.presence_penalty = 0.5F;
    spec.params.frequency_penalty = 0.7F;
  }
  request->ignore_eos = true;
  if (i % 6 == 3) {
    request->ignore_eos = false;
    spec.end_ids = {2, 198, 253};
    request->stop_ids = {198, 253};
    spec.params.min_tokens = request->max_tokens / 2;
  }
  if (i % 7 == 4) spec.num_prompt_logprobs = 2;
}

// Prompts that begin alike for 0, 15, 16, 17, 96, 100, 160 (an exact number of blocks) and more
// tokens, two of them wholly, and three choices of one.
const std::vector<core::CoreRequest>& Requests() {
  static const std::vector<core::CoreRequest> requests = [] {
    std::mt19937_64 random(20261122);
    const auto some = [&](size_t count) {
      std::vector<TokenId> ids(count);
      for (TokenId& id : ids) id = static_cast<TokenId>(300 + random() % 20000);
      return ids;
    };
    const std::vector<TokenId> shared = some(160);
    const auto first = [&](size_t count) {
      return std::vector<TokenId>(shared.begin(), shared.begin() + static_cast<int64_t>(count));
    };
    const std::vector<std::vector<TokenId>> prompts = {
        Join(shared, some(5)),
        shared,
        Join(first(96), some(40)),
        Join(first(100), some(30)),
        Join(shared, some(90)),
        some(170),
        Join(first(16), some(1)),
        first(15),
        shared,
        Join(first(17), some(64)),
        Join(shared, some(33)),
    };
    std::vector<core::CoreRequest> all;
    for (const std::vector<TokenId>& prompt : prompts) {
      core::CoreRequest request;
      request.id = all.size() + 1;
      request.prompt = prompt;
      request.max_tokens = 20 + static_cast<int32_t>(random() % 24);
      AddParameters(static_cast<int>(all.size()), &request);
      all.push_back(std::move(request));
    }
    core::CoreRequest chosen = all[4];
    chosen.id = kFirstChoice;
    chosen.spec.num_prompt_logprobs = -1;
    chosen.spec.params.temperature = 1.0F;
    for (core::CoreRequest& choice : ChoicesOf(chosen, 3)) all.push_back(std::move(choice));
    return all;
  }();
  return requests;
}

const std::map<RequestId, Output>& Alone(kernels::KvType kv_type = kernels::KvType::kF16) {
  static std::map<kernels::KvType, std::map<RequestId, Output>> outputs;
  if (!outputs.contains(kv_type)) {
    outputs[kv_type] = RunAlone(Requests(), kernels::ChooseKernels(nullptr), kv_type);
  }
  return outputs[kv_type];
}

int Differences(const RunResult& run, kernels::KvType kv_type = kernels::KvType::kF16) {
  int different = 0;
  for (const auto& [id, output] : Alone(kv_type)) {
    const auto it = run.outputs.find(id);
    different += it != run.outputs.end() && it->second == output ? 0 : 1;
  }
  return different;
}

RunResult RunAll(CrowdOptions options) {
  options.max_model_len = kMaxLen;
  return RunCrowd(Requests(), options, kernels::ChooseKernels(nullptr));
}

// As RunAll, and all outputs are those of each request alone.
RunResult RunAndCompare(const CrowdOptions& options) {
  RunResult run = RunAll(options);
  for (const auto& [id, output] : Alone(options.kv_type)) {
    EXPECT_EQ(run.outputs[id].tokens, output.tokens) << "request " << id;
    EXPECT_EQ(run.outputs[id].logprob_bits, output.logprob_bits) << "request " << id;
    EXPECT_EQ(run.outputs[id].scored, output.scored) << "request " << id;
    EXPECT_EQ(run.outputs[id].scored_bits, output.scored_bits) << "request " << id;
  }
  return run;
}

// What an engine that ran all requests to their ends leaves in its tier.
kvcache::TestTier StoredTier() {
  static const auto blocks = [] {
    kvcache::TestTier tier;
    const RunResult run = RunAll({.tier = &tier});
    EXPECT_EQ(run.stats.transfers.fetched_blocks, 0U);
    return tier.blocks;
  }();
  kvcache::TestTier tier;
  tier.blocks = blocks;
  return tier;
}

// Loses every second block that is read.
class LossyTier final : public kvcache::TestTier {
 public:
  bool Get(uint64_t ticket, std::vector<core::BlockName> names) override {
    for (const core::BlockName& name : names) {
      if (++asked_ % 2 != 0) continue;
      Erase(name);
      ++lost_;
    }
    return kvcache::TestTier::Get(ticket, std::move(names));
  }

  int lost() const { return lost_; }

 private:
  int asked_ = 0;
  int lost_ = 0;
};

// Ids of the longest common beginning.
int32_t CommonPrefix(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int32_t>(ends.first - a.begin());
}

TEST(DeterminismCache, HitsOfEndedRequestsAreExactlyTheirWholeBlocks) {
  const RunResult run = RunAndCompare({.one_by_one = true});
  std::vector<std::vector<TokenId>> computed;  // By those that ended: all but the last token.
  uint64_t hits = 0;
  std::set<int32_t> lengths;
  for (const core::CoreRequest& request : Requests()) {
    const auto most = static_cast<int32_t>(request.prompt.size()) - 1;
    int32_t expected = 0;
    for (const std::vector<TokenId>& ids : computed) {
      const int32_t common = std::min(most, CommonPrefix(request.prompt, ids));
      expected = std::max(expected, common / base::kBlockTokens * base::kBlockTokens);
    }
    if (request.spec.num_prompt_logprobs >= 0) expected = 0;
    EXPECT_EQ(run.cached_tokens.at(request.id), expected) << "request " << request.id;
    hits += static_cast<uint64_t>(expected);
    lengths.insert(expected);
    computed.push_back(Join(request.prompt, Alone().at(request.id).tokens));
    computed.back().pop_back();
  }
  EXPECT_EQ(run.stats.cached_prompt_tokens, hits);
  EXPECT_EQ(lengths, (std::set<int32_t>{0, 16, 96, 144, 160, 240}));
  EXPECT_EQ(run.stats.recomputed_tokens, 0U);
}

TEST(DeterminismCache, HitsOfRunningRequestsAndFollowers) {
  // All at once: in the first step one sequence leads and those that share its prefix follow;
  // nothing ended before.
  const RunResult run = RunAndCompare({.chunk = 64});
  EXPECT_GE(run.cached_tokens.at(kFirstChoice), 160);
  EXPECT_GE(run.cached_tokens.at(kFirstChoice + 1), 160);
  // Six requests begin with all of the 160 tokens, and one of them computes these.
  EXPECT_GE(run.stats.cached_prompt_tokens, 5U * 144);
  EXPECT_EQ(run.stats.recomputed_tokens, 0U);
  // With arrivals at random steps some find blocks of requests that run.
  EXPECT_GT(RunAndCompare({.chunk = 7, .arrival_seed = 3}).stats.cached_prompt_tokens, 0U);
}

// The pool is far too small; nothing but the pool keeps anything.
TEST(DeterminismCache, PreemptedBlocksAreMappedAgainOrRecomputed) {
  const RunResult kept = RunAndCompare({.pool_blocks = 2 * kTinyPool, .arrival_seed = 5});
  EXPECT_GT(kept.shape.preemptions, 0U);
  EXPECT_GT(kept.moves(core::SequenceState::kPreempted, core::SequenceEvent::kResume), 0U);
  const RunResult driven = RunAndCompare({.pool_blocks = kTinyPool});
  EXPECT_GT(driven.shape.preemptions, 2U);
  EXPECT_GT(driven.stats.evicted_blocks, 0U);
  EXPECT_GT(driven.stats.recomputed_tokens, 0U);
  // Without the cache more is computed again.
  const RunResult without = RunAndCompare({.pool_blocks = kTinyPool, .prefix_caching = false});
  EXPECT_EQ(without.stats.cached_prompt_tokens, 0U);
  EXPECT_GT(without.stats.recomputed_tokens, driven.stats.recomputed_tokens);
}

void ExpectTierWasUsed(const RunResult& run) {
  EXPECT_GT(run.shape.preemptions, 2U);
  EXPECT_GT(run.stats.transfers.spilled_blocks, 0U);
  EXPECT_GT(run.stats.transfers.fetched_blocks, 0U);
  EXPECT_EQ(static_cast<uint64_t>(run.shape.written_blocks), run.stats.transfers.fetched_blocks);
  EXPECT_GT(run.moves(core::SequenceState::kPreempted, core::SequenceEvent::kFetch), 0U);
}

TEST(DeterminismTier, EvictedBlocksAreReadBack) {
  for (const kernels::KvType kv_type : {kernels::KvType::kF16, kernels::KvType::kQ8_0}) {
    kvcache::TestTier tier;
    const RunResult run = RunAndCompare({.chunk = kv_type == kernels::KvType::kF16 ? 512 : 64,
                                         .pool_blocks = kTinyPool,
                                         .kv_type = kv_type,
                                         .tier = &tier});
    ExpectTierWasUsed(run);
    EXPECT_EQ(run.stats.transfers.failed_reads, 0U);
    // Preempted sequences found all that they had computed, their partial blocks too.
    EXPECT_EQ(run.stats.recomputed_tokens, 0U);
  }
}

TEST(DeterminismTier, CheckpointsAreReadBack) {
  kvcache::TestTier tier;
  const RunResult run = RunAndCompare(
      {.chunk = 64, .pool_blocks = kTinyPool, .checkpoint_always = true, .tier = &tier});
  ExpectTierWasUsed(run);
  EXPECT_EQ(run.stats.recomputed_tokens, 0U);
}

TEST(DeterminismTier, WhatItLosesIsRecomputed) {
  LossyTier tier;
  const RunResult run = RunAndCompare({.pool_blocks = kTinyPool, .tier = &tier});
  ExpectTierWasUsed(run);
  EXPECT_GT(tier.lost(), 5);
  EXPECT_GT(run.stats.transfers.failed_reads, 0U);
  EXPECT_GT(run.stats.recomputed_tokens, 0U);
}

// The tier of the machine's own disk, in a directory of the test's.
class DeterminismDisk : public ::testing::Test {
 protected:
  ~DeterminismDisk() override {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::unique_ptr<kvcache::DiskTier> Open() {
    kvcache::DiskTierOptions options;
    options.cache.disk_path = path_;
    options.cache.disk_bytes = int64_t{512} << 20;
    options.block_bytes = TestModel()->config().kv_block_bytes(kernels::KvType::kF16);
    options.cache.disk_write_rate = int64_t{1} << 40;
    options.clock = &clock_;
    StatusOr<std::unique_ptr<kvcache::DiskTier>> tier = kvcache::DiskTier::Open(options);
    if (!tier.ok()) {
      ADD_FAILURE() << tier.status().message();
      return nullptr;
    }
    return *std::move(tier);
  }

 private:
  const base::RealClock clock_;
  const std::string path_ = ::testing::TempDir() + "determinism_disk_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            std::to_string(getpid());
};

TEST_F(DeterminismDisk, EvictedBlocksAreReadBack) {
  const auto tier = Open();
  ASSERT_NE(tier, nullptr);
  const RunResult run = RunAndCompare({.threads = 2, .pool_blocks = kTinyPool, .tier = tier.get()});
  ExpectTierWasUsed(run);
  EXPECT_TRUE(tier->Usage().on);
  EXPECT_EQ(tier->Usage().rejected_blocks, 0U);
}

// The second engine, on the directory that the first one's tier left.
TEST_F(DeterminismDisk, TheNextProcessGoesOnFromIt) {
  {
    const auto tier = Open();
    ASSERT_NE(tier, nullptr);
    RunAll({.tier = tier.get()});
    EXPECT_GT(tier->Usage().written_bytes, 0U);
  }
  const auto tier = Open();
  ASSERT_NE(tier, nullptr);
  EXPECT_GT(tier->Usage().blocks, 50U);
  const RunResult run = RunAndCompare({.arrival_seed = 6, .tier = tier.get()});
  EXPECT_GT(run.stats.transfers.fetched_blocks, 10U);
  EXPECT_EQ(run.stats.transfers.failed_reads, 0U);
  EXPECT_GT(run.moves(core::SequenceState::kWaiting, core::SequenceEvent::kFetch), 0U);
  EXPECT_EQ(tier->Usage().rejected_blocks, 0U);
}

// An engine that ended leaves its blocks in the tier; the next one begins with them.
TEST(DeterminismTier, TheNextEngineGoesOnFromIt) {
  kvcache::TestTier tier = StoredTier();
  const RunResult run = RunAndCompare({.arrival_seed = 6, .tier = &tier});
  EXPECT_GT(run.stats.transfers.fetched_blocks, 20U);
  EXPECT_GT(run.moves(core::SequenceState::kWaiting, core::SequenceEvent::kFetch), 0U);
  // All is there, down to the last whole block.
  for (const core::CoreRequest& request : Requests()) {
    const bool scores = request.spec.num_prompt_logprobs >= 0;
    const auto most = static_cast<int32_t>(request.prompt.size()) - 1;
    EXPECT_EQ(run.cached_tokens.at(request.id),
              scores ? 0 : most / base::kBlockTokens * base::kBlockTokens);
  }
}

// One that was destroyed while most of its requests ran leaves what it had stored till then.
TEST(DeterminismTier, TheNextEngineGoesOnFromWhatAKilledOneLeft) {
  kvcache::TestTier left;
  RunAll({.tier = &left, .max_steps = 35});
  kvcache::TestTier tier;
  tier.blocks = left.blocks;
  EXPECT_GT(RunAndCompare({.tier = &tier}).stats.transfers.fetched_blocks, 0U);
}

// Blocks of another root are another's: not one of them is used.
TEST(DeterminismTier, AnotherTenantFindsNothing) {
  kvcache::TestTier tier = StoredTier();
  std::vector<core::CoreRequest> foreign = {Requests()[0], Requests()[5]};
  for (core::CoreRequest& request : foreign) request.cache_root.bytes.fill(1);
  const RunResult run = RunCrowd(foreign, {.tier = &tier}, kernels::ChooseKernels(nullptr));
  EXPECT_EQ(run.stats.transfers.fetched_blocks, 0U);
  EXPECT_EQ(run.stats.cached_prompt_tokens, 0U);
  EXPECT_EQ(run.outputs.at(1), Alone().at(1));
}

// Chats of one system prompt, half of them with stop strings that occur in what they get.
std::vector<Request> TextRequests() {
  std::vector<Request> requests;
  const std::vector<std::string> things = {"the sea", "bread", "rain", "iron", "a clock", "bees"};
  for (size_t i = 0; i < things.size(); ++i) {
    Request request;
    request.prompt =
        Chat{.messages = {
                 {.role = "system",
                  .content =
                      "You answer every question at length and in whole sentences, and you explain "
                      "each word that a child of ten would not know before you use it."},
                 {.role = "user", .content = "What is " + things[i] + "?"}}};
    request.max_tokens = 60;
    request.ignore_eos = true;
    request.sampling.seed = 5 + i;
    request.sampling.frequency_penalty = 0.5F;
    request.sampling.min_tokens = 40;
    request.choice = static_cast<uint32_t>(i % 2);
    request.logprobs = 1;
    if (i % 2 == 1) request.stop = {" to the", ". The", " of a", " is a", "ing "};
    requests.push_back(std::move(request));
  }
  return requests;
}

// What the public API gives for each of TextRequests: all at once, or each when the one before it
// has ended.
std::vector<Result> Answers(const EngineOptions& options, bool at_once) {
  std::vector<Result> results;
  auto engine = Engine::Create(options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.status().message();
    return results;
  }
  std::vector<RequestHandle> handles;
  for (Request& request : TextRequests()) {
    auto handle = (*engine)->Submit(std::move(request));
    if (!handle.ok()) {
      ADD_FAILURE() << handle.status().message();
      return results;
    }
    if (!at_once) {
      EXPECT_TRUE(handle->Wait().ok());
    }
    handles.push_back(*handle);
  }
  for (const RequestHandle& handle : handles) {
    StatusOr<Result> result = handle.Wait();
    EXPECT_TRUE(result.ok() && result->status.ok());
    if (result.ok()) results.push_back(*std::move(result));
  }
  return results;
}

TEST(DeterminismText, StopStringsOfPreemptedRequests) {
  EngineOptions options;
  options.model.path = std::getenv("ROPEWAY_TEST_MODEL");
  options.threads = 1;
  options.model.max_model_len = 160;
  options.cache.prefix_caching = false;
  const std::vector<Result> alone = Answers(options, false);
  options.cache.prefix_caching = true;
  const auto file = model::OpenModel(options.model.path);
  ASSERT_TRUE(file.ok());
  const auto config = model::ReadModelConfig(**file);
  ASSERT_TRUE(config.ok());
  // 10 blocks: the requests want seven each, and share a few.
  options.cache.kv_bytes = static_cast<int64_t>(10 * config->kv_block_bytes(kernels::KvType::kF16));
  const std::vector<Result> crowd = Answers(options, true);
  ASSERT_EQ(alone.size(), crowd.size());
  int stopped = 0;
  int stopped_after_preemption = 0;
  int cached = 0;
  for (size_t i = 0; i < crowd.size(); ++i) {
    EXPECT_EQ(crowd[i].text, alone[i].text) << i;
    EXPECT_EQ(crowd[i].finish.reason, alone[i].finish.reason) << i;
    ASSERT_EQ(crowd[i].tokens.size(), alone[i].tokens.size()) << i;
    for (size_t k = 0; k < crowd[i].tokens.size(); ++k) {
      EXPECT_EQ(crowd[i].tokens[k].id, alone[i].tokens[k].id) << i << ", token " << k;
      EXPECT_EQ(crowd[i].tokens[k].logprob, alone[i].tokens[k].logprob) << i << ", token " << k;
    }
    EXPECT_EQ(alone[i].finish.usage.cached_tokens, 0);
    const bool stops = crowd[i].finish.reason == FinishReason::kStop;
    stopped += stops ? 1 : 0;
    stopped_after_preemption += stops && crowd[i].finish.preemptions > 0 ? 1 : 0;
    cached += crowd[i].finish.usage.cached_tokens;
  }
  EXPECT_GT(stopped, 0);
  EXPECT_LT(stopped, static_cast<int>(crowd.size()));
  EXPECT_GT(stopped_after_preemption, 0);
  EXPECT_GT(cached, 0);
}

// Planted: of one block that is read back one bit is wrong. What the tests above compare shows it.
TEST(DeterminismPlant, OneWrongBitOfOneBlockIsCaught) {
  kvcache::TestTier tier = StoredTier();
  int writes = 0;
  const RunResult run = RunAll({.tier = &tier, .spoil_write = [&](std::span<std::byte> bytes) {
                                  if (writes++ == 0) bytes[1] ^= std::byte{0x80};
                                }});
  ASSERT_GT(writes, 1);
  EXPECT_GT(Differences(run), 0);
}

// Planted bug: a read gives the block of another name.
TEST(DeterminismPlant, ABlockInAnothersPlaceIsCaught) {
  kvcache::TestTier tier = StoredTier();
  const kvcache::TestTier stored = StoredTier();
  const std::vector<std::byte>* before = &stored.blocks.begin()->second;
  for (const auto& [name, bytes] : stored.blocks) {
    tier.blocks[name] = *before;
    before = &bytes;
  }
  EXPECT_GT(Differences(RunAll({.tier = &tier})), 0);
}

}  // namespace
}  // namespace ropeway::test::testing
