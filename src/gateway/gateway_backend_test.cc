#include "gateway/gateway_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Record = RecordingSink::Record;

std::shared_ptr<ScriptedBackend> Plain() { return std::make_shared<ScriptedBackend>(); }

std::shared_ptr<ScriptedBackend> Scripted(BackendScript script) {
  return std::make_shared<ScriptedBackend>([script](const Request&) { return script; });
}

// One whose answers never end.
std::shared_ptr<ScriptedBackend> Endless() { return Scripted({.tokens = 1 << 30}); }

TEST(GatewayBackendTest, ARequestIsAnsweredByItsBackend) {
  ScriptedGateway gateway({Plain()});
  const Request request = ScriptedRequest();
  const Record record = gateway.Submit(request)->WaitEnd();
  EXPECT_TRUE(record.in_order);
  EXPECT_EQ(record.admitted, 1);
  EXPECT_EQ(record.ends, 1);
  EXPECT_EQ(record.text, ExpectedText(request, 5));
  EXPECT_EQ(record.tokens.size(), 5U);
  ASSERT_TRUE(record.finish.has_value()) << record.status.message();
  EXPECT_EQ(record.finish->reason, FinishReason::kLength);
  EXPECT_EQ(record.finish->usage.prompt_tokens, 7);
  EXPECT_EQ(record.finish->usage.completion_tokens, 5);
  EXPECT_EQ(record.finish->usage.cached_tokens, 2);
  EXPECT_FALSE(record.finish->usage.estimated);
  EXPECT_EQ(record.finish->seed, 11U);
  EXPECT_EQ(record.finish->batch_num, 1U);
  EXPECT_TRUE(Eventually([&] { return gateway.backends[0]->open() == 0; }));
}

