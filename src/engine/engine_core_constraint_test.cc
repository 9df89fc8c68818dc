// Sequences whose tokens are held by a constraint (CoreRequest::constraint), in the engine core.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/mask_filler.h"
#include "engine/test_constraint.h"
#include "engine/test_engine_core.h"

namespace ropeway::engine {
namespace {

constexpr int32_t kMaskedPrompt = 20;

class EngineCoreConstraintTest : public EngineCoreTest {
 protected:
  // Constraints that differ by request.
  std::shared_ptr<const TestConstraint> Constrain(RequestId id,
                                                  TestConstraint::Options options = {}) {
    options.seed = id;
    options.length = std::max(options.length, 1);
    return constraints_[id] = std::make_shared<const TestConstraint>(std::move(options));
  }

  core::CoreRequest Masked(RequestId id, std::shared_ptr<const TestConstraint> constraint,
                           int32_t max_tokens = 100) {
    core::CoreRequest request = MakeRequest(id, kMaskedPrompt, max_tokens);
    request.constraint = std::move(constraint);
    return request;
  }

  // Each token was allowed behind those before, and the end token came last.
  void ExpectHeld(RequestId id, int32_t length = 10) {
    const std::vector<TokenId>& tokens = tokens_[id];
    ASSERT_EQ(tokens.size(), static_cast<size_t>(length) + 1);
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_TRUE(constraints_.at(id)->Allows({tokens.data(), i}, tokens[i])) << "token " << i;
    }
    EXPECT_EQ(ended_.at(id).kind, Kind::kFinished);
    EXPECT_EQ(ended_.at(id).reason, FinishReason::kStop);
    EXPECT_EQ(ended_.at(id).completion_tokens, length + 1);
  }

  // What the request's tokens are in an engine of its own.
  std::vector<TokenId> Alone(RequestId id, int32_t length = 10) {
    Start(16, {});
    EXPECT_TRUE(core_->Add(Masked(id, Constrain(id, {.length = length}))).ok());
    RunToEnd();
    std::vector<TokenId> tokens = std::move(tokens_[id]);
    Forget();
    return tokens;
  }

  void Forget() {
    log_.clear();
    tokens_.clear();
    ended_.clear();
  }

  std::map<RequestId, std::shared_ptr<const TestConstraint>> constraints_;
};

TEST_F(EngineCoreConstraintTest, EachTokenIsAllowedAndTheOutputEndsWhereTheConstraintDoes) {
  Start(64, {});
  for (const RequestId id : {1, 2, 3}) ASSERT_TRUE(core_->Add(Masked(id, Constrain(id))).ok());
  ASSERT_TRUE(Add(4, kMaskedPrompt, 20, true).ok());
  for (int i = 0; i < 5; ++i) StepChecked();
  EXPECT_EQ(core_->stats().constraint_bytes, 3U * 5 * 100);
  RunToEnd();
  EXPECT_EQ(core_->stats().constraint_bytes, 0U);
  EXPECT_EQ(core_->stats().masks, 3U * 11);
  for (const RequestId id : {1, 2, 3}) ExpectHeld(id);
  EXPECT_EQ(tokens_[4].size(), 20U);
}

// The model's own rules of where an output ends say nothing of a complete one.
TEST_F(EngineCoreConstraintTest, ItEndsDespiteIgnoreEosAndMinTokens) {
  Start(64, {});
  core::CoreRequest request = Masked(1, Constrain(1));
  request.ignore_eos = true;
  request.spec.params.min_tokens = 50;
  ASSERT_TRUE(core_->Add(std::move(request)).ok());
  RunToEnd();
  ExpectHeld(1);
}

TEST_F(EngineCoreConstraintTest, PreemptedAndResumedItIsTheSame) {
  constexpr int32_t kLength = 40;
  std::map<RequestId, std::vector<TokenId>> alone;
  for (const RequestId id : {1, 2, 3}) alone[id] = Alone(id, kLength);
  EngineCoreOptions options;
  options.max_model_len = 5 * base::kBlockTokens;
  Start(7, options);  // Room for the prompts of all, and for the output of one.
  for (const RequestId id : {1, 2, 3}) {
    ASSERT_TRUE(core_->Add(Masked(id, Constrain(id, {.length = kLength}), 50)).ok());
  }
  RunToEnd();
  EXPECT_GT(core_->stats().preemptions, 0U);
  for (const RequestId id : {1, 2, 3}) EXPECT_EQ(tokens_[id], alone[id]) << id;
}

TEST_F(EngineCoreConstraintTest, BehindEveryTokenOfAnotherEngineTheRestIsTheSame) {
  const std::vector<TokenId> whole = Alone(1);
  for (size_t done = 1; done < whole.size(); ++done) {
    Start(16, {});
    core::CoreRequest request = Masked(1, Constrain(1));
    request.resume_ids.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(done));
    ASSERT_TRUE(core_->Add(std::move(request)).ok());
    RunToEnd();
    EXPECT_EQ(tokens_[1],
              std::vector<TokenId>(whole.begin() + static_cast<std::ptrdiff_t>(done), whole.end()));
    Forget();
  }
}

