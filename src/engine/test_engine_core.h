// The engine core over a TestExecutor, for its tests.
#ifndef ROPEWAY_ENGINE_TEST_ENGINE_CORE_H_
#define ROPEWAY_ENGINE_TEST_ENGINE_CORE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "engine/test_executor.h"
#include "policy/policies.h"

namespace ropeway::engine {

class FixedClock final : public base::Clock {
 public:
  base::TimePoint Now() const override { return now; }
  base::TimePoint now{1};
};

// Collects the core's events by request, and checks the core after each step.
class EngineCoreTest : public testing::Test {
 protected:
  using Kind = CoreEvent::Kind;

  void Start(int32_t blocks, EngineCoreOptions options, executor::Executor* executor = nullptr) {
    if (executor == nullptr) executor = &executor_;
    executor::KvLayout layout =
        *executor->Init(TestExecutor::PoolBytes(blocks), options.scheduler.max_num_batched_tokens,
                        options.scheduler.max_num_seqs);
    if (options.max_model_len == 0) options.max_model_len = blocks * base::kBlockTokens;
    options.check_integrity = true;
    policy::SchedulingPolicy* its_policy = other_policy_ ? other_policy_.get() : &policy_;
    core_ = std::make_unique<EngineCore>(options, layout, executor, its_policy, &clock_,
                                         [this](std::vector<CoreEvent> events) {
                                           for (CoreEvent& event : events) Receive(event);
                                         });
  }

  void Receive(const CoreEvent& event) {
    log_.push_back(event);
    EXPECT_FALSE(ended_.contains(event.id)) << "an event after the end of " << event.id;
    if (event.kind == Kind::kToken) tokens_[event.id].push_back(event.sampled.token);
    for (const core::Scored& scored : event.scored) scored_[event.id].push_back(scored);
    if (event.kind == Kind::kFinished || event.kind == Kind::kFailed) ended_[event.id] = event;
  }

  static core::CoreRequest MakeRequest(RequestId id, int32_t prompt_len, int32_t max_tokens) {
    core::CoreRequest request;
    request.id = id;
    for (int32_t i = 0; i < prompt_len; ++i) {
      request.prompt.push_back(static_cast<TokenId>(id * 100) + i);
    }
    request.max_tokens = max_tokens;
    request.spec.seed = id;
    return request;
  }

  Status Add(RequestId id, int32_t prompt_len, int32_t max_tokens, bool ignore_eos = false) {
    core::CoreRequest request = MakeRequest(id, prompt_len, max_tokens);
    request.ignore_eos = ignore_eos;
    return core_->Add(std::move(request));
  }

  // Each id of the prompt once, in order, with the log-prob that it must have.
  void ExpectScored(const core::CoreRequest& request) {
    const std::vector<core::Scored>& scored = scored_[request.id];
    ASSERT_EQ(scored.size(), request.prompt.size());
    EXPECT_TRUE(std::isnan(scored[0].logprob));
    for (size_t i = 0; i < scored.size(); ++i) {
      EXPECT_EQ(scored[i].position, static_cast<int32_t>(i));
      EXPECT_EQ(scored[i].token, request.prompt[i]);
      if (i == 0) continue;
      EXPECT_EQ(scored[i].logprob,
                TestExecutor::ScoreOf({request.prompt.data(), i}, request.prompt[i]));
    }
  }

  void StepChecked() {
    ASSERT_TRUE(core_->Step());
    ASSERT_GT(core_->stats().last_rows, 0);
    Status status = core_->CheckIntegrity();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(executor_.violation(), "");
  }

  void RunToEnd() {
    int steps = 0;
    while (!core_->idle()) {
      ASSERT_LT(++steps, 10000) << "no end in sight";
      StepChecked();
    }
    EXPECT_FALSE(core_->Step());
    EXPECT_EQ(core_->stats().held_blocks, 0);
  }

  std::vector<Kind> KindsOf(RequestId id) const {
    std::vector<Kind> kinds;
    for (const CoreEvent& event : log_) {
      if (event.id == id) kinds.push_back(event.kind);
    }
    return kinds;
  }

  int64_t CountOf(RequestId id, Kind kind) const {
    return std::count_if(log_.begin(), log_.end(), [=](const CoreEvent& event) {
      return event.id == id && event.kind == kind;
    });
  }

  TestExecutor executor_;
  policy::FcfsPolicy policy_;
  std::unique_ptr<policy::SchedulingPolicy> other_policy_;  // If set, for the next Start.
  FixedClock clock_;
  std::unique_ptr<EngineCore> core_;
  std::vector<CoreEvent> log_;
  std::map<RequestId, std::vector<TokenId>> tokens_;
  std::map<RequestId, std::vector<core::Scored>> scored_;
  std::map<RequestId, CoreEvent> ended_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_TEST_ENGINE_CORE_H_