// Backends lower it to their context: estimated as it stands, it would keep out all others.
TEST(GatewayBackendTest, AHugeMaxTokensCountsAsNone) {
  const auto outstanding = [](std::optional<int32_t> max_tokens) {
    ScriptedGateway gateway({Scripted({.hang_after = 0})});
    Request request = ScriptedRequest();
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    const auto sink = gateway.Submit(request);
    EXPECT_TRUE(Eventually([&] { return gateway->Backends()[0].in_flight == 1; }));
    return gateway->Backends()[0].outstanding_tokens;
  };
  const int64_t open = outstanding(std::nullopt);
  EXPECT_EQ(outstanding(16'385), open);
  EXPECT_EQ(outstanding(INT32_MAX), open);
  EXPECT_GE(outstanding(16'384), 16'384);
  EXPECT_LT(open, 16'384);
}

TEST(GatewayBackendTest, ASeedIsDrawnForAllRequestsOfASubmission) {
  ScriptedGateway gateway({Plain()});
  std::vector<SinkRequest> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t choice = 0; choice < 2; ++choice) {
    Request request = ScriptedRequest();
    request.sampling.seed.reset();
    request.sampling.given = SamplingParams::kNoneGiven;
    request.choice = choice;
    sinks.push_back(std::make_shared<RecordingSink>());
    requests.push_back({std::move(request), sinks.back()});
  }
  ASSERT_TRUE(gateway->SubmitAll(std::move(requests)).ok());
  const Record first = sinks[0]->WaitEnd();
  const Record second = sinks[1]->WaitEnd();
  EXPECT_EQ(first.finish->seed, second.finish->seed);
  EXPECT_NE(first.text, second.text);
  for (const Request& request : gateway.backends[0]->requests()) {
    EXPECT_EQ(request.sampling.seed, first.finish->seed);
    EXPECT_EQ(request.sampling.given, SamplingParams::kSeed);
  }
}

TEST(GatewayBackendTest, UsageThatABackendLeavesOutIsEstimated) {
  ScriptedGateway gateway({Scripted({.tokens = 3, .says_usage = false}),
                           Scripted({.tokens = 3, .says_usage = false, .says_tokens = false})});
  const Request request = ScriptedRequest("12345678901");
  // The second backend is used once the first one is out of service.
  const Record counted = gateway.Submit(request)->WaitEnd();
  ASSERT_TRUE(gateway->SetDraining("a", true).ok());
  ASSERT_TRUE(gateway->SetDraining("b", false).ok());
  const Record guessed = gateway.Submit(request)->WaitEnd();
  ASSERT_TRUE(counted.finish && guessed.finish);
  EXPECT_TRUE(counted.finish->usage.estimated);
  EXPECT_TRUE(guessed.finish->usage.estimated);
  EXPECT_EQ(guessed.finish->usage.prompt_tokens, 3);  // Of 11 characters.
  const auto size = static_cast<int32_t>(guessed.text.size());
  EXPECT_EQ(guessed.finish->usage.completion_tokens, (size + 3) / 4);
}

TEST(GatewayBackendTest, EstimatesCountCharactersNotBytes) {
  EXPECT_EQ(CountCharacters("a\xC3\xA4\xE4\xB8\xAD\xF0\x9F\x98\x80"), 4U);
  EXPECT_EQ(EstimatedTokens(0), 0);
  EXPECT_EQ(EstimatedTokens(1), 1);
  EXPECT_EQ(EstimatedTokens(9), 3);
}

TEST(GatewayBackendTest, ModelsHaveNamesAndAliases) {
  ScriptedGateway gateway({Plain()},
                          [](GatewayConfig* config) { config->models[0].aliases = {"other"}; });
  ASSERT_EQ(gateway->Models().size(), 1U);
  EXPECT_EQ(gateway->Models()[0].id, "m");
  EXPECT_THAT(gateway->Models()[0].aliases, ElementsAre("other"));
  for (const char* name : {"", "default", "m", "other"}) {
    Request request = ScriptedRequest();
    request.model = name;
    EXPECT_TRUE(gateway.Submit(request)->WaitEnd().finish.has_value()) << name;
  }
  for (const Request& request : gateway.backends[0]->requests()) EXPECT_EQ(request.model, "m");
  Request request = ScriptedRequest();
  request.model = "none";
  const Record record = gateway.Submit(request)->WaitEnd();
  EXPECT_EQ(record.status.code(), StatusCode::kNotFound);
  EXPECT_THAT(record.status.message(), HasSubstr("'m', 'other'"));
}

TEST(GatewayBackendTest, BeforeABackendHasSaidItsNamesAnyMayBeOne) {
  const auto may_serve = [](std::vector<std::string> reported, const char* asked) {
    const auto backend = Plain();
    BackendFacts facts;
    facts.models = std::move(reported);
    backend->set_facts(facts);
    ScriptedGateway gateway({backend}, [](GatewayConfig* config) { config->models[0].name = ""; });
    gateway->WaitProbed(std::chrono::seconds(10));
    return gateway->MayServe(asked);
  };
  EXPECT_TRUE(may_serve({}, "m"));
  EXPECT_TRUE(may_serve({"m"}, "m"));
  EXPECT_TRUE(may_serve({"m"}, "default"));
  EXPECT_FALSE(may_serve({"m"}, "none"));
  EXPECT_FALSE(ScriptedGateway({Plain()})->MayServe("none"));
}

TEST(GatewayBackendTest, AModelWithoutANameHasThoseOfItsBackends) {
  const auto both = Plain();
  const auto one = Plain();
  BackendFacts facts;
  facts.models = {"x", "y"};
  both->set_facts(facts);
  facts.models = {"y"};
  one->set_facts(facts);
  ScriptedGateway gateway({both, one},
                          [](GatewayConfig* config) { config->models[0].name.clear(); });
  ASSERT_EQ(gateway->Models().size(), 1U);
  EXPECT_EQ(gateway->Models()[0].id, "y");
  Request request = ScriptedRequest();
  request.model = "default";
  EXPECT_TRUE(gateway.Submit(request)->WaitEnd().finish.has_value());
  request.model = "x";
  EXPECT_EQ(gateway.Submit(request)->WaitEnd().status.code(), StatusCode::kNotFound);
  std::vector<Request> sent = both->requests();
  const std::vector<Request> more = one->requests();
  sent.insert(sent.end(), more.begin(), more.end());
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].model, "y");
}

TEST(GatewayBackendTest, BadRequestsAreNotAccepted) {
  ScriptedGateway gateway({Plain()}, [](GatewayConfig* config) { config->strict = true; });
  gateway.backends[0]->set_unknown({"top_k"});
  Request request = ScriptedRequest();
  EXPECT_EQ(gateway.Submit(request)->WaitEnd().status.field(), "top_k");
  gateway.backends[0]->set_unknown({});
  request.sampling.temperature = 3.0F;
  EXPECT_EQ(gateway.Submit(request)->WaitEnd().status.field(), "temperature");
  EXPECT_EQ(gateway.backends[0]->started(), 0);
  EXPECT_TRUE(gateway->Requests().empty());
}

TEST(GatewayBackendTest, ASubmissionIsAcceptedAsAWholeOrNotAtAll) {
  ScriptedGateway gateway({Endless()}, [](GatewayConfig* config) {
    config->models[0].backends[0].max_concurrency = 1;
    config->dispatch.queue.max_queued_requests = 4;
  });
  ASSERT_TRUE(gateway.Submit(ScriptedRequest())->WaitDeltas(1));
  std::vector<SinkRequest> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 9; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    requests.push_back({ScriptedRequest(), sinks.back()});
  }
  const auto ids = gateway->SubmitAll(std::move(requests));
  EXPECT_EQ(ids.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(gateway->Requests().size(), 1U);
  for (const auto& sink : sinks) EXPECT_EQ(sink->record().ends, 0);
}

TEST(GatewayBackendTest, TheStreamsOfASubmissionBeginTogether) {
  // The backend has a place for one: the other's sink is told that it is queued all the same.
  ScriptedGateway gateway({Endless()}, [](GatewayConfig* config) {
    config->models[0].backends[0].max_concurrency = 1;
  });
  std::vector<SinkRequest> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 2; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    requests.push_back({ScriptedRequest(), sinks.back()});
  }
  ASSERT_TRUE(gateway->SubmitAll(std::move(requests)).ok());
  EXPECT_TRUE(sinks[0]->WaitDeltas(1));
  EXPECT_TRUE(sinks[1]->WaitAdmitted());
  EXPECT_EQ(sinks[1]->record().deltas, 0);
}

