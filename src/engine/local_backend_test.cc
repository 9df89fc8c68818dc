#include "engine/local_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "engine/test_fakes.h"
#include "ropeway/gateway.h"

namespace ropeway::engine {
namespace {

using testing::ElementsAre;

// Keeps what the backend answers.
class RemoteRecord final : public RemoteSink {
 public:
  void OnDelta(Delta delta) override {
    const std::lock_guard lock(mu_);
    text_ += delta.text;
    ++deltas_;
    changed_.notify_all();
  }
  void OnAlive() override {
    const std::lock_guard lock(mu_);
    ++alive_;
  }
  void OnEnd(const BackendEnd& end) override {
    const std::lock_guard lock(mu_);
    end_ = end;
    changed_.notify_all();
  }
  void OnFailure(BackendFailure failure) override {
    const std::lock_guard lock(mu_);
    failure_ = std::move(failure);
    changed_.notify_all();
  }

  bool WaitEnd() const {
    return Wait([this] { return end_.has_value() || failure_.has_value(); });
  }
  bool WaitDeltas(int count) const {
    return Wait([this, count] { return deltas_ >= count; });
  }
  std::string text() const {
    const std::lock_guard lock(mu_);
    return text_;
  }
  int alive() const {
    const std::lock_guard lock(mu_);
    return alive_;
  }
  std::optional<BackendEnd> end() const {
    const std::lock_guard lock(mu_);
    return end_;
  }
  std::optional<BackendFailure> failure() const {
    const std::lock_guard lock(mu_);
    return failure_;
  }

 private:
  bool Wait(const std::function<bool()>& holds) const {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(60), holds);
  }

  mutable std::mutex mu_;
  mutable std::condition_variable changed_;
  std::string text_;
  int deltas_ = 0;
  int alive_ = 0;
  std::optional<BackendEnd> end_;
  std::optional<BackendFailure> failure_;
};

class LocalBackendTest : public testing::Test {
 protected:
  void Start() {
    test_.Start();
    // The test owns the engine.
    backend_ = std::make_unique<LocalBackend>(
        std::shared_ptr<Backend>(std::shared_ptr<Backend>(), test_.engine.get()));
  }

  static Request EchoRequest(int32_t max_tokens) {
    Request request = TextRequest("abc");
    request.model = "whatever the gateway calls it";
    request.max_tokens = max_tokens;
    request.sampling.seed = 3;
    return request;
  }

  TestEngine test_;
  std::unique_ptr<LocalBackend> backend_;
};

TEST_F(LocalBackendTest, AnswersFromTheEngine) {
  Start();
  const auto sink = std::make_shared<RemoteRecord>();
  const auto call = backend_->Start(EchoRequest(5), nullptr, sink);
  ASSERT_TRUE(sink->WaitEnd());
  EXPECT_EQ(sink->text(), "abcab");
  ASSERT_TRUE(sink->end().has_value());
  EXPECT_EQ(sink->end()->reason, FinishReason::kLength);
  EXPECT_EQ(sink->end()->prompt_tokens, 3);
  EXPECT_EQ(sink->end()->completion_tokens, 5);
  EXPECT_EQ(sink->end()->seed, 3U);
}

TEST_F(LocalBackendTest, SaysToWhatMaxTokensWasLowered) {
  test_.options.model.max_model_len = 8;
  Start();
  const auto sink = std::make_shared<RemoteRecord>();
  const auto call = backend_->Start(EchoRequest(500), nullptr, sink);
  ASSERT_TRUE(sink->WaitEnd());
  ASSERT_TRUE(sink->end().has_value());
  EXPECT_EQ(sink->end()->max_tokens, 5);
  EXPECT_EQ(sink->end()->completion_tokens, 5);
}

TEST_F(LocalBackendTest, GoesOnBehindWhatAnotherHadGenerated) {
  Start();
  const ResumePoint resume{.ids = {'a', 'b', 'c'}, .seed = 3};
  const auto sink = std::make_shared<RemoteRecord>();
  const auto call = backend_->Start(EchoRequest(5), &resume, sink);
  ASSERT_TRUE(sink->WaitEnd());
  EXPECT_EQ(sink->text(), "ab");
  ASSERT_TRUE(sink->end().has_value());
  EXPECT_EQ(sink->end()->completion_tokens, 5);
}

TEST_F(LocalBackendTest, ACallThatIsDestroyedCancelsItsRequest) {
  test_.control->step_micros = 1000;
  Start();
  const auto sink = std::make_shared<RemoteRecord>();
  auto call = backend_->Start(EchoRequest(500), nullptr, sink);
  ASSERT_TRUE(sink->WaitDeltas(2));
  call.reset();
  EXPECT_TRUE(Eventually([&] { return test_.engine->Requests().empty(); }));
  EXPECT_FALSE(sink->end().has_value());
  EXPECT_FALSE(sink->failure().has_value());
}

TEST_F(LocalBackendTest, ProbesSayWhatWaitsInTheEngine) {
  test_.options.scheduler.max_num_seqs = 1;
  test_.control->step_micros = 1000;
  Start();
  const auto runs = std::make_shared<RemoteRecord>();
  const auto first = backend_->Start(EchoRequest(2000), nullptr, runs);
  ASSERT_TRUE(runs->WaitDeltas(2));
  const auto waits = std::make_shared<RemoteRecord>();
  const auto second = backend_->Start(EchoRequest(5), nullptr, waits);
  backend_->Probe([](const StatusOr<BackendFacts>&) {});
  EXPECT_EQ(waits->alive(), 1);
  EXPECT_EQ(runs->alive(), 0) << "its output says so";
}

TEST_F(LocalBackendTest, FailuresSayWhoseFaultItIs) {
  Start();
  Request bad = EchoRequest(5);
  bad.sampling.temperature = 9.0F;
  auto sink = std::make_shared<RemoteRecord>();
  EXPECT_EQ(backend_->Start(bad, nullptr, sink), nullptr);
  ASSERT_TRUE(sink->failure().has_value());
  EXPECT_EQ(sink->failure()->kind, BackendFailure::Kind::kRejected);
  EXPECT_EQ(sink->failure()->status.field(), "temperature");

  sink = std::make_shared<RemoteRecord>();
  Request too_long_request = EchoRequest(5);
  too_long_request.prompt = std::vector<TokenId>(1'000'000, 1);
  const auto too_long = backend_->Start(too_long_request, nullptr, sink);
  ASSERT_TRUE(sink->WaitEnd());
  ASSERT_TRUE(sink->failure().has_value());
  EXPECT_EQ(sink->failure()->kind, BackendFailure::Kind::kRejected);

  ASSERT_TRUE(test_.engine->Drain(std::chrono::seconds(60)).ok());
  sink = std::make_shared<RemoteRecord>();
  EXPECT_EQ(backend_->Start(EchoRequest(5), nullptr, sink), nullptr);
  ASSERT_TRUE(sink->failure().has_value());
  EXPECT_EQ(sink->failure()->kind, BackendFailure::Kind::kBroken);
}

TEST_F(LocalBackendTest, ProbesTellItsPlaces) {
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

TEST(OpenLocalBackendTest, AMissingModelIsOneSentence) {
  EngineOptions options;
  options.model.path = "no/such/model.gguf";
  const auto opened = OpenLocalBackend(options);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().message().rfind("no/such/model.gguf: ", 0), 0U);
}

}  // namespace
}  // namespace ropeway::engine
