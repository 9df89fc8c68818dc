// An engine as a backend of a gateway.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"
#include "ropeway/engine.h"

namespace ropeway::engine {
namespace {

using testing::ElementsAre;

class EngineBackendTest : public testing::Test {
 protected:
  void Start() {
    test_.options.model.any_name = true;
    test_.Start();
    backend_ = test_.engine.get();
  }

  static Request EchoRequest(int32_t max_tokens) {
    Request request = TextRequest("abc");
    request.model = "whatever the gateway calls it";
    request.max_tokens = max_tokens;
    request.sampling.seed = 3;
    return request;
  }

  TestEngine test_;
  Backend* backend_ = nullptr;
};

TEST_F(EngineBackendTest, AnswersWhateverTheModelIsCalled) {
  Start();
  const auto sink = NewSink();
  ASSERT_TRUE(backend_->Submit(EchoRequest(5), sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, "abcab");
  ASSERT_TRUE(seen.finish.has_value());
  EXPECT_EQ(seen.finish->reason, FinishReason::kLength);
  EXPECT_EQ(seen.finish->usage.prompt_tokens, 3);
  EXPECT_EQ(seen.finish->usage.completion_tokens, 5);
  EXPECT_EQ(seen.finish->seed, 3U);
}

TEST_F(EngineBackendTest, SaysToWhatMaxTokensWasLowered) {
  test_.options.model.max_model_len = 8;
  Start();
  const auto sink = NewSink();
  ASSERT_TRUE(backend_->Submit(EchoRequest(500), sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  ASSERT_TRUE(seen.finish.has_value());
  EXPECT_EQ(seen.finish->max_tokens, 5);
  EXPECT_EQ(seen.finish->usage.completion_tokens, 5);
}

TEST_F(EngineBackendTest, GoesOnBehindWhatAnotherHadGenerated) {
  Start();
  Request request = EchoRequest(5);
  request.resume_ids = {'a', 'b', 'c'};
  const auto sink = NewSink();
  ASSERT_TRUE(backend_->Submit(request, sink).ok());
  const TestSink::Seen seen = sink->WaitEnd();
  EXPECT_EQ(seen.text, "ab");
  ASSERT_TRUE(seen.finish.has_value());
  EXPECT_EQ(seen.finish->usage.completion_tokens, 5);
}

TEST_F(EngineBackendTest, ProbesSayWhatWaitsInTheEngine) {
  test_.options.scheduler.max_num_seqs = 1;
  test_.control->step_micros = 1000;
  Start();
  const auto runs = NewSink();
  ASSERT_TRUE(backend_->Submit(EchoRequest(2000), runs).ok());
  ASSERT_TRUE(runs->WaitDeltas(2));
  const auto waits = NewSink();
  ASSERT_TRUE(backend_->Submit(EchoRequest(5), waits).ok());
  backend_->Probe([](const StatusOr<BackendFacts>&) {});
  EXPECT_TRUE(Eventually([&] { return waits->Get().alive == 1; }));
  EXPECT_EQ(runs->Get().alive, 0) << "its output says so";
}

TEST_F(EngineBackendTest, FailuresSayWhoseFaultItIs) {
  Start();
  Request bad = EchoRequest(5);
  bad.sampling.temperature = 9.0F;
  const Outcome rejected = Outcome::Failed(backend_->Submit(bad, NewSink()).status());
  EXPECT_EQ(rejected.kind, FailureKind::kRejected);
  EXPECT_EQ(rejected.status.field(), "temperature");

  const auto sink = NewSink();
  Request too_long = EchoRequest(5);
  too_long.prompt = std::vector<TokenId>(1'000'000, 1);
  ASSERT_TRUE(backend_->Submit(too_long, sink).ok());
  EXPECT_EQ(sink->WaitEnd().failure, FailureKind::kRejected);

  ASSERT_TRUE(test_.engine->Drain(std::chrono::seconds(60)).ok());
  EXPECT_EQ(Outcome::Failed(backend_->Submit(EchoRequest(5), NewSink()).status()).kind,
            FailureKind::kBroken);
}

TEST_F(EngineBackendTest, ProbesTellItsPlaces) {
  test_.options.scheduler.max_num_seqs = 7;
  Start();
  std::optional<BackendFacts> facts;
  backend_->Probe([&](StatusOr<BackendFacts> told) { facts = *std::move(told); });
  ASSERT_TRUE(facts.has_value());
  EXPECT_TRUE(facts->ready);
  EXPECT_EQ(facts->places, 7);
  EXPECT_TRUE(facts->preempts);
  EXPECT_EQ(facts->running, 0);
  EXPECT_EQ(facts->waiting, 0);
  EXPECT_THAT(facts->models, ElementsAre("echo"));
  EXPECT_FALSE(backend_->CanResume());  // The fakes have no model, and so no digest.
}

TEST(OpenEngineBackendTest, AMissingModelIsOneSentence) {
  EngineOptions options;
  options.model.path = "no/such/model.gguf";
  const auto opened = OpenLocalBackend(options);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().message().rfind("no/such/model.gguf: ", 0), 0U);
}

}  // namespace
}  // namespace ropeway::engine
