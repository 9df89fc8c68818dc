// HttpBackend, and what a gateway makes of its ends, where memory is short.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/log.h"
#include "engine/test_failing_new.h"
#include "gateway/test_http_backend.h"
#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

class CountingEnds final : public Sink {
 public:
  bool OnDelta(RequestId, Delta) override { return true; }
  void OnEnd(RequestId, const Outcome&) override { ++ends; }
  int ends = 0;
};

class HttpBackendMemoryTest : public testing::Test {
 protected:
  HttpBackendMemoryTest() : level_(base::Log().level()) {
    base::Log().set_level(spdlog::level::off);
  }
  ~HttpBackendMemoryTest() override { base::Log().set_level(level_); }

  // Before a port where nothing listens.
  std::unique_ptr<HttpBackend> Open() {
    auto opened = HttpBackend::Open(HttpBackendRunner::OptionsFor("http://127.0.0.1:1"), &io_);
    EXPECT_TRUE(opened.ok());
    return *std::move(opened);
  }

  const spdlog::level::level_enum level_;
  boost::asio::io_context io_{1};
};

TEST_F(HttpBackendMemoryTest, ARequestThatIsNotTakenLetsItsSinkGo) {
  int failed = 0;
  // Earlier ones fail in nlohmann's code that may not throw.
  for (int n = 36; n < 60; ++n) {
    const auto backend = Open();
    const auto sink = std::make_shared<CountingEnds>();
    Request request = api::wire::CompletionRequest("a prompt that is long enough for the heap");
    bool taken = false;
    {
      const engine::FailingNew failing(n);
      taken = backend->Submit(std::move(request), sink).ok();
    }
    io_.restart();
    io_.run();
    failed += taken ? 0 : 1;
    EXPECT_EQ(sink.use_count(), 1) << n;
    EXPECT_EQ(sink->ends, taken ? 1 : 0) << n;
  }
  EXPECT_GT(failed, 0);
}

TEST_F(HttpBackendMemoryTest, EachEndsOnceWhicheverAllocationOfThePoolsThreadFails) {
  int fired = 0;
  for (int n = 1; n < 20; ++n) {
    const auto backend = Open();
    const auto sink = std::make_shared<CountingEnds>();
    ASSERT_TRUE(backend->Submit(api::wire::CompletionRequest(), sink).ok());
    io_.restart();
    {
      const engine::FailingNew failing(n);
      io_.run();
      fired += failing.fired() ? 1 : 0;
    }
    EXPECT_EQ(sink->ends, 1) << n;
    EXPECT_EQ(sink.use_count(), 1) << n;
  }
  EXPECT_GT(fired, 5);
}

// Keeps its request; the end of a cancelled one meets short memory.
class ShortBackend final : public Backend {
 public:
  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override {
    const std::lock_guard lock(mu_);
    sink_ = std::move(requests[0].sink);
    return std::vector<RequestId>{1};
  }
  Status Cancel(RequestId id) override {
    std::shared_ptr<Sink> sink;
    {
      const std::lock_guard lock(mu_);
      sink.swap(sink_);
    }
    if (sink == nullptr) return NotUnderWay(id);
    const Outcome end = Outcome::Failed(base::RequestCancelled());
    const engine::FailingNew failing(1, 2);
    sink->OnEnd(id, end);
    return {};
  }
  void Probe(ProbeFn done) override { done(BackendFacts()); }

 private:
  std::mutex mu_;
  std::shared_ptr<Sink> sink_;
};

// Says nothing of its answer but its text.
class TerseBackend final : public Backend {
 public:
  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override {
    Delta delta;
    delta.text = "hello";
    requests[0].sink->OnDelta(1, std::move(delta));
    requests[0].sink->OnEnd(1, Outcome{});
    return std::vector<RequestId>{1};
  }
  Status Cancel(RequestId id) override { return NotUnderWay(id); }
  void Probe(ProbeFn done) override { done(BackendFacts()); }
};

// A gateway before `first`, which it prefers, and `second` where there is one.
struct GatewayOfTwo {
  GatewayOfTwo(std::shared_ptr<Backend> first, std::shared_ptr<Backend> second) {
    GatewayConfig config;
    GatewayModel& model = config.models.emplace_back();
    model.name = "m";
    const auto add = [&model](const char* name, std::shared_ptr<Backend> backend, double weight) {
      model.backends.push_back(
          {.name = name, .backend = std::move(backend), .weight = weight, .max_concurrency = 8});
    };
    add("a", std::move(first), 100.0);
    if (second != nullptr) add("b", std::move(second), 0.01);
    config.dispatch.failover.first_byte_timeout = std::chrono::milliseconds(300);
    config.clock = &clock;
    config.random = &random;
    gateway = *GatewayBackend::Create(std::move(config));
    gateway->WaitProbed(std::chrono::seconds(60));
  }
  RecordingSink::Record Ask(Request request) {
    const auto sink = std::make_shared<RecordingSink>();
    EXPECT_TRUE(gateway->Submit(std::move(request), sink).ok());
    return sink->WaitEnd();
  }
  base::RealClock clock;
  base::SeededRandom random{7};
  std::unique_ptr<GatewayBackend> gateway;  // Last.
};

TEST_F(HttpBackendMemoryTest, AnAttemptThatIsOverEndsNoRequest) {
  GatewayOfTwo two(std::make_shared<ShortBackend>(), std::make_shared<ScriptedBackend>());
  const RecordingSink::Record record = two.Ask(ScriptedRequest());
  EXPECT_TRUE(record.status.ok()) << record.status.message();
  EXPECT_FALSE(record.text.empty());
}

TEST(GatewayBackendTest, WhatABackendDoesNotSayIsEstimated) {
  GatewayOfTwo one(std::make_shared<TerseBackend>(), nullptr);
  const RecordingSink::Record record = one.Ask(ScriptedRequest("Once upon a time", 11));
  ASSERT_TRUE(record.finish.has_value());
  EXPECT_EQ(record.finish->seed, 11U);
  EXPECT_GT(record.finish->usage.prompt_tokens, 0);
  EXPECT_TRUE(record.finish->usage.estimated);
}

}  // namespace
}  // namespace ropeway::gateway
