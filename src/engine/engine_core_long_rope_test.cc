// Sequences that grow beyond the length up to which the short factors of RoPE hold.
#include <gtest/gtest.h>

#include <vector>

#include "core/block_name.h"
#include "engine/test_engine_core.h"

namespace ropeway::engine {
namespace {

constexpr int32_t kAbove = 40;

class LongRopeTest : public EngineCoreTest {
 protected:
  void StartLong(int32_t above = kAbove, int32_t blocks = 64) {
    EngineCoreOptions options;
    options.scheduler = {.max_num_seqs = 4, .max_num_batched_tokens = 24};
    options.step.long_rope_above = above;
    Start(blocks, options);
  }

  // By definition: each token depends on all ids before it, and on whether these are more than
  // kAbove.
  static std::vector<TokenId> Expected(const core::CoreRequest& request) {
    std::vector<TokenId> ids = request.prompt;
    while (ids.size() < request.prompt.size() + static_cast<size_t>(request.max_tokens)) {
      uint64_t hash = TestExecutor::SeedOf(request.spec.seed, ids.size() > kAbove);
      for (const TokenId id : ids) hash = base::Mix64(hash, static_cast<uint64_t>(id) + 1);
      ids.push_back(static_cast<TokenId>(hash % TestExecutor::kVocabSize));
    }
    return {ids.begin() + static_cast<ptrdiff_t>(request.prompt.size()), ids.end()};
  }

  // Adds it and runs all to their end.
  void RunOne(core::CoreRequest request) {
    const RequestId id = request.id;
    ASSERT_TRUE(core_->Add(std::move(request)).ok());
    RunToEnd();
    ASSERT_TRUE(ended_.contains(id));
  }
};

TEST_F(LongRopeTest, TheSequenceIsComputedAnewOnceWhenItCrossesTheLength) {
  StartLong();
  const core::CoreRequest request = MakeRequest(1, 30, 30);
  RunOne(request);
  EXPECT_EQ(tokens_[1], Expected(request));
  EXPECT_EQ(ended_[1].preemptions, 1);
  EXPECT_EQ(CountOf(1, Kind::kPreempted), 1);
  for (const CoreEvent& event : log_) {
    if (event.kind != Kind::kPreempted) continue;
    EXPECT_EQ(event.preempt_reason, scheduler::PreemptReason::kLength);
  }
  EXPECT_EQ(core_->stats().recomputed_tokens, uint64_t{kAbove});
}

TEST_F(LongRopeTest, AtTheLengthAndBeyondItNothingIsComputedAnew) {
  StartLong();
  // The last token is not computed, so 40 ids are.
  const core::CoreRequest below = MakeRequest(1, 30, 11);
  const core::CoreRequest at = MakeRequest(2, kAbove, 1);
  const core::CoreRequest beyond = MakeRequest(3, kAbove + 1, 10);
  for (const core::CoreRequest& request : {below, at, beyond}) {
    RunOne(request);
    EXPECT_EQ(tokens_[request.id], Expected(request));
    EXPECT_EQ(ended_[request.id].preemptions, 0);
  }
}

TEST_F(LongRopeTest, BlocksOfShortAndOfLongSequencesHaveOtherNames) {
  StartLong();
  const core::CoreRequest first = MakeRequest(1, 33, 30);
  RunOne(first);
  // Goes on from what the first one had, as the next turn of a conversation: all is there.
  core::CoreRequest next = MakeRequest(2, 0, 4);
  next.prompt = first.prompt;
  next.prompt.insert(next.prompt.end(), tokens_[1].begin(), tokens_[1].end());
  RunOne(next);
  EXPECT_EQ(tokens_[2], Expected(next));
  EXPECT_EQ(ended_[2].cached_tokens, 48);
  // So is the beginning for a short one; a long one with it finds the first one's long blocks.
  core::CoreRequest other = MakeRequest(3, 0, 2);
  other.prompt.assign(first.prompt.begin(), first.prompt.end());
  RunOne(other);
  EXPECT_EQ(tokens_[3], Expected(other));
  EXPECT_EQ(ended_[3].cached_tokens, 32);
}

TEST_F(LongRopeTest, ALongRequestDoesNotFindWhatShortOnesComputed) {
  StartLong();
  RunOne(MakeRequest(1, 38, 2));
  core::CoreRequest request = MakeRequest(2, 0, 4);
  for (int32_t i = 0; i < 50; ++i) request.prompt.push_back(100 + i);  // Begins as the first one.
  RunOne(request);
  EXPECT_EQ(tokens_[2], Expected(request));
  EXPECT_EQ(ended_[2].cached_tokens, 0);
}

TEST_F(LongRopeTest, SeveralCrossItTogetherInASmallPool) {
  // Each takes 4 or 5 blocks in the end: they are preempted for memory too.
  StartLong(kAbove, 11);
  std::vector<core::CoreRequest> requests;
  for (RequestId id = 1; id <= 8; ++id) {
    requests.push_back(MakeRequest(id, 20 + 3 * static_cast<int32_t>(id), 36));
    ASSERT_TRUE(core_->Add(requests.back()).ok());
  }
  RunToEnd();
  for (const core::CoreRequest& request : requests) {
    EXPECT_EQ(tokens_[request.id], Expected(request)) << request.id;
  }
}

TEST_F(LongRopeTest, APromptIsScoredByItsOwnLengthWhateverIsKnownBehindIt) {
  StartLong();
  core::CoreRequest request = MakeRequest(1, 30, 30);
  request.spec.num_prompt_logprobs = 0;
  const std::vector<TokenId> expected = Expected(request);
  core::CoreRequest resumed = request;
  resumed.resume_ids.assign(expected.begin(), expected.begin() + 20);
  RunOne(resumed);
  ExpectScored(request);
  EXPECT_EQ(tokens_[1], std::vector<TokenId>(expected.begin() + 20, expected.end()));
  // And of a long one, with the long factors from its beginning on.
  core::CoreRequest longer = MakeRequest(2, kAbove + 2, 0);
  longer.spec.num_prompt_logprobs = 0;
  RunOne(longer);
  ASSERT_EQ(scored_[2].size(), longer.prompt.size());
  for (size_t i = 1; i < longer.prompt.size(); ++i) {
    EXPECT_EQ(scored_[2][i].logprob,
              TestExecutor::ScoreOf({longer.prompt.data(), i}, longer.prompt[i], true));
  }
}

TEST(LongRopeRootTest, ItIsAnotherRoot) {
  const auto root_of = [](const char* scope) {
    core::CacheRoot root;
    root.scope = scope;
    return core::RootName(root);
  };
  const core::BlockName root = root_of("a");
  EXPECT_FALSE(core::LongRopeRoot(root) == root);
  EXPECT_FALSE(core::LongRopeRoot(root) == core::LongRopeRoot(root_of("b")));
}

}  // namespace
}  // namespace ropeway::engine
