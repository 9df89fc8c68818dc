// Requests that go on where another engine left off (CoreRequest::resume_ids), in the engine core.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/test_engine_core.h"

namespace ropeway::engine {
namespace {

constexpr int32_t kResumePrompt = 20;
constexpr int32_t kResumeTokens = 40;

class EngineCoreResumeTest : public EngineCoreTest {
 protected:
  static core::CoreRequest Whole(RequestId id = 1) {
    core::CoreRequest request = MakeRequest(1, kResumePrompt, kResumeTokens);
    request.id = id;
    request.spec.num_logprobs = 0;
    return request;
  }

  // The whole request with its first `done` tokens generated before.
  core::CoreRequest Rest(size_t done, RequestId id = 1) const {
    core::CoreRequest request = Whole(id);
    for (size_t i = 0; i < done; ++i) request.resume_ids.push_back(whole_[i].token);
    return request;
  }

  // Runs the whole request in an engine of its own.
  void RunWhole() {
    Start(16, {});
    ASSERT_TRUE(core_->Add(Whole()).ok());
    RunToEnd();
    whole_ = Sampled(1);
    ASSERT_EQ(whole_.size(), size_t{kResumeTokens});
    Forget();
  }

  std::vector<core::Sampled> Sampled(RequestId id) const {
    std::vector<core::Sampled> all;
    for (const CoreEvent& event : log_) {
      if (event.id == id && event.kind == Kind::kToken) all.push_back(event.sampled);
    }
    return all;
  }

  void ExpectRest(size_t done, RequestId id = 1) const {
    const std::vector<core::Sampled> rest = Sampled(id);
    ASSERT_EQ(rest.size(), whole_.size() - done) << "behind " << done;
    for (size_t i = 0; i < rest.size(); ++i) {
      EXPECT_EQ(rest[i].token, whole_[done + i].token) << "behind " << done;
      EXPECT_EQ(rest[i].logprob, whole_[done + i].logprob) << "behind " << done;
    }
    const CoreEvent& end = ended_.at(id);
    EXPECT_EQ(end.reason, FinishReason::kLength);
    EXPECT_EQ(end.prompt_tokens, kResumePrompt);
    EXPECT_EQ(end.completion_tokens, kResumeTokens);
    EXPECT_GE(end.first_token_step, 1U);
  }

  void Forget() {
    log_.clear();
    tokens_.clear();
    ended_.clear();
  }

  std::vector<core::Sampled> whole_;
};

TEST_F(EngineCoreResumeTest, BehindEveryTokenTheRestIsThatOfTheWhole) {
  RunWhole();
  for (const int chunk : {512, 7}) {
    for (size_t done = 1; done < whole_.size(); ++done) {
      EngineCoreOptions options;
      options.scheduler.max_num_batched_tokens = chunk;
      Start(16, options);
      ASSERT_TRUE(core_->Add(Rest(done)).ok());
      EXPECT_EQ(core_->stats().waiting, 1);
      RunToEnd();
      ExpectRest(done);
      EXPECT_EQ(core_->stats().generated_tokens, whole_.size() - done);
      EXPECT_EQ(core_->stats().preemptions, 0U);
      Forget();
    }
  }
}

// Beside others, in a pool that holds one and a half of them.
TEST_F(EngineCoreResumeTest, IsPreemptedAndResumesAsAnyOther) {
  RunWhole();
  EngineCoreOptions options;
  options.cache.prefix_caching = false;  // They are alike.
  Start(6, options);
  for (RequestId id = 1; id <= 5; ++id) {
    ASSERT_TRUE(core_->Add(Rest(7 * static_cast<size_t>(id - 1), id)).ok());
  }
  RunToEnd();
  for (RequestId id = 1; id <= 5; ++id) ExpectRest(7 * static_cast<size_t>(id - 1), id);
  EXPECT_GT(core_->stats().preemptions, 0U);
}

// With the blocks of the first run there, only the last ids are computed.
TEST_F(EngineCoreResumeTest, FindsTheBlocksOfWhatWasGenerated) {
  RunWhole();
  Start(16, {});
  ASSERT_TRUE(core_->Add(Whole()).ok());
  RunToEnd();
  Forget();
  const int64_t rows = executor_.rows();
  ASSERT_TRUE(core_->Add(Rest(30, 2)).ok());
  RunToEnd();
  ExpectRest(30, 2);
  EXPECT_EQ(ended_.at(2).cached_tokens, kResumePrompt);
  // 48 of the 50 ids fill three blocks; then nine decodes.
  EXPECT_EQ(executor_.rows() - rows, 2 + 9);
}

TEST_F(EngineCoreResumeTest, EndsAtAnEndTokenAndNotBeforeMinTokens) {
  RunWhole();
  // One that did not come before.
  size_t at = 20;
  const auto is_new = [&] {
    return std::none_of(whole_.begin(), whole_.begin() + static_cast<int64_t>(at),
                        [&](const core::Sampled& s) { return s.token == whole_[at].token; });
  };
  while (!is_new()) ++at;
  const TokenId end = whole_[at].token;
  for (const size_t done : {size_t{3}, at}) {
    Start(16, {.is_end = [end](TokenId id) { return id == end; }});
    ASSERT_TRUE(core_->Add(Rest(done)).ok());
    RunToEnd();
    EXPECT_EQ(ended_.at(1).reason, FinishReason::kStop);
    EXPECT_EQ(ended_.at(1).completion_tokens, static_cast<int32_t>(at) + 1);
    EXPECT_EQ(Sampled(1).size(), at + 1 - done);
    Forget();
    core::CoreRequest request = Rest(done);
    request.spec.params.min_tokens = kResumeTokens;
    ASSERT_TRUE(core_->Add(std::move(request)).ok());
    RunToEnd();
    ExpectRest(done);
    Forget();
  }
}

TEST_F(EngineCoreResumeTest, LeavesATokenToGenerate) {
  RunWhole();
  Start(16, {});
  const Status status = core_->Add(Rest(whole_.size()));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "resume_ids");
  EXPECT_TRUE(core_->idle());
}

TEST_F(EngineCoreResumeTest, StartsInBatchesToo) {
  RunWhole();
  for (const char* strategy : {"serial", "static"}) {
    EngineCoreOptions options;
    options.scheduler.strategy = strategy;
    options.scheduler.max_batch_size = 3;
    options.max_model_len = kResumePrompt + kResumeTokens;
    Start(33, options);
    core_->Flush();
    for (RequestId id = 1; id <= 3; ++id) {
      ASSERT_TRUE(core_->Add(Rest(9 * static_cast<size_t>(id), id)).ok());
    }
    RunToEnd();
    for (RequestId id = 1; id <= 3; ++id) ExpectRest(9 * static_cast<size_t>(id), id);
    Forget();
  }
}

}  // namespace
}  // namespace ropeway::engine
