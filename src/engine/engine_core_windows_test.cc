// The engine core with a model some of whose layers see a window of the last positions only: crowds
// in pools that could not hold all positions of one request get what each gets alone.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/engine_core.h"
#include "engine/test_executor.h"
#include "kvcache/test_tier.h"
#include "policy/policies.h"

namespace ropeway::engine {
namespace {

// The longest request, prompt and output.
constexpr int32_t kLongestOfCrowd = 260;

// Time passes with each look at it.
class WindowsClock final : public base::Clock {
 public:
  base::TimePoint Now() const override { return now_ += std::chrono::milliseconds(1); }

 private:
  mutable base::TimePoint now_{1};
};

struct CrowdAnswer {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> scored_bits;
  bool operator==(const CrowdAnswer&) const = default;
};

struct CrowdRun {
  std::map<RequestId, CrowdAnswer> answers;
  CoreStats stats;
};

// Prompts of three families that begin alike, short and long; some with log-probs of the prompt if
// `score`.
std::vector<core::CoreRequest> WindowsRequests(uint64_t seed, bool score) {
  base::SeededRandom random(seed);
  std::vector<core::CoreRequest> requests;
  for (RequestId id = 1; id <= 40; ++id) {
    core::CoreRequest request;
    request.id = id;
    const auto family = static_cast<TokenId>(random.Below(3)) * 1000;
    const auto shared = static_cast<TokenId>(random.Below(180));
    const auto length = static_cast<TokenId>(1 + random.Below(200));
    for (TokenId i = 0; i < length; ++i) {
      request.prompt.push_back(i < shared ? family + i : static_cast<TokenId>(id) * 10000 + i);
    }
    request.max_tokens = static_cast<int32_t>(1 + random.Below(60));
    request.ignore_eos = true;
    request.spec.seed = id;
    if (score && id % 5 == 0) request.spec.num_prompt_logprobs = 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

// Requests that are aborted at some step.
bool LeavesEarly(RequestId id) { return id % 8 == 3; }

class CrowdRunner {
 public:
  CrowdRunner(const std::vector<int32_t>& windows, int32_t blocks, EngineCoreOptions options) {
    executor_.windows = windows;
    options.max_model_len = kLongestOfCrowd;
    options.check_integrity = true;
    const auto layout =
        executor_.Init(TestExecutor::PoolBytes(blocks), options.scheduler.max_num_batched_tokens,
                       options.scheduler.max_num_seqs);
    core_ = std::make_unique<EngineCore>(options, *layout, &executor_, &policy_, &clock_,
                                         [this](std::vector<CoreEvent> events) {
                                           for (const CoreEvent& event : events) Note(event);
                                         });
  }

  // `seed`: of the steps in which they come and leave; 0: each comes when the one before it has
  // ended, and none leaves.
  CrowdRun Run(const std::vector<core::CoreRequest>& requests, uint64_t seed) {
    base::SeededRandom random(seed);
    size_t next = 0;
    for (int step = 0; next < requests.size() || !core_->idle(); ++step) {
      while (next < requests.size() && (core_->idle() || (seed > 0 && random.Chance(0.3)))) {
        EXPECT_TRUE(core_->Add(requests[next++]).ok());
      }
      if (seed > 0 && random.Chance(0.05)) {
        const RequestId id = 1 + random.Below(next);
        if (LeavesEarly(id)) core_->Abort(id, FinishReason::kCancelled);
      }
      core_->Step();
      const Status sound = core_->CheckIntegrity();
      if (!sound.ok() || !executor_.violation().empty() || step > 20000) {
        ADD_FAILURE() << "step " << step << ": " << sound.message() << executor_.violation();
        core_->AbortAll(FinishReason::kCancelled);
        break;
      }
    }
    while (core_->Background()) {
    }
    run_.stats = core_->stats();
    EXPECT_EQ(run_.stats.held_blocks, 0);
    return run_;
  }

 private:
  void Note(const CoreEvent& event) {
    EXPECT_NE(event.kind, CoreEvent::Kind::kFailed) << event.status.message();
    CrowdAnswer& answer = run_.answers[event.id];
    if (event.kind == CoreEvent::Kind::kToken) answer.tokens.push_back(event.sampled.token);
    for (const core::Scored& scored : event.scored) {
      answer.scored_bits.push_back(std::bit_cast<uint32_t>(scored.logprob));
    }
  }

  TestExecutor executor_;
  policy::FcfsPolicy policy_;
  WindowsClock clock_;
  CrowdRun run_;
  std::unique_ptr<EngineCore> core_;
};

// `blocks`: few more than a request of the longest kind needs alone.
struct WindowsCase {
  const char* name;
  std::vector<int32_t> windows;
  int32_t blocks;
};

class EngineCoreWindowsTest
    : public testing::TestWithParam<std::tuple<WindowsCase, bool, std::string>> {
 protected:
  static EngineCoreOptions Options() {
    EngineCoreOptions options;
    options.scheduler.max_num_seqs = 6;
    options.scheduler.max_num_batched_tokens = 48;
    return options;
  }
};

TEST_P(EngineCoreWindowsTest, ACrowdGetsWhatEachGetsAlone) {
  const auto& [its, caching, strategy] = GetParam();
  const std::vector<core::CoreRequest> requests = WindowsRequests(7, its.windows[0] == 0);
  EngineCoreOptions options = Options();
  options.scheduler.max_num_seqs = 1;
  options.cache.prefix_caching = false;
  const CrowdRun alone = CrowdRunner(its.windows, 1000, options).Run(requests, 0);
  uint64_t preemptions = 0;
  uint64_t cached = 0;
  uint64_t fetched = 0;
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    kvcache::TestTier tier;
    options = Options();
    options.cache.prefix_caching = caching;
    options.cache.preempt_checkpoint = seed % 2 == 0 ? "always" : "pressure";
    if (caching && seed > 2) options.tier = &tier;
    if (seed == 4) tier.capacity = 60;
    options.scheduler.strategy = strategy;
    options.scheduler.max_batch_size = options.scheduler.max_num_seqs;
    options.scheduler.static_flush = std::chrono::milliseconds(5);
    const int32_t blocks = its.blocks + (scheduler::IsPadded(options.scheduler) ? 1 : 0);
    const CrowdRun run = CrowdRunner(its.windows, blocks, options).Run(requests, seed);
    for (const auto& [id, answer] : alone.answers) {
      if (LeavesEarly(id)) continue;
      EXPECT_TRUE(run.answers.at(id) == answer) << "request " << id << ", seed " << seed;
    }
    preemptions += run.stats.preemptions;
    cached += run.stats.cached_prompt_tokens;
    fetched += run.stats.transfers.fetched_blocks;
  }
  EXPECT_GT(preemptions, 0U);
  if (!caching) return;
  EXPECT_GT(fetched, 0U);
  // A tight pool keeps little of what all layers' windows have passed.
  if (its.windows[0] == 0) {
    EXPECT_GT(cached, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, EngineCoreWindowsTest,
                         testing::Combine(testing::Values(WindowsCase{"none", {0}, 18},
                                                          WindowsCase{"one", {0, 20}, 24},
                                                          WindowsCase{"three", {0, 24, 24}, 28},
                                                          WindowsCase{"mixed", {0, 1, 100}, 38},
                                                          WindowsCase{"all", {40}, 8},
                                                          WindowsCase{"all_mixed", {16, 100}, 20}),
                                          testing::Bool(), testing::Values("continuous", "static")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "_caching" : "_plain") +
                                  (std::get<2>(info.param) == "static" ? "_static" : "");
                         });

// A pool that holds far less than all positions of all layers.
TEST(WindowsPoolTest, ALongRequestNeedsBlocksForItsWindowsOnly) {
  EngineCoreOptions options;
  options.scheduler.max_num_batched_tokens = 64;
  core::CoreRequest request;
  request.id = 1;
  request.prompt.resize(200, 3);
  request.max_tokens = 60;
  // 17 blocks of the layers that see all, and 5 of each of the other groups.
  CrowdRunner runner({0, 24, 24, 24}, 32, options);
  const CrowdRun run = runner.Run({request}, 0);
  EXPECT_EQ(run.answers.at(1).tokens.size(), 60U);
  EXPECT_EQ(run.stats.preemptions, 0U);
}

TEST(WindowsPoolTest, ThePoolMustHoldOneRequestOfTheLongestKind) {
  EngineCoreOptions options;
  options.max_model_len = 260;
  executor::KvLayout layout{.num_blocks = 31, .block_bytes = 1, .windows = {0, 24, 24, 24}};
  EXPECT_EQ(options.Validate(layout).message(),
            "max_model_len 260 needs 32 KV blocks, but the KV cache has 31");
  layout.num_blocks = 32;
  EXPECT_TRUE(options.Validate(layout).ok());
}

}  // namespace
}  // namespace ropeway::engine
