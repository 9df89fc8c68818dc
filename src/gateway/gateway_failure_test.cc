// What the gateway makes of backends that fail, hang, lie about themselves or die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/test_fakes.h"
#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Record = RecordingSink::Record;
using FailsBy = FailureKind;

std::shared_ptr<ScriptedBackend> Failing(FailsBy kind, const char* said, int after = 0) {
  BackendScript script;
  script.fail_after = after;
  script.failure.kind = kind;
  script.failure.status = Status(StatusCode::kUnavailable, said);
  return std::make_shared<ScriptedBackend>([script](const Request&) { return script; });
}

// `count` equal backends whose streams can go on elsewhere; answers have so many tokens.
std::vector<std::shared_ptr<ScriptedBackend>> Resumable(int count, int tokens) {
  std::vector<std::shared_ptr<ScriptedBackend>> backends;
  for (int i = 0; i < count; ++i) {
    backends.push_back(std::make_shared<ScriptedBackend>(
        [tokens](const Request&) { return BackendScript{.tokens = tokens}; }));
    backends.back()->set_facts(ResumableFacts());
    backends.back()->set_resumes(true);
  }
  return backends;
}

// All that a client sees of an answer.
std::string Seen(const Record& record) {
  std::string seen = record.status.message() + "|" + record.text + "|";
  for (const OutputToken& token : record.tokens) {
    seen += std::to_string(token.id) + ":" + std::to_string(token.logprob) + " ";
  }
  if (record.finish) {
    const Usage& usage = record.finish->usage;
    seen += std::string("|") + FinishReasonName(record.finish->reason) + "|" +
            std::to_string(usage.prompt_tokens) + "+" + std::to_string(usage.completion_tokens) +
            (usage.estimated ? "?" : "") + "|" + std::to_string(record.finish->seed);
  }
  return seen;
}

TEST(GatewayFailureTest, AFailedRequestIsTriedElsewhere) {
  for (const FailsBy kind : {FailsBy::kUnreachable, FailsBy::kBusy, FailsBy::kBroken}) {
    ScriptedGateway gateway({Failing(kind, "no"), std::make_shared<ScriptedBackend>()});
    for (int i = 0; i < 20; ++i) {
      const Request request = ScriptedRequest("p" + std::to_string(i));
      const Record record = gateway.Submit(request)->WaitEnd();
      EXPECT_EQ(record.text, ExpectedText(request, 5)) << record.status.message();
      EXPECT_TRUE(record.in_order);
    }
    const BackendStatus status = gateway->Backends()[0];
    EXPECT_GT(status.unreachable + status.busy + status.broken, 0U);
    EXPECT_GT(gateway->Backends()[1].retries, 0U);
  }
}

TEST(GatewayFailureTest, AFailureNamesItsBackendAndEndsItsRequestAlone) {
  const auto backend = std::make_shared<ScriptedBackend>([](const Request& request) {
    BackendScript script;
    if (request.sampling.seed == 1) script.fail_after = 2;
    script.failure.status = Status(StatusCode::kInternal, "out of\x01luck");
    return script;
  });
  ScriptedGateway gateway({backend});
  const auto bad = gateway.Submit(ScriptedRequest("p", 1));
  const auto good = gateway.Submit(ScriptedRequest("p", 2));
  const Record record = bad->WaitEnd();
  EXPECT_EQ(record.deltas, 2);
  EXPECT_EQ(record.status.code(), StatusCode::kInternal);
  EXPECT_THAT(record.status.message(), AllOf(HasSubstr("backend a: out of"), HasSubstr("luck")));
  EXPECT_EQ(record.status.message().find('\x01'), std::string::npos);
  EXPECT_TRUE(good->WaitEnd().finish.has_value());
}