TEST(GatewayBackendTest, ARequestThatWaitsIsAdmittedAfterAWhile) {
  ScriptedGateway gateway({Scripted({.hang_after = 0})}, [](GatewayConfig* config) {
    config->admit_after = std::chrono::milliseconds(10);
  });
  const auto sink = gateway.Submit(ScriptedRequest());
  EXPECT_TRUE(sink->WaitAdmitted());
  EXPECT_EQ(sink->record().deltas, 0);
}

TEST(GatewayBackendTest, AClientThatIsGoneLeavesItsBackendAtOnce) {
  ScriptedGateway gateway({Endless()});
  const auto sink = std::make_shared<RecordingSink>();
  const StatusOr<RequestId> id = gateway->Submit(ScriptedRequest(), sink);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(sink->WaitDeltas(3));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(gateway->Cancel(*id).ok());
  EXPECT_TRUE(Eventually([&] { return gateway.backends[0]->open() == 0; }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
  const Record record = sink->WaitEnd();
  ASSERT_TRUE(record.finish.has_value());
  EXPECT_EQ(record.finish->reason, FinishReason::kCancelled);
  EXPECT_EQ(gateway->Cancel(*id).code(), StatusCode::kNotFound);
}

TEST(GatewayBackendTest, ASinkThatWantsNoMoreGetsNoMore) {
  ScriptedGateway gateway({Endless()});
  const Record record = gateway.Submit(ScriptedRequest(), 4)->WaitEnd();
  EXPECT_EQ(record.deltas, 4);
  EXPECT_EQ(record.finish->reason, FinishReason::kCancelled);
  EXPECT_TRUE(record.finish->usage.estimated);
  EXPECT_EQ(record.finish->usage.completion_tokens, 4);
  EXPECT_TRUE(Eventually([&] { return gateway.backends[0]->open() == 0; }));
}

TEST(GatewayBackendTest, ARequestIsCancelledWhileItWaits) {
  ScriptedGateway gateway({Endless()}, [](GatewayConfig* config) {
    config->models[0].backends[0].max_concurrency = 1;
  });
  ASSERT_TRUE(gateway.Submit(ScriptedRequest())->WaitDeltas(1));
  const auto sink = std::make_shared<RecordingSink>();
  const StatusOr<RequestId> id = gateway->Submit(ScriptedRequest(), sink);
  ASSERT_TRUE(id.ok());
  ASSERT_EQ(gateway->Requests().size(), 2U);
  EXPECT_EQ(gateway->Requests()[1].queue_position, 0);
  EXPECT_TRUE(gateway->Cancel(*id).ok());
  EXPECT_EQ(sink->WaitEnd().status.code(), StatusCode::kCancelled);
  EXPECT_EQ(gateway.backends[0]->started(), 1);
}

TEST(GatewayBackendTest, DeadlinesHoldInTheQueueAndAtABackend) {
  ScriptedGateway gateway({Endless()}, [](GatewayConfig* config) {
    config->models[0].backends[0].max_concurrency = 1;
  });
  Request request = ScriptedRequest();
  request.timeout = std::chrono::milliseconds(500);
  const auto running = gateway.Submit(request);
  ASSERT_TRUE(running->WaitDeltas(1));
  request.timeout = std::chrono::milliseconds(20);
  EXPECT_EQ(gateway.Submit(request)->WaitEnd().status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(running->WaitEnd().status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Eventually([&] { return gateway.backends[0]->open() == 0; }));
  const std::vector<Request> sent = gateway.backends[0]->requests();
  ASSERT_EQ(sent.size(), 1U);
  ASSERT_TRUE(sent[0].timeout.has_value());
  EXPECT_LE(*sent[0].timeout, std::chrono::milliseconds(500));
}

TEST(GatewayBackendTest, TheGatewaysOwnTimeoutHoldsForAll) {
  ScriptedGateway gateway({Endless()}, [](GatewayConfig* config) {
    config->request_timeout = std::chrono::milliseconds(20);
  });
  Request request = ScriptedRequest();
  request.timeout = std::chrono::hours(1);
  EXPECT_EQ(gateway.Submit(request)->WaitEnd().status.code(), StatusCode::kDeadlineExceeded);
}

TEST(GatewayBackendTest, ASinkThatThrowsIsALostClient) {
  class Thrower final : public Sink {
   public:
    void OnAdmitted(RequestId, const Admission&) override {}
    bool OnDelta(RequestId, Delta) override { throw std::runtime_error("no"); }
    void OnEnd(RequestId, const Outcome& outcome) override { reason = outcome.finish.reason; }
    std::atomic<FinishReason> reason{FinishReason::kStop};
  };
  ScriptedGateway gateway({Endless()});
  const auto sink = std::make_shared<Thrower>();
  ASSERT_TRUE(gateway->Submit(ScriptedRequest(), sink).ok());
  EXPECT_TRUE(Eventually([&] { return sink->reason == FinishReason::kCancelled; }));
}

TEST(GatewayBackendTest, ASinkMaySubmitAndCancel) {
  class Busy final : public Sink {
   public:
    Busy(GatewayBackend* gateway, std::shared_ptr<RecordingSink> next)
        : gateway_(gateway), next_(std::move(next)) {}
    void OnAdmitted(RequestId, const Admission&) override {}
    bool OnDelta(RequestId id, Delta) override {
      if (!std::exchange(done_, true)) {
        EXPECT_TRUE(gateway_->Submit(ScriptedRequest("next"), next_).ok());
        EXPECT_TRUE(gateway_->Cancel(id).ok());
        EXPECT_TRUE(gateway_->GetHealth().ready);
      }
      return true;
    }
    void OnEnd(RequestId, const Outcome&) override { ended = true; }
    std::atomic<bool> ended{false};

   private:
    GatewayBackend* const gateway_;
    const std::shared_ptr<RecordingSink> next_;
    bool done_ = false;
  };
  ScriptedGateway gateway({Plain()});
  const auto next = std::make_shared<RecordingSink>();
  const auto sink = std::make_shared<Busy>(gateway.gateway.get(), next);
  ASSERT_TRUE(gateway->Submit(ScriptedRequest(), sink).ok());
  EXPECT_TRUE(next->WaitEnd().finish.has_value());
  EXPECT_TRUE(Eventually([&] { return sink->ended.load(); }));
}

// A backend that takes its time to take a large request.
struct SlowToTake {
  explicit SlowToTake(int tokens) {
    backend = std::make_shared<ScriptedBackend>([this, tokens](const Request& request) {
      if (std::get<std::string>(request.prompt).size() > 1000) {
        entered = true;
        EXPECT_TRUE(Eventually([this] { return let_go.load(); }));
      }
      return BackendScript{.tokens = tokens};
    });
    gateway.emplace(std::vector{backend});
  }
  std::atomic<bool> entered{false};
  std::atomic<bool> let_go{false};
  std::shared_ptr<ScriptedBackend> backend;
  std::optional<ScriptedGateway> gateway;
};

TEST(GatewayBackendTest, NoStreamWaitsForALargeRequest) {
  SlowToTake world(1 << 30);
  const auto stream = world.gateway->Submit(ScriptedRequest());
  ASSERT_TRUE(stream->WaitDeltas(1));
  const auto large = std::make_shared<RecordingSink>();
  const StatusOr<RequestId> id =
      (*world.gateway)->Submit(ScriptedRequest(std::string(1 << 20, 'x')), large);
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(Eventually([&] { return world.entered.load(); }));
  EXPECT_TRUE(stream->WaitDeltas(stream->record().deltas + 5));
  EXPECT_TRUE((*world.gateway)->Cancel(*id).ok());
  EXPECT_EQ(large->WaitEnd().status.code(), StatusCode::kCancelled);
  EXPECT_FALSE(world.let_go) << "nor does its own end";
  world.let_go = true;
  EXPECT_TRUE(Eventually([&] { return world.backend->started() == 2; }));
  EXPECT_TRUE(Eventually([&] { return world.backend->open() == 1; })) << "it is given up there";
  EXPECT_EQ(large->record().ends, 1);
}

TEST(GatewayBackendTest, ALargeRequestIsAnswered) {
  SlowToTake world(5);
  const Request request = ScriptedRequest(std::string(1 << 20, 'x'));
  const auto sink = world.gateway->Submit(request);
  world.let_go = true;
  EXPECT_EQ(sink->WaitEnd().text, ExpectedText(request, 5));
}

TEST(GatewayBackendTest, AGatewayThatStopsGivesUpWhatIsBeingTaken) {
  SlowToTake world(1 << 30);
  const auto sink = world.gateway->Submit(ScriptedRequest(std::string(1 << 20, 'x')));
  ASSERT_TRUE(Eventually([&] { return world.entered.load(); }));
  std::thread taker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    world.let_go = true;
  });
  world.gateway->gateway.reset();
  taker.join();
  EXPECT_EQ(sink->record().ends, 1);
  EXPECT_EQ(world.backend->open(), 0);
}

TEST(GatewayBackendTest, DrainWaitsForWhatRunsAndRejectsTheRest) {
  ScriptedGateway gateway({Plain()});
  const auto sink = gateway.Submit(ScriptedRequest());
  EXPECT_TRUE(gateway->Drain(std::chrono::seconds(60)).ok());
  EXPECT_EQ(sink->record().ends, 1);
  EXPECT_EQ(gateway.Submit(ScriptedRequest())->WaitEnd().status.code(), StatusCode::kUnavailable);
  EXPECT_FALSE(gateway->GetHealth().ready);
}

TEST(GatewayBackendTest, DrainCancelsWhatDoesNotEnd) {
  ScriptedGateway gateway({Endless()});
  const auto sink = gateway.Submit(ScriptedRequest());
  ASSERT_TRUE(sink->WaitDeltas(1));
  EXPECT_EQ(gateway->Drain(std::chrono::milliseconds(10)).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(sink->record().ends, 1);
}

TEST(GatewayBackendTest, EachRequestHasItsEndWhenTheGatewayIsDestroyed) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const auto backend = Endless();
  {
    ScriptedGateway gateway({backend}, [](GatewayConfig* config) {
      config->models[0].backends[0].max_concurrency = 10;
    });
    for (int i = 0; i < 20; ++i) sinks.push_back(gateway.Submit(ScriptedRequest()));
    ASSERT_TRUE(sinks[0]->WaitDeltas(1));
  }
  for (const auto& sink : sinks) EXPECT_EQ(sink->record().ends, 1);
  EXPECT_EQ(backend->open(), 0);
}

TEST(GatewayBackendTest, OnlyALocalEngineTokenizes) {
  ScriptedGateway gateway({Plain()});
  const Status status = gateway->Tokenize("a", false).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_EQ(status.api_code(), std::string("no_tokenizer"));
  EXPECT_EQ(gateway->TokenizeChat({}, true).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(gateway->Detokenize({1}).status().code(), StatusCode::kUnimplemented);
}

TEST(GatewayBackendTest, ABatchGoesOutTogether) {
  ScriptedGateway gateway({Plain()}, [](GatewayConfig* config) {
    config->dispatch.batching.dispatch = "batch";
    config->dispatch.batching.max_batch_size = 4;
    config->dispatch.batching.max_batch_wait = std::chrono::seconds(30);
  });
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 3; ++i) sinks.push_back(gateway.Submit(ScriptedRequest()));
  EXPECT_EQ(gateway.backends[0]->started(), 0);
  sinks.push_back(gateway.Submit(ScriptedRequest()));
  for (const auto& sink : sinks) {
    const Record record = sink->WaitEnd();
    ASSERT_TRUE(record.finish.has_value());
    EXPECT_EQ(record.finish->batch_num, 1U);
    EXPECT_EQ(record.finish->batch_size, 4);
  }
  EXPECT_EQ(gateway->Stats().total_batches, 1U);
}

TEST(GatewayBackendTest, NamesAreUnique) {
  const auto create = [](const std::function<void(GatewayConfig*)>& change) {
    static const base::RealClock clock;
    static base::SeededRandom random(1);
    GatewayConfig config;
    config.clock = &clock;
    config.random = &random;
    config.models.resize(1);
    config.models[0].name = "m";
    config.models[0].backends.push_back({.name = "a", .backend = Plain()});
    change(&config);
    return GatewayBackend::Create(std::move(config)).status();
  };
  EXPECT_TRUE(create([](GatewayConfig*) {}).ok());
  EXPECT_FALSE(create([](GatewayConfig* c) { c->models.clear(); }).ok());
  EXPECT_FALSE(create([](GatewayConfig* c) { c->models[0].aliases = {"m"}; }).ok());
  EXPECT_FALSE(create([](GatewayConfig* c) { c->models[0].name = "default"; }).ok());
  EXPECT_FALSE(create([](GatewayConfig* c) { c->models[0].backends.clear(); }).ok());
  EXPECT_FALSE(create([](GatewayConfig* c) { c->models[0].backends[0].backend = nullptr; }).ok());
  EXPECT_FALSE(create([](GatewayConfig* c) { c->models[0].backends[0].weight = 0; }).ok());
  EXPECT_FALSE(create([](GatewayConfig* c) {
                 c->models[0].backends.push_back({.name = "a", .backend = Plain()});
               }).ok());
}

}  // namespace
}  // namespace ropeway::gateway
