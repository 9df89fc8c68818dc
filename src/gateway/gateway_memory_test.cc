// The gateway where memory is short: each request has its end, and nothing stays behind.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/failure.h"
#include "base/log.h"
#include "engine/test_failing_new.h"
#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

// The prompt of a request whose answer does not end.
constexpr char kStays[] = "stays";
constexpr int64_t kAllThatFollow = 1'000'000'000;

// Answers inside of Start: all is done on the gateway's thread, and its allocations alone fail.
class InsideBackend final : public Backend {
 public:
  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override {
    const std::shared_ptr<Sink> sink = std::move(requests[0].sink);
    const RequestId id = ++last_id_;
    std::vector<RequestId> ids = {id};
    const bool stays = std::get<std::string>(requests[0].request.prompt) == kStays;
    if (stays) sinks_.emplace(id, sink);
    open_ = static_cast<int>(sinks_.size());
    Delta delta;
    delta.text = "t";
    sink->OnDelta(id, std::move(delta));
    if (!stays) sink->OnEnd(id, {});
    return ids;
  }
  Status Cancel(RequestId id) override {
    auto node = sinks_.extract(id);
    if (node.empty()) return NotUnderWay(id);
    open_ = static_cast<int>(sinks_.size());
    node.mapped()->OnEnd(id, Outcome::Failed(base::RequestCancelled()));
    return {};
  }
  void Probe(ProbeFn done) override { done(BackendFacts()); }

  int open() const { return open_; }

 private:
  // The gateway's thread's.
  std::map<RequestId, std::shared_ptr<Sink>> sinks_;
  RequestId last_id_ = 0;
  std::atomic<int> open_{0};
};

// Takes no memory.
class EndsSink final : public Sink {
 public:
  void OnAdmitted(RequestId, const Admission&) override {}
  bool OnDelta(RequestId, Delta) override { return true; }
  void OnEnd(RequestId, const Outcome&) override { ++ends; }

  std::atomic<int> ends{0};
};

class GatewayMemoryTest : public testing::Test {
 protected:
  GatewayMemoryTest() : level_(base::Log().level()) {
    base::Log().set_level(spdlog::level::off);  // It would tell of each failure.
    GatewayConfig config;
    GatewayModel& model = config.models.emplace_back();
    model.name = "m";
    model.backends.push_back(
        {.name = "a", .backend = backend_, .weight = 1.0, .max_concurrency = 8});
    config.dispatch.rules.health.probe_interval = std::chrono::hours(1);
    // Probes that could not be asked say nothing about it here.
    config.dispatch.rules.health.probe_failures = 1'000'000;
    config.clock = &clock_;
    config.random = &random_;
    auto made = GatewayBackend::Create(std::move(config));
    EXPECT_TRUE(made.ok()) << made.status().message();
    gateway_ = *std::move(made);
    gateway_->WaitProbed(std::chrono::seconds(60));
  }
  ~GatewayMemoryTest() override { base::Log().set_level(level_); }

  // Submits requests, two of them without an end of their own. Returns their ids, in order.
  std::vector<RequestId> SubmitSome() {
    sinks_.clear();
    std::vector<RequestId> ids;
    for (int i = 0; i < 6; ++i) {
      sinks_.push_back(std::make_shared<EndsSink>());
      auto id = gateway_->Submit(ScriptedRequest(i < 2 ? kStays : "ends"), sinks_.back());
      EXPECT_TRUE(id.ok()) << id.status().message();
      ids.push_back(id.ok() ? *id : 0);
    }
    return ids;
  }
  bool EachHasItsEnd() const {
    return Eventually([&] {
      for (const auto& sink : sinks_) {
        if (sink->ends == 0) return false;
      }
      return true;
    });
  }

  const spdlog::level::level_enum level_;
  const std::shared_ptr<InsideBackend> backend_ = std::make_shared<InsideBackend>();
  std::vector<std::shared_ptr<EndsSink>> sinks_;
  base::RealClock clock_;
  base::SeededRandom random_{7};
  std::unique_ptr<GatewayBackend> gateway_;  // Last.
};

TEST_F(GatewayMemoryTest, EachRequestEndsOnceWhicheverAllocationsFail) {
  const engine::NeverFailingNew calm;  // This thread.
  constexpr int kRounds = 120;
  int rounds_that_failed = 0;
  for (int n = 1; n <= kRounds; ++n) {
    for (const int64_t count : {1, 20}) {
      const engine::FailingNew failing(n, count);
      const std::vector<RequestId> ids = SubmitSome();
      static_cast<void>(gateway_->Cancel(ids[0]));
      static_cast<void>(gateway_->Cancel(ids[1]));
      ASSERT_TRUE(EachHasItsEnd()) << n;
      rounds_that_failed += failing.fired() ? 1 : 0;
    }
    for (const auto& sink : sinks_) EXPECT_EQ(sink->ends, 1) << n;
  }
  EXPECT_GT(rounds_that_failed, 10);
  EXPECT_TRUE(gateway_->Drain(std::chrono::seconds(60)).ok());
  EXPECT_TRUE(Eventually([&] { return backend_->open() == 0; }));
}

TEST_F(GatewayMemoryTest, ItsEndTakesNoMemory) {
  const engine::NeverFailingNew calm;
  SubmitSome();
  ASSERT_TRUE(Eventually([&] { return backend_->open() >= 2; }));
  {
    const engine::FailingNew failing(1, kAllThatFollow);
    gateway_.reset();
  }
  for (const auto& sink : sinks_) EXPECT_EQ(sink->ends, 1);
  EXPECT_EQ(backend_->open(), 0);
}

}  // namespace
}  // namespace ropeway::gateway