TEST(GatewayFailureTest, WhatIsWrongWithTheRequestIsNotTriedAgain) {
  BackendScript script;
  script.fail_after = 0;
  script.failure.kind = FailsBy::kRejected;
  script.failure.status = Status(StatusCode::kInvalidArgument, "too long", "prompt");
  const auto backend =
      std::make_shared<ScriptedBackend>([script](const Request&) { return script; });
  ScriptedGateway gateway({backend, backend});
  const Record record = gateway.Submit(ScriptedRequest())->WaitEnd();
  EXPECT_EQ(record.admitted, 0);  // It has a status code of its own.
  EXPECT_EQ(record.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(record.status.field(), "prompt");
  EXPECT_EQ(backend->started(), 1);
}

TEST(GatewayFailureTest, StartMayFailAtOnceOrThrow) {
  for (const bool throws : {false, true}) {
    BackendScript script;
    script.fail_in_start = !throws;
    script.throw_in_start = throws;
    const auto backend =
        std::make_shared<ScriptedBackend>([script](const Request&) { return script; });
    ScriptedGateway gateway({backend});
    const Record record = gateway.Submit(ScriptedRequest())->WaitEnd();
    EXPECT_EQ(record.ends, 1);
    EXPECT_FALSE(record.status.ok());
    EXPECT_THAT(record.status.message(), HasSubstr(throws ? "Start threw" : "it broke"));
    EXPECT_TRUE(Eventually([&] { return backend->open() == 0; }));
  }
}

TEST(GatewayFailureTest, AnAnswerWithoutAReasonIsAFailure) {
  BackendScript script;
  script.reason = FinishReason::kFailed;
  const auto backend =
      std::make_shared<ScriptedBackend>([script](const Request&) { return script; });
  ScriptedGateway gateway({backend});
  const Record record = gateway.Submit(ScriptedRequest())->WaitEnd();
  EXPECT_THAT(record.status.message(), HasSubstr("backend a: it ended its answer"));
}

TEST(GatewayFailureTest, WhileNoBackendIsUpRequestsAreRejectedWithATime) {
  const auto backend = std::make_shared<ScriptedBackend>();
  ScriptedGateway gateway({backend});
  backend->Kill();
  ASSERT_TRUE(Eventually([&] { return !gateway->GetHealth().ready; }));
  EXPECT_THAT(gateway->GetHealth().reason, HasSubstr("a"));
  const Record record = gateway.Submit(ScriptedRequest())->WaitEnd();
  EXPECT_EQ(record.status.code(), StatusCode::kUnavailable);
  EXPECT_GE(record.status.retry_after_seconds(), 1);
  backend->Revive();
  ASSERT_TRUE(Eventually([&] { return gateway->GetHealth().ready; }));
  EXPECT_TRUE(gateway.Submit(ScriptedRequest())->WaitEnd().finish.has_value());
}

TEST(GatewayFailureTest, OrTheyAreHeldUntilOneIsUp) {
  const auto backend = std::make_shared<ScriptedBackend>();
  ScriptedGateway gateway({backend}, [](GatewayConfig* config) {
    config->dispatch.failover.hold_timeout = std::chrono::seconds(60);
  });
  backend->Kill();
  ASSERT_TRUE(Eventually([&] { return !gateway->GetHealth().ready; }));
  const auto sink = gateway.Submit(ScriptedRequest());
  EXPECT_EQ(sink->record().ends, 0);
  backend->Revive();
  EXPECT_TRUE(sink->WaitEnd().finish.has_value());
}

TEST(GatewayFailureTest, AStreamThatIsCutGoesOnElsewhereAsIfItHadNot) {
  constexpr int kTokens = 60;
  constexpr int kStreams = 30;
  std::vector<std::string> expected;
  {
    ScriptedGateway calm(Resumable(1, kTokens));
    for (int i = 0; i < kStreams; ++i) {
      Request request = ScriptedRequest("p" + std::to_string(i), static_cast<uint64_t>(i));
      request.logprobs = 0;
      expected.push_back(Seen(calm.Submit(std::move(request))->WaitEnd()));
    }
  }
  ScriptedGateway gateway(Resumable(3, kTokens), [](GatewayConfig* config) {
    config->dispatch.failover.max_resumptions = 1000;
  });
  for (const auto& backend : gateway.backends) backend->set_pause(std::chrono::milliseconds(1));
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < kStreams; ++i) {
    Request request = ScriptedRequest("p" + std::to_string(i), static_cast<uint64_t>(i));
    request.logprobs = 0;
    sinks.push_back(gateway.Submit(std::move(request)));
  }
  const auto all_ended = [&] {
    return std::all_of(sinks.begin(), sinks.end(),
                       [](const auto& sink) { return sink->record().ends > 0; });
  };
  for (size_t turn = 0; !all_ended() && turn < 1000; ++turn) {
    ScriptedBackend& victim = *gateway.backends[turn % gateway.backends.size()];
    victim.Kill();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    victim.Revive();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  int resumed = 0;
  for (const auto& backend : gateway.backends) resumed += backend->resumed();
  EXPECT_GT(resumed, 5);
  for (int i = 0; i < kStreams; ++i) {
    const Record record = sinks[static_cast<size_t>(i)]->WaitEnd();
    EXPECT_TRUE(record.in_order);
    EXPECT_EQ(Seen(record), expected[static_cast<size_t>(i)]);
  }
}

// Killed after every possible number of deltas, at the end too, where text comes without a token.
TEST(GatewayFailureTest, WhereverItIsCutItGoesOnThere) {
  for (int tokens = 3; tokens <= 5; ++tokens) {
    for (int cut = 1; cut <= tokens + 1; ++cut) {
      ScriptedGateway gateway(Resumable(2, tokens));
      for (const auto& backend : gateway.backends) backend->set_pause(std::chrono::milliseconds(2));
      const Request request = ScriptedRequest();
      const auto sink = gateway.Submit(request);
      const bool reached =
          Eventually([&] { return sink->record().deltas >= cut || sink->record().ends > 0; });
      ASSERT_TRUE(reached);
      for (const auto& backend : gateway.backends) {
        if (backend->open() == 0) continue;
        backend->Kill();
        break;
      }
      const Record record = sink->WaitEnd();
      EXPECT_EQ(record.text, ExpectedText(request, tokens)) << tokens << " cut at " << cut;
      EXPECT_EQ(record.tokens.size(), static_cast<size_t>(tokens));
    }
  }
}

TEST(GatewayFailureTest, ThePromptsTokensAreNotRepeated) {
  for (const int cut : {1, 4}) {
    ScriptedGateway gateway(Resumable(2, 9));
    for (const auto& backend : gateway.backends) backend->set_pause(std::chrono::milliseconds(2));
    Request request = ScriptedRequest();
    request.prompt_logprobs = 0;
    const auto sink = gateway.Submit(request);
    ASSERT_TRUE(sink->WaitDeltas(cut));
    for (const auto& backend : gateway.backends) {
      if (backend->open() == 0) continue;
      backend->Kill();
      break;
    }
    const Record record = sink->WaitEnd();
    EXPECT_EQ(record.prompt_tokens.size(), 3U);
    EXPECT_EQ(record.tokens.size(), 9U) << record.status.message();
    EXPECT_EQ(record.text, ExpectedText(request, 9));
  }
}

// Nothing of an embedding is known before its end: whatever fails is tried elsewhere.
TEST(GatewayFailureTest, AnEmbeddingThatFailsIsTriedElsewhere) {
  std::atomic<int> failed{0};
  const auto script = [&](const Request&) {
    BackendScript one;
    one.tokens = 0;
    if (failed.fetch_add(1) < 1) one.fail_after = 0;
    return one;
  };
  std::vector<std::shared_ptr<ScriptedBackend>> backends;
  for (int i = 0; i < 2; ++i) backends.push_back(std::make_shared<ScriptedBackend>(script));
  ScriptedGateway gateway(backends);
  Request request = ScriptedRequest();
  request.max_tokens = 0;
  request.embedding.emplace();
  const Record record = gateway.Submit(request)->WaitEnd();
  EXPECT_TRUE(record.status.ok()) << record.status.message();
  EXPECT_EQ(record.embedding, ExpectedEmbedding(request));
  ASSERT_TRUE(record.finish);
  EXPECT_EQ(record.finish->usage.completion_tokens, 0);
  EXPECT_EQ(backends[0]->started() + backends[1]->started(), 2);
}

TEST(GatewayFailureTest, ManyEmbeddingsSpreadOverTheReplicas) {
  const auto script = [](const Request&) {
    BackendScript one;
    one.tokens = 0;
    return one;
  };
  std::vector<std::shared_ptr<ScriptedBackend>> backends;
  for (int i = 0; i < 3; ++i) backends.push_back(std::make_shared<ScriptedBackend>(script));
  ScriptedGateway gateway(backends);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<Request> requests;
  for (int i = 0; i < 200; ++i) {
    Request request = ScriptedRequest();
    request.prompt = "input " + std::to_string(i);
    request.max_tokens = 0;
    request.embedding.emplace();
    requests.push_back(request);
    sinks.push_back(gateway.Submit(request));
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->WaitEnd().embedding, ExpectedEmbedding(requests[i]));
  }
  for (const auto& backend : backends) EXPECT_GT(backend->started(), 20);
}