TEST_F(EngineCoreConstraintTest, IdsOfAnotherEngineThatAreNotAllowedFailTheirRequestAlone) {
  Start(64, {});
  core::CoreRequest request = Masked(1, Constrain(1));
  TokenId forbidden = 0;
  while (constraints_[1]->Allows({}, forbidden)) ++forbidden;
  request.resume_ids = {forbidden};
  ASSERT_TRUE(core_->Add(std::move(request)).ok());
  ASSERT_TRUE(core_->Add(Masked(2, Constrain(2))).ok());
  RunToEnd();
  EXPECT_EQ(ended_.at(1).status.message(), "not allowed");
  ExpectHeld(2);
}

TEST_F(EngineCoreConstraintTest, AMaskThatFailsOrIsEmptyEndsItsRequestAlone) {
  Start(64, {});
  ASSERT_TRUE(core_->Add(Masked(1, Constrain(1, {.fails_at = 3}))).ok());
  ASSERT_TRUE(core_->Add(Masked(2, Constrain(2, {.empty_at = 5}))).ok());
  ASSERT_TRUE(core_->Add(Masked(3, Constrain(3))).ok());
  RunToEnd();
  EXPECT_EQ(tokens_[1].size(), 3U);
  EXPECT_EQ(ended_.at(1).status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ended_.at(1).status.message(), "too much work");
  EXPECT_EQ(tokens_[2].size(), 5U);
  EXPECT_EQ(ended_.at(2).status.code(), StatusCode::kInternal);
  EXPECT_THAT(ended_.at(2).status.message(),
              testing::HasSubstr("that the request's format allows"));
  ExpectHeld(3);
}

TEST_F(EngineCoreConstraintTest, ACompleteOutputEndsWithoutAnEndToken) {
  Start(64, {});
  ASSERT_TRUE(core_->Add(Masked(1, Constrain(1, {.complete_without = true}))).ok());
  RunToEnd();
  EXPECT_EQ(tokens_[1].size(), 10U);
  EXPECT_EQ(ended_.at(1).reason, FinishReason::kStop);
}

// Each mask takes more than a step's masks may take together.
TEST_F(EngineCoreConstraintTest, DearMasksSitStepsOutInTurnAndChangeNothing) {
  std::map<RequestId, std::vector<TokenId>> alone;
  for (const RequestId id : {1, 2, 3}) alone[id] = Alone(id);
  Start(64, {});
  int masks = 0;
  const auto dear = [&] {
    ++masks;
    clock_.now += MaskFiller::kMostTime;
  };
  for (const RequestId id : {1, 2, 3}) {
    ASSERT_TRUE(core_->Add(Masked(id, Constrain(id, {.on_mask = dear}))).ok());
  }
  ASSERT_TRUE(Add(4, kMaskedPrompt, 12, true).ok());
  int steps = 0;
  while (!core_->idle()) {
    const int before = masks;
    std::map<RequestId, size_t> counts;
    for (const RequestId id : {1, 2, 3}) counts[id] = tokens_[id].size();
    ASSERT_NO_FATAL_FAILURE(StepChecked());
    EXPECT_LE(masks, before + 1);
    ASSERT_LT(++steps, 200);
    // In turn: none is more than two tokens ahead.
    const auto [least, most] =
        std::minmax({tokens_[1].size(), tokens_[2].size(), tokens_[3].size()});
    EXPECT_LE(most, least + 2);
  }
  EXPECT_EQ(masks, 33);
  for (const RequestId id : {1, 2, 3}) EXPECT_EQ(tokens_[id], alone[id]) << id;
  EXPECT_EQ(tokens_[4].size(), 12U);
}

// The scheduler sees what a mask takes as its sequence's sampling.
TEST_F(EngineCoreConstraintTest, TheTimeOfAMaskIsSampling) {
  Start(64, {});
  const auto slow = [&] { clock_.now += std::chrono::milliseconds(3); };
  ASSERT_TRUE(core_->Add(Masked(1, Constrain(1, {.on_mask = slow}))).ok());
  ASSERT_TRUE(Add(2, kMaskedPrompt, 5, true).ok());
  StepChecked();
  EXPECT_EQ(core_->stats().last_sampling, std::chrono::milliseconds(3));
  for (const CoreEvent& event : log_) {
    if (event.kind == Kind::kToken) {
      EXPECT_EQ(event.sampled.took,
                event.id == 1 ? std::chrono::milliseconds(3) : base::Duration{});
    }
  }
}

}  // namespace
}  // namespace ropeway::engine
