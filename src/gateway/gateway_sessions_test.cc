// Sessions that a gateway keeps: what its backends get of them, and what becomes of turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/test_gateway_sessions.h"
#include "gateway/test_scripted_backend.h"
#include "store/session.h"
#include "store/session_store.h"
#include "store/test_faulty_state_db.h"

namespace ropeway::gateway {
namespace {

using testing::HasSubstr;
using Record = RecordingSink::Record;

TEST_F(GatewaySessionTest, TextTurnsGoOnFromAllThatWasSaidAlsoAfterARestart) {
  Start();
  const Record first = Run(Turn("s", "Once"));
  ASSERT_TRUE(first.finish.has_value()) << first.status.message();
  EXPECT_EQ(first.finish->session_tokens, 0);
  EXPECT_EQ(first.text, ExpectedText(ScriptedRequest("Once"), 5));
  const std::string second_prompt = "Once" + first.text + "upon";
  const Record second = Run(Turn("s", "upon"));
  EXPECT_EQ(second.text, ExpectedText(ScriptedRequest(second_prompt), 5));
  EXPECT_EQ(second.finish->session_tokens, 12) << "7 of the prompt and 5 generated";
  for (const Request& request : Sent()) {
    EXPECT_EQ(request.session_id, "") << "a backend keeps nothing";
    EXPECT_EQ(request.cache_retention, CacheRetention::kLong);
  }
  Start();
  EXPECT_EQ(Info("s").turns, 2);
  EXPECT_EQ(Info("s").tokens, 12);
  EXPECT_TRUE(Info("s").durable);
  Run(Turn("s", "a"));
  EXPECT_TRUE(WasSent(second_prompt + second.text + "a"));
  EXPECT_EQ(Run(Turn("other", "b")).finish->session_tokens, 0);
  EXPECT_TRUE(WasSent("b"));
}

TEST_F(GatewaySessionTest, ATurnThatIsCancelledOrFailsLeavesTheSessionAsItWas) {
  Start();
  const Record first = Run(Turn("s", "Once"));
  EXPECT_EQ(Run(Turn("s", "endless"), 2).finish->reason, FinishReason::kCancelled);
  const auto cancelled = Submit(Turn("s", "endless"));
  ASSERT_TRUE(cancelled->WaitDeltas(1));
  EXPECT_TRUE(gateway()->Cancel(id_).ok());
  EXPECT_EQ(cancelled->WaitEnd().finish->reason, FinishReason::kCancelled);
  EXPECT_EQ(Run(Turn("s", "bad")).status.code(), StatusCode::kInvalidArgument);
  Request late = Turn("s", "hang");
  late.timeout = std::chrono::milliseconds(20);
  EXPECT_EQ(Run(late).status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Info("s").turns, 1);
  EXPECT_TRUE(Run(Turn("s", "upon")).finish.has_value());
  EXPECT_TRUE(WasSent("Once" + first.text + "upon"));
}

TEST_F(GatewaySessionTest, AnUnfinishedFirstTurnLeavesNoSession) {
  Start();
  Run(Turn("s", "endless"), 1);
  EXPECT_TRUE(gateway()->Sessions("").empty());
  EXPECT_TRUE(Run(Turn("s", "new")).finish.has_value());
  EXPECT_TRUE(WasSent("new"));
}

TEST_F(GatewaySessionTest, OneTurnAtATimeAndTheNextMayComeRightAfterTheEnd) {
  Start();
  const auto first = Submit(Turn("s", "endless"));
  const Status second = Rejection(Turn("s", "b"));
  EXPECT_EQ(second.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(second.field(), "session_id");
  EXPECT_THAT(second.message(), HasSubstr("'s' already has a turn in progress"));
  EXPECT_TRUE(gateway()->Cancel(id_).ok());
  first->WaitEnd();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Run(Turn("s", "b")).finish.has_value()) << i;
  EXPECT_EQ(Info("s").turns, 20);
}

TEST_F(GatewaySessionTest, TheEndWaitsForTheStoreAndNobodyElseDoes) {
  Start();
  control_->CloseGate();
  const auto kept = Submit(Turn("s", "Once"));
  ASSERT_TRUE(Eventually([&] { return control_->writes > 0; }));
  EXPECT_TRUE(Run(ScriptedRequest("others")).finish.has_value());
  EXPECT_TRUE(Eventually([&] {
    return gateway_->backends[0]->open() + gateway_->backends[1]->open() == 0;
  })) << "the backend is done with it";
  EXPECT_TRUE(gateway()->Cancel(id_).ok()) << "its end has not been told";
  EXPECT_EQ(kept->record().ends, 0);
  control_->OpenGate();
  EXPECT_EQ(kept->WaitEnd().finish->reason, FinishReason::kLength);
  EXPECT_TRUE(Info("s").durable);
  EXPECT_TRUE(Eventually([&] { return !gateway()->Cancel(id_).ok(); }));
}

TEST_F(GatewaySessionTest, ADrainWaitsForATurnThatIsBeingStored) {
  Start();
  control_->CloseGate();
  const auto kept = Submit(Turn("s", "Once"));
  ASSERT_TRUE(Eventually([&] { return control_->writes > 0; }));
  std::thread opener([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    control_->OpenGate();
  });
  EXPECT_TRUE(gateway()->Drain(std::chrono::seconds(60)).ok());
  opener.join();
  EXPECT_EQ(kept->record().ends, 1);
}

TEST_F(GatewaySessionTest, AFullDiskEndsNoTurnAndRejectsNewOnes) {
  Start();
  control_->disk_full = true;
  const Record first = Run(Turn("s", "Once"));
  ASSERT_TRUE(first.finish.has_value()) << first.status.message();
  EXPECT_EQ(first.finish->reason, FinishReason::kLength);
  EXPECT_FALSE(Info("s").durable);
  EXPECT_TRUE(Metric("ropeway_session_write_errors_total 1"));
  EXPECT_TRUE(Metric("ropeway_sessions_unwritten 1"));
  for (const char* session : {"s", "new"}) {
    const Status rejected = Rejection(Turn(session, "upon"));
    EXPECT_EQ(rejected.code(), StatusCode::kUnavailable);
    EXPECT_EQ(rejected.message(), "sessions cannot be stored now: no space left on device");
  }
  EXPECT_TRUE(Run(ScriptedRequest("others")).finish.has_value());
  control_->disk_full = false;
  EXPECT_TRUE(Eventually([&] { return Info("s").durable; }));
  Run(Turn("s", "upon"));
  EXPECT_TRUE(WasSent("Once" + first.text + "upon"));
}

TEST_F(GatewaySessionTest, ADamagedSessionIsRejectedByNameAndCanBeClosed) {
  Start();
  Run(Turn("s", "a"));
  const std::vector<store::StateChange> damage = {{"s" + store::SessionKey("", "s"), "garbage"}};
  ASSERT_TRUE(control_->contents.Write(damage).ok());
  const Record lost = Run(Turn("s", "b"));
  EXPECT_EQ(lost.status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(lost.status.message(), HasSubstr("the session 's' is lost"));
  EXPECT_EQ(Rejection(Turn("s", "b")).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Metric("ropeway_sessions_lost_total 1"));
  EXPECT_TRUE(gateway()->CloseSession("s", "").ok());
  EXPECT_TRUE(Run(Turn("s", "new")).finish.has_value());
  EXPECT_TRUE(WasSent("new"));
}

TEST_F(GatewaySessionTest, ATurnIsCancelledWhileItsHistoryIsRead) {
  Start();
  const Record first = Run(Turn("s", "Once"));
  control_->CloseReadGate();
  const int before = control_->reads;
  const auto sink = Submit(Turn("s", "cancelled"));
  ASSERT_TRUE(Eventually([&] { return control_->reads > before; }));
  const std::vector<service::RequestInfo> requests = gateway()->Requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].state, service::RequestInfo::State::kEncoding);
  EXPECT_EQ(gateway()->Stats().waiting, 1);
  EXPECT_EQ(gateway()->Queue(nullptr, 1.0).classes[1].waiting, 1);
  EXPECT_TRUE(Run(ScriptedRequest("others")).finish.has_value());
  EXPECT_TRUE(gateway()->Cancel(id_).ok());
  EXPECT_EQ(sink->WaitEnd().status.code(), StatusCode::kCancelled);
  // The session is free at once, though its reader is still held up.
  const auto next = Submit(Turn("s", "upon"));
  control_->OpenGate();
  EXPECT_TRUE(next->WaitEnd().finish.has_value());
  EXPECT_TRUE(WasSent("Once" + first.text + "upon"));
  EXPECT_FALSE(WasSent("Once" + first.text + "cancelled"));
}

TEST_F(GatewaySessionTest, ATurnEndsAtItsDeadlineWhileItsHistoryIsRead) {
  Start();
  Run(Turn("s", "Once"));
  control_->CloseReadGate();
  Request late = Turn("s", "upon");
  late.timeout = std::chrono::milliseconds(20);
  EXPECT_EQ(Submit(std::move(late))->WaitEnd().status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(gateway()->Requests().empty());
  control_->OpenGate();
}

TEST_F(GatewaySessionTest, AGatewayThatStopsEndsTurnsWhoseHistoryIsRead) {
  Start();
  for (const char* session : {"one", "two"}) Run(Turn(session, "Once"));
  control_->CloseReadGate();
  const int before = control_->reads;
  const auto read = Submit(Turn("one", "upon"));
  const auto waits = Submit(Turn("two", "upon"));
  ASSERT_TRUE(Eventually([&] { return control_->reads > before; }));
  std::thread opener([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    control_->OpenGate();
  });
  gateway_->gateway.reset();
  opener.join();
  for (const auto& sink : {read, waits}) {
    EXPECT_EQ(sink->record().ends, 1);
    EXPECT_EQ(sink->record().status.code(), StatusCode::kCancelled);
  }
}

TEST_F(GatewaySessionTest, AGatewayThatStopsTellsTheEndOfATurnThatIsBeingStored) {
  Start();
  control_->CloseGate();
  const auto kept = Submit(Turn("s", "Once"));
  ASSERT_TRUE(Eventually([&] { return control_->writes > 0; }));
  std::thread opener([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    control_->OpenGate();
  });
  gateway_->gateway.reset();
  opener.join();
  const Record record = kept->record();
  EXPECT_EQ(record.ends, 1);
  ASSERT_TRUE(record.finish.has_value()) << record.status.message();
  EXPECT_EQ(record.finish->reason, FinishReason::kLength);
  Start();
  EXPECT_EQ(Info("s").tokens, 12);
}

TEST_F(GatewaySessionTest, AStreamThatIsTakenUpElsewhereIsKeptWhole) {
  Start();
  const Record first = Run(Turn("s", "Once"));
  const std::string prompt = "Once" + first.text + "cut";
  const Record cut = Run(Turn("s", "cut"));
  ASSERT_TRUE(cut.finish.has_value()) << cut.status.message();
  EXPECT_EQ(gateway_->backends[0]->resumed() + gateway_->backends[1]->resumed(), 1);
  EXPECT_EQ(cut.text, ExpectedText(ScriptedRequest(prompt), 5));
  Run(Turn("s", "upon"));
  EXPECT_TRUE(WasSent(prompt + cut.text + "upon"));
}

TEST_F(GatewaySessionTest, ChatAndTextDoNotMix) {
  Start();
  Run(Turn("text", "a"));
  EXPECT_THAT(Run(ChatTurn("text", "a")).status.message(), HasSubstr("text or token ids"));
  Run(ChatTurn("chat", "a"));
  const Record wrong = Run(Turn("chat", "a"));
  EXPECT_EQ(wrong.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.status.message(), HasSubstr("chat messages"));
  EXPECT_EQ(Info("chat").turns, 1);
}

TEST_F(GatewaySessionTest, WhatIsNoTurnOfAGatewayIsRejectedByName) {
  Start();
  Request ids = Turn("s", "");
  ids.prompt = std::vector<TokenId>{1, 2};
  EXPECT_EQ(Rejection(ids).field(), "prompt");
  EXPECT_EQ(Rejection(Turn("a\nb", "a")).field(), "session_id");
  std::vector<SinkRequest> two;
  for (const char* session : {"s", "t"}) {
    two.push_back({Turn(session, "a"), std::make_shared<RecordingSink>()});
  }
  EXPECT_EQ(gateway()->SubmitAll(std::move(two)).status().field(), "session_id");
  EXPECT_TRUE(gateway()->Sessions("").empty());
  EXPECT_TRUE(gateway()->Requests().empty());
  EXPECT_TRUE(Run(Turn("s", "a")).finish.has_value()) << "what was rejected holds no turn";
}

TEST_F(GatewaySessionTest, AnEnginesSessionIsNotGoneOnWith) {
  const std::string key = store::SessionKey("", "s");
  store::SessionState state;
  state.vocabulary = "a vocabulary";
  state.ids = {1, 2, 3};
  const std::string record = store::PackState(key, state);
  store::SessionHead head;
  head.expires_ms = INT64_MAX;
  head.turns = 1;
  head.tokens = 3;
  head.state_bytes = record.size();
  head.state_checksum = store::Checksum(record);
  const std::vector<store::StateChange> changes = {{"h" + key, store::PackHead(key, head)},
                                                   {"s" + key, record}};
  ASSERT_TRUE(control_->contents.Write(changes).ok());
  Start();
  EXPECT_THAT(Run(Turn("s", "a")).status.message(), HasSubstr("was started by an engine"));
  EXPECT_EQ(Info("s").tokens, 3);
}

TEST_F(GatewaySessionTest, TenantsHaveTheirOwnSessions) {
  Start();
  for (const char* tenant : {"one", "two"}) {
    Request request = Turn("s", tenant);
    request.tenant = tenant;
    EXPECT_TRUE(Run(request).finish.has_value());
    EXPECT_TRUE(WasSent(tenant));
  }
  EXPECT_EQ(gateway()->Sessions("one").size(), 1U);
  EXPECT_EQ(gateway()->CloseSession("s", "three").code(), StatusCode::kNotFound);
  EXPECT_TRUE(gateway()->CloseSession("s", "two").ok());
  EXPECT_EQ(gateway()->Sessions("one").size(), 1U);
  EXPECT_TRUE(gateway()->Sessions("two").empty());
}

TEST_F(GatewaySessionTest, AHistoryTakesItsPartOfTheMemoryForRequests) {
  Start([](GatewayConfig* config) { config->max_request_bytes = 1000; });
  const Record first = Run(Turn("s", std::string(300, 'x')));
  ASSERT_TRUE(first.finish.has_value()) << first.status.message();
  const auto other = Submit(ScriptedRequest(std::string(400, 'y') + "endless"));
  ASSERT_TRUE(other->WaitDeltas(1));
  const RequestId other_id = id_;
  const Record rejected = Run(Turn("s", "upon"));
  EXPECT_EQ(rejected.status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(rejected.status.message(), HasSubstr("the other requests of its tenant"));
  EXPECT_TRUE(gateway()->Cancel(other_id).ok());
  other->WaitEnd();
  EXPECT_TRUE(Run(Turn("s", "upon")).finish.has_value());
}

// A turn has a look while its history is read, which is not the time at which it is admitted.
TEST_F(GatewaySessionTest, ATurnIsNotAdmittedBeforeItsTime) {
  Start();
  Request late = Turn("s", "hang");
  late.timeout = std::chrono::milliseconds(20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Run(late).admitted, 0);
  const auto hangs = Submit(Turn("s", "hang"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_EQ(hangs->record().admitted, 0);
  EXPECT_TRUE(gateway()->Cancel(id_).ok());
  hangs->WaitEnd();
}

// Keeps its requests, and the answer to its second probe.
class KeepingBackend final : public Backend {
 public:
  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override {
    const std::lock_guard lock(mu_);
    sinks_[++last_] = requests[0].sink;
    return std::vector<RequestId>{last_};
  }
  Status Cancel(RequestId id) override {
    const std::lock_guard lock(mu_);
    sinks_.erase(id);
    return {};
  }
  void Probe(ProbeFn done) override {
    {
      const std::lock_guard lock(mu_);
      if (std::exchange(probed_, true)) {
        late_ = std::move(done);
        return;
      }
    }
    done(BackendFacts());
  }

  bool has_request() const {
    const std::lock_guard lock(mu_);
    return !sinks_.empty();
  }
  bool owes_answer() const {
    const std::lock_guard lock(mu_);
    return late_ != nullptr;
  }

 private:
  mutable std::mutex mu_;
  bool probed_ = false;
  ProbeFn late_;
  RequestId last_ = 0;
  std::map<RequestId, std::shared_ptr<Sink>> sinks_;
};

// Holds up the thread that tells it the end.
class HoldingSink final : public Sink {
 public:
  bool OnDelta(RequestId, Delta) override { return true; }
  void OnEnd(RequestId, const Outcome&) override {
    holds = true;
    holds.notify_all();
    go.wait(false);
  }

  std::atomic<bool> holds{false};
  std::atomic<bool> go{false};
};

// The cancel of a turn waits in the inbox when the gateway ends, and a probe keeps the inbox.
TEST_F(GatewaySessionTest, NoTurnOutlivesItsStore) {
  const auto backend = std::make_shared<KeepingBackend>();
  base::RealClock clock;
  base::SeededRandom random{7};
  GatewayConfig config;
  GatewayModel& model = config.models.emplace_back();
  model.name = "m";
  model.backends.push_back({.name = "a", .backend = backend, .max_concurrency = 8});
  config.dispatch.rules.health.probe_interval = std::chrono::milliseconds(50);
  config.clock = &clock;
  config.random = &random;
  std::unique_ptr<GatewayBackend> gateway = *GatewayBackend::Create(std::move(config));
  ASSERT_TRUE(Eventually([&] { return backend->owes_answer(); }));
  const auto turn_sink = std::make_shared<RecordingSink>();
  const RequestId turn = *gateway->Submit(Turn("s", "x"), turn_sink);
  ASSERT_TRUE(Eventually([&] { return backend->has_request(); }));
  const auto holding = std::make_shared<HoldingSink>();
  Request late = ScriptedRequest("y");
  late.timeout = std::chrono::milliseconds(20);
  ASSERT_TRUE(gateway->Submit(late, holding).ok());
  holding->holds.wait(false);
  EXPECT_TRUE(gateway->Cancel(turn).ok());
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    holding->go = true;
    holding->go.notify_all();
  });
  gateway.reset();
  opens.join();
  EXPECT_EQ(turn_sink->record().ends, 1);
  EXPECT_EQ(turn_sink.use_count(), 1) << "the inbox, which the probe keeps, has nothing of it";
}

}  // namespace
}  // namespace ropeway::gateway