TEST(GatewayFailureTest, WithoutAnEqualBackendACutStreamFails) {
  auto backends = Resumable(2, 1000);
  BackendFacts other = ResumableFacts();
  other.model_digest = "another model";
  backends[1]->set_facts(other);
  ScriptedGateway gateway(backends, [](GatewayConfig* config) {
    config->dispatch.resume_wait = std::chrono::milliseconds(30);
  });
  const auto sink = gateway.Submit(ScriptedRequest());
  ASSERT_TRUE(sink->WaitDeltas(2));
  for (const auto& backend : backends) {
    if (backend->open() > 0) backend->Kill();
  }
  const Record record = sink->WaitEnd();
  EXPECT_EQ(record.ends, 1);
  EXPECT_THAT(record.status.message(), AllOf(HasSubstr("it was killed"), HasSubstr("backend ")));
}

TEST(GatewayFailureTest, ABackendThatCannotResumeIsNotAskedTo) {
  auto backends = Resumable(2, 1000);
  for (const auto& backend : backends) backend->set_resumes(false);
  ScriptedGateway gateway(backends);
  const auto sink = gateway.Submit(ScriptedRequest());
  ASSERT_TRUE(sink->WaitDeltas(2));
  for (const auto& backend : backends) {
    if (backend->open() > 0) backend->Kill();
  }
  EXPECT_THAT(sink->WaitEnd().status.message(), HasSubstr("it was killed"));
  EXPECT_EQ(backends[0]->resumed() + backends[1]->resumed(), 0);
}

