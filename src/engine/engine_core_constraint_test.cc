// Sequences whose tokens are held by a constraint (CoreRequest::constraint), in the engine core.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/mask_filler.h"
#include "engine/test_constraint.h"
#include "engine/test_engine_core.h"

namespace ropeway::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

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

  // What moves the clock on.
  std::function<void()> Takes(base::Duration time) {
    return [this, time] { clock_.now += time; };
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

// Masks that each take a step's time are filled in turn, one in a step; none of them is in the way
// of a cheap one, not even of a newcomer's.
TEST_F(EngineCoreConstraintTest, DearMasksPutNoCheapOneOff) {
  constexpr RequestId kDear = 16;
  constexpr RequestId kCheap = 20;
  Start(128, {});
  for (RequestId id = 1; id <= kDear; ++id) {
    const auto constraint = Constrain(id, {.length = 40, .on_mask = Takes(milliseconds(73))});
    ASSERT_TRUE(core_->Add(Masked(id, constraint)).ok());
  }
  for (RequestId i = 0; i < 2 * kDear; ++i) ASSERT_NO_FATAL_FAILURE(StepChecked());
  const auto cheap = Constrain(kCheap, {.length = 40, .on_mask = Takes(microseconds(2))});
  ASSERT_TRUE(core_->Add(Masked(kCheap, cheap)).ok());
  const auto generated = [this] {
    size_t all = 0;
    for (RequestId id = 1; id <= kDear; ++id) all += tokens_[id].size();
    return all;
  };
  const size_t before = generated();
  for (size_t i = 1; i <= 41; ++i) {
    ASSERT_NO_FATAL_FAILURE(StepChecked());
    ASSERT_EQ(tokens_[kCheap].size(), i);
    ASSERT_EQ(generated(), before + i);
  }
  ExpectHeld(kCheap, 40);
}

// Of a string's last masks some are dear, and some cheap. So is another's in each step.
TEST_F(EngineCoreConstraintTest, MasksThatAreDearNowAndThenPutNoCheapOneOff) {
  constexpr RequestId kDear = 16;
  constexpr RequestId kCheap = 20;
  Start(128, {});
  for (RequestId id = 1; id <= kDear; ++id) {
    const auto masks = std::make_shared<RequestId>(id);
    const auto changing = [this, masks] {
      clock_.now += ++*masks % 3 == 0 ? base::Duration(milliseconds(73)) : microseconds(2);
    };
    ASSERT_TRUE(core_->Add(Masked(id, Constrain(id, {.length = 90, .on_mask = changing}))).ok());
  }
  const auto cheap = Constrain(kCheap, {.length = 90, .on_mask = Takes(microseconds(2))});
  ASSERT_TRUE(core_->Add(Masked(kCheap, cheap)).ok());
  for (RequestId i = 0; i < 4 * kDear; ++i) ASSERT_NO_FATAL_FAILURE(StepChecked());
  for (size_t before = tokens_[kCheap].size(); before < 90; ++before) {
    ASSERT_NO_FATAL_FAILURE(StepChecked());
    ASSERT_EQ(tokens_[kCheap].size(), before + 1);
  }
}

// Whatever masks take: at most `max_num_seqs` steps until it is due, and as many for the others.
TEST_F(EngineCoreConstraintTest, EachMaskIsFilledWithinTwiceAsManyStepsAsSequencesMayRun) {
  constexpr RequestId kSequences = 8;
  // In microseconds, by sequence and mask. Cheap ones that fill each step for themselves; as if
  // drawn, from nothing to dear; and dear ones alone.
  const std::vector<std::function<uint64_t(RequestId, uint64_t)>> costs = {
      [](RequestId id, uint64_t) { return id == 1 ? 73'000 : 1000; },
      [](RequestId id, uint64_t mask) {
        const uint64_t drawn = base::Mix64(id, mask);
        return uint64_t{1} << drawn % 17;
      },
      [](RequestId, uint64_t) { return 73'000; },
  };
  for (size_t kind = 0; kind < costs.size(); ++kind) {
    EngineCoreOptions options;
    options.scheduler.max_num_seqs = static_cast<int>(kSequences);
    Start(128, options);
    for (RequestId id = 1; id <= kSequences; ++id) {
      const auto of = [this, id, cost = costs[kind], mask = std::make_shared<uint64_t>(0)] {
        clock_.now += microseconds(cost(id, ++*mask));
      };
      ASSERT_TRUE(core_->Add(Masked(id, Constrain(id, {.length = 90, .on_mask = of}))).ok());
    }
    std::map<RequestId, std::pair<size_t, RequestId>> waits;  // Since when it has so many tokens.
    RequestId longest = 0;
    for (RequestId step = 1; !core_->idle(); ++step) {
      ASSERT_NO_FATAL_FAILURE(StepChecked());
      for (RequestId id = 1; id <= kSequences; ++id) {
        auto& [tokens, since] = waits[id];
        longest = std::max(longest, step - since);
        if (tokens == tokens_[id].size() && !ended_.contains(id)) continue;
        tokens = tokens_[id].size();
        since = step;
      }
    }
    EXPECT_LE(longest, 2 * kSequences) << kind;
    EXPECT_GE(longest, kSequences / 2) << kind << ": no mask had to wait";
    for (RequestId id = 1; id <= kSequences; ++id) ExpectHeld(id, 90);
    Forget();
  }
}

// Ids that were generated before are accepted as far as the time of each step goes.
TEST_F(EngineCoreConstraintTest, AcceptedAgainIdsTakeNoMoreOfAStepThanMasks) {
  constexpr int32_t kLength = 60;
  const std::vector<TokenId> whole = Alone(1, kLength);
  const std::vector<TokenId> others = Alone(2, kLength);
  Start(64, {});
  ASSERT_TRUE(core_->Add(Masked(2, Constrain(2, {.length = kLength}))).ok());
  StepChecked();
  core::CoreRequest request =
      Masked(1, Constrain(1, {.length = kLength, .on_accept = Takes(milliseconds(1))}));
  request.resume_ids.assign(whole.begin(), whole.begin() + 43);
  ASSERT_TRUE(core_->Add(std::move(request)).ok());
  // 5 in each step; with the last 3 comes the mask, and the sampled one.
  for (int step = 1; step <= 9; ++step) {
    const base::TimePoint begin = clock_.now;
    const uint64_t deferred = core_->stats().deferred_masks;
    ASSERT_NO_FATAL_FAILURE(StepChecked());
    EXPECT_EQ(clock_.now - begin, step < 9 ? MaskFiller::kMostTime : milliseconds(4)) << step;
    EXPECT_EQ(core_->stats().last_sampling, clock_.now - begin) << step;
    EXPECT_EQ(core_->stats().deferred_masks - deferred, step < 9 ? 1U : 0U) << step;
    EXPECT_EQ(tokens_[1].size(), step < 9 ? 0U : 1U) << step;
    EXPECT_EQ(tokens_[2].size(), static_cast<size_t>(step) + 1);  // It is not put off.
  }
  EXPECT_EQ(core_->stats().mask_time, milliseconds(44));
  RunToEnd();
  EXPECT_EQ(tokens_[1], std::vector<TokenId>(whole.begin() + 43, whole.end()));
  EXPECT_EQ(tokens_[2], others);
}

// The scheduler sees what a mask takes, and accepting the token, as its sequence's sampling.
TEST_F(EngineCoreConstraintTest, TheTimeOfAMaskAndOfItsTokenIsSampling) {
  Start(64, {});
  ASSERT_TRUE(core_
                  ->Add(Masked(1, Constrain(1, {.on_mask = Takes(milliseconds(3)),
                                                .on_accept = Takes(milliseconds(2))})))
                  .ok());
  ASSERT_TRUE(Add(2, kMaskedPrompt, 5, true).ok());
  StepChecked();
  EXPECT_EQ(core_->stats().last_sampling, milliseconds(5));
  EXPECT_EQ(core_->stats().last_forward, milliseconds(5));  // It is a part of this.
  EXPECT_EQ(core_->stats().mask_time, milliseconds(5));
  for (const CoreEvent& event : log_) {
    if (event.kind == Kind::kToken) {
      EXPECT_EQ(event.sampled.took, event.id == 1 ? milliseconds(5) : base::Duration{});
    }
  }
}

// What a device computes meanwhile is no sampling: without the masks the step would be as long.
TEST_F(EngineCoreConstraintTest, WhatComputingHidesOfMasksIsNoSampling) {
  Start(64, {});
  ASSERT_TRUE(core_->Add(Masked(1, Constrain(1, {.on_mask = Takes(milliseconds(3))}))).ok());
  base::Duration hidden{};
  executor_.after_step = [&](const core::Batch&, core::StepResult* result) {
    result->beside = hidden;
  };
  for (const int ms : {0, 1, 2, 3, 50}) {
    hidden = milliseconds(ms);
    ASSERT_NO_FATAL_FAILURE(StepChecked());
    EXPECT_EQ(core_->stats().last_sampling, milliseconds(std::max(0, 3 - ms))) << ms;
    EXPECT_EQ(core_->stats().last_forward, milliseconds(3)) << ms;
  }
}

}  // namespace
}  // namespace ropeway::engine