TEST(GatewayFailureTest, AHungStreamIsTakenUpElsewhere) {
  std::atomic<bool> first{true};
  std::vector<std::shared_ptr<ScriptedBackend>> backends;
  for (int i = 0; i < 2; ++i) {
    backends.push_back(std::make_shared<ScriptedBackend>([&first](const Request&) {
      BackendScript script{.tokens = 20};
      if (first.exchange(false)) script.hang_after = 4;
      return script;
    }));
    backends.back()->set_facts(ResumableFacts());
    backends.back()->set_resumes(true);
  }
  ScriptedGateway gateway(backends, [](GatewayConfig* config) {
    config->dispatch.failover.idle_timeout = std::chrono::milliseconds(500);
  });
  const Request request = ScriptedRequest();
  const Record record = gateway.Submit(request)->WaitEnd();
  EXPECT_EQ(record.text, ExpectedText(request, 20)) << record.status.message();
  EXPECT_EQ(backends[0]->resumed() + backends[1]->resumed(), 1);
  uint64_t timeouts = 0;
  for (const BackendStatus& status : gateway->Backends()) timeouts += status.timeouts;
  EXPECT_EQ(timeouts, 1U);
}

TEST(GatewayFailureTest, OutputThatWaitsForTheGatewayIsNoHang) {
  // Holds up the gateway at its first delta until the backend has said all, and longer than that
  // may hang.
  class SlowSink final : public Sink {
   public:
    SlowSink(engine::SkippingClock* clock, const ScriptedBackend* backend)
        : clock_(clock), backend_(backend) {}
    bool OnDelta(RequestId, Delta) override {
      if (deltas++ > 0) return true;
      EXPECT_TRUE(Eventually([this] { return backend_->open() == 0; }));
      clock_->skipped += 60;
      return true;
    }
    void OnEnd(RequestId, const Outcome& outcome) override { ended = outcome.status.ok() ? 1 : -1; }
    std::atomic<int> deltas{0};
    std::atomic<int> ended{0};

   private:
    engine::SkippingClock* const clock_;
    const ScriptedBackend* const backend_;
  };
  engine::SkippingClock clock;
  const auto backend = std::make_shared<ScriptedBackend>();
  ScriptedGateway gateway({backend}, [&](GatewayConfig* config) {
    config->clock = &clock;
    config->dispatch.failover.idle_timeout = std::chrono::seconds(10);
  });
  const auto sink = std::make_shared<SlowSink>(&clock, backend.get());
  ASSERT_TRUE(gateway->Submit(ScriptedRequest(), sink).ok());
  EXPECT_TRUE(Eventually([&] { return sink->ended != 0; }));
  EXPECT_EQ(sink->ended, 1);
  EXPECT_EQ(sink->deltas, 5);
  EXPECT_EQ(gateway->Backends()[0].timeouts, 0U);
}

TEST(GatewayFailureTest, AClientsOwnMistakeIsToldInTheBackendsWords) {
  const auto told = [](const char* message) {
    BackendScript script;
    script.fail_after = 0;
    script.failure = Outcome::Failed(FailureKind::kRejected,
                                     Status(StatusCode::kInvalidArgument, message, "tools"));
    const auto backend =
        std::make_shared<ScriptedBackend>([script](const Request&) { return script; });
    ScriptedGateway gateway({backend});
    const Record record = gateway.Submit(ScriptedRequest())->WaitEnd();
    EXPECT_EQ(record.status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(record.status.field(), "tools");
    return record.status.message();
  };
  EXPECT_EQ(told("'tools' is wrong."), "'tools' is wrong.");
  EXPECT_EQ(told("it has no field for tools"), "backend a: it has no field for tools");
}

TEST(GatewayFailureTest, TheFieldOfAFormIsTheOneThatTheClientSent) {
  const auto backend = std::make_shared<ScriptedBackend>([](const Request&) {
    BackendScript script;
    script.fail_after = 0;
    const std::string field = "response_format.json_schema.schema";
    script.failure = Outcome::Failed(FailureKind::kRejected, Status(StatusCode::kInvalidArgument,
                                                                    field + ": at '#': no", field));
    return script;
  });
  ScriptedGateway gateway({backend});
  Request request = ScriptedRequest();
  request.format.kind = OutputFormat::Kind::kJsonSchema;
  request.format.schema = "{}";
  request.format.field = "guided_json";
  const Record record = gateway.Submit(std::move(request))->WaitEnd();
  EXPECT_EQ(record.status.message(), "guided_json: at '#': no");
  EXPECT_EQ(record.status.field(), "guided_json");
}

TEST(GatewayFailureTest, AHangWithoutHelpNamesTheBackend) {
  BackendScript script;
  script.hang_after = 2;
  const auto backend =
      std::make_shared<ScriptedBackend>([script](const Request&) { return script; });
  ScriptedGateway gateway({backend}, [](GatewayConfig* config) {
    config->dispatch.failover.idle_timeout = std::chrono::milliseconds(50);
  });
  const Record record = gateway.Submit(ScriptedRequest())->WaitEnd();
  EXPECT_THAT(record.status.message(), HasSubstr("backend a: "));
  EXPECT_TRUE(Eventually([&] { return backend->open() == 0; }));
}

TEST(GatewayFailureTest, AStreamThatItsBackendLetsWaitIsNoHang) {
  BackendScript script;
  script.hang_after = 2;
  script.alive_for = std::chrono::milliseconds(3000);
  const auto backend =
      std::make_shared<ScriptedBackend>([script](const Request&) { return script; });
  ScriptedGateway gateway({backend}, [](GatewayConfig* config) {
    config->dispatch.failover.idle_timeout = std::chrono::milliseconds(2000);
  });
  const Request request = ScriptedRequest();
  const Record record = gateway.Submit(request)->WaitEnd();
  EXPECT_EQ(record.text, ExpectedText(request, 5)) << record.status.message();
  EXPECT_EQ(gateway->Backends()[0].timeouts, 0U);
}

TEST(GatewayFailureTest, StreamsLeaveABackendThatIsDrained) {
  ScriptedGateway gateway(Resumable(2, 200));
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<Request> requests;
  for (int i = 0; i < 10; ++i) {
    requests.push_back(ScriptedRequest("p" + std::to_string(i), static_cast<uint64_t>(i)));
    sinks.push_back(gateway.Submit(requests.back()));
  }
  for (const auto& sink : sinks) ASSERT_TRUE(sink->WaitDeltas(1));
  ASSERT_TRUE(gateway->SetDraining("a", true).ok());
  EXPECT_TRUE(Eventually([&] { return gateway.backends[0]->open() == 0; }));
  for (size_t i = 0; i < sinks.size(); ++i) {
    const Record record = sinks[i]->WaitEnd();
    EXPECT_EQ(record.text, ExpectedText(requests[i], 200)) << record.status.message();
  }
  EXPECT_EQ(gateway->Backends()[0].state, "draining");
  EXPECT_EQ(gateway->SetDraining("nobody", true).code(), StatusCode::kNotFound);
}

TEST(GatewayFailureTest, AThousandRequestsThroughBackendsThatFailEachFifthTime) {
  constexpr int kRequests = 1000;
  std::vector<std::shared_ptr<ScriptedBackend>> backends;
  auto dice = std::make_shared<base::SeededRandom>(5);
  auto dice_mu = std::make_shared<std::mutex>();
  for (int i = 0; i < 3; ++i) {
    backends.push_back(std::make_shared<ScriptedBackend>([dice, dice_mu](const Request&) {
      const std::lock_guard lock(*dice_mu);
      BackendScript script{.tokens = 4};
      if (!dice->Chance(0.2)) return script;
      script.fail_after = static_cast<int>(dice->Below(4));
      script.fail_in_start = dice->Chance(0.2);
      script.failure.kind = static_cast<FailsBy>(dice->Below(4));
      return script;
    }));
    backends.back()->set_pause(std::chrono::microseconds(50));
  }
  ScriptedGateway gateway(backends);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < kRequests; ++i) {
    sinks.push_back(gateway.Submit(ScriptedRequest("p" + std::to_string(i))));
    if (i % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // While all three are ejected at once there is no place for a request, and how many come
  // meanwhile depends on the machine. Of the others most get a whole answer.
  int taken = 0;
  int good = 0;
  for (const auto& sink : sinks) {
    const Record record = sink->WaitEnd();
    EXPECT_EQ(record.ends, 1);
    EXPECT_TRUE(record.in_order);
    if (record.finish) {
      ++good;
    } else {
      EXPECT_THAT(record.status.message(),
                  AnyOf(HasSubstr("it broke"), HasSubstr("no backend is available")));
    }
    if (!record.status.message().starts_with("no backend is available")) ++taken;
  }
  EXPECT_GT(taken, kRequests / 10);
  EXPECT_GT(good, taken / 2);
  EXPECT_TRUE(gateway->Requests().empty());
  for (const auto& backend : backends) {
    EXPECT_TRUE(Eventually([&] { return backend->open() == 0; }));
  }
}

}  // namespace
}  // namespace ropeway::gateway
