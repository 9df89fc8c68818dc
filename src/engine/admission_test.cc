// Admission, tenant by tenant, and the tickets of rejected requests: an engine core in virtual
// time.
#include "scheduler/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine_core.h"
#include "engine/engine_options.h"
#include "engine/test_executor.h"
#include "policy/scheduling_policy.h"

namespace ropeway::engine {
namespace {

using scheduler::AdmissionTickets;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// What a client asks for; equal texts are equal prompts.
struct AdmissionAsk {
  std::string tenant = "a";
  uint64_t text = 0;
  int32_t prompt = 30;
  int32_t outputs = 200;
  Priority priority = Priority::kMedium;
  std::shared_ptr<core::AdmissionGroup> group = nullptr;
};

// A client that sends its request until it is admitted.
struct AdmissionClient {
  AdmissionAsk ask;
  base::TimePoint next{};       // When it sends it.
  base::Duration impatience{};  // 0: it obeys Retry-After; else it comes again after this time.

  int tries = 0;
  base::TimePoint sent{};  // The first time.
  double promised = 0.0;   // The first Retry-After, in seconds; 0: it was never rejected.
  bool accepted = false;
  base::TimePoint admitted{};
  double predicted = 0.0;  // Its wait when it was admitted.
  base::TimePoint started{};
};

class AdmissionTest : public testing::Test {
 protected:
  // A step takes 5 ms, 0.22 ms for each of its prompts' tokens, and 0.6 ms for each decode: 64
  // sequences of 30 + 200 tokens take about 9 s.
  static base::Duration TimeOf(const core::Batch& batch) {
    base::Duration time = milliseconds(5);
    for (const core::BatchItem& item : batch.items) {
      const bool decodes = item.tokens.size() == 1 && item.sample;
      time += decodes ? microseconds(600)
                      : microseconds(220) * static_cast<int64_t>(item.tokens.size());
    }
    return time;
  }

  void Start() {
    constexpr int64_t kBlocks = 100'000;
    constexpr int32_t kContext = 32768;
    core_.reset();
    executor_.before_step = [this](const core::Batch& batch) {
      clock_.Advance(TimeOf(batch));
      return Status();
    };
    const executor::KvLayout layout = *executor_.Init(
        kBlocks, options_.scheduler.max_num_batched_tokens, options_.scheduler.max_num_seqs);
    EngineCoreOptions options = CoreOptionsOf(options_, kContext, layout);
    options.check_integrity = false;
    policy_ = *PolicyOf(options_);
    core_ =
        std::make_unique<EngineCore>(options, layout, &executor_, policy_.get(), &clock_,
                                     [this](std::vector<CoreEvent> events) { OnEvents(events); });
  }

  void OnEvents(const std::vector<CoreEvent>& events) {
    for (const CoreEvent& event : events) {
      const auto found = clients_.find(event.id);
      if (event.kind != CoreEvent::Kind::kStarted || found == clients_.end()) continue;
      found->second->started = step_begin_;
    }
  }

  core::CoreRequest Make(const AdmissionAsk& ask) {
    core::CoreRequest request;
    request.id = ++last_id_;
    for (int32_t i = 0; i < ask.prompt; ++i) {
      const uint64_t token = base::Mix64(ask.text, static_cast<uint64_t>(i));
      request.prompt.push_back(static_cast<TokenId>(token % 100'000));
    }
    request.max_tokens = ask.outputs;
    request.ignore_eos = true;
    request.tenant = ask.tenant;
    request.priority = ask.priority;
    request.group = ask.group;
    return request;
  }
  Status Add(const AdmissionAsk& ask) { return core_->Add(Make(ask)); }

  void Step() {
    step_begin_ = clock_.Now();
    core_->Step();
  }
  void RunUntilIdle() {
    while (!core_->idle()) Step();
  }

  double WaitOf(const std::string& tenant) {
    scheduler::LoadView view;
    core_->View(&view);
    return view.WaitUnbooked({tenant, 1.0, Priority::kMedium});
  }

  // The speed is known afterwards, and all is idle.
  void Warm() {
    for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(Add({.tenant = "warm", .text = i}).ok());
    RunUntilIdle();
  }

  void Send(AdmissionClient* client) {
    const base::TimePoint now = clock_.Now();
    if (client->tries++ == 0) client->sent = now;
    const double predicted = WaitOf(client->ask.tenant);
    core::CoreRequest request = Make(client->ask);
    const RequestId id = request.id;
    const Status status = core_->Add(std::move(request));
    if (status.ok()) {
      client->accepted = true;
      client->admitted = now;
      client->predicted = predicted;
      clients_[id] = client;
      return;
    }
    ASSERT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
    ASSERT_GE(status.retry_after_seconds(), 1);
    if (client->promised == 0.0) client->promised = status.retry_after_seconds();
    client->next =
        now + (client->impatience > base::Duration{} ? client->impatience
                                                     : seconds(status.retry_after_seconds()));
  }

  // Until `end`, or until all have been admitted and served.
  void RunClients(std::vector<AdmissionClient>* clients,
                  base::TimePoint end = base::TimePoint::max()) {
    int steps = 0;
    while (clock_.Now() < end) {
      base::TimePoint next = base::TimePoint::max();
      for (AdmissionClient& client : *clients) {
        if (!client.accepted && client.next <= clock_.Now()) Send(&client);
        if (testing::Test::HasFatalFailure()) return;
        if (!client.accepted) next = std::min(next, client.next);
      }
      ASSERT_LT(++steps, 100'000) << "no end in sight";
      if (!core_->idle()) {
        Step();
      } else if (next != base::TimePoint::max()) {
        clock_.AdvanceTo(next);
      } else {
        break;
      }
    }
    clients_.clear();
  }

  EngineOptions options_;
  base::VirtualClock clock_;
  TestExecutor executor_{TestExecutor::Kv::kNone};
  std::unique_ptr<policy::SchedulingPolicy> policy_;
  std::unique_ptr<EngineCore> core_;
  std::map<RequestId, AdmissionClient*> clients_;  // By the id of the request that was admitted.
  base::TimePoint step_begin_{};
  RequestId last_id_ = 0;
};

// --- What Retry-After promises.

struct AdmissionBurst {
  const char* name;
  int tenants;
  microseconds apart;
  bool warm;
};

class AdmissionBurstTest : public AdmissionTest,
                           public testing::WithParamInterface<AdmissionBurst> {};

TEST_P(AdmissionBurstTest, SevenHundredObedientClientsAreServedAsTheyWereTold) {
  constexpr size_t kClients = 700;
  double without_limit = 0.0;  // Seconds, with all of them in the queue at once.
  for (const bool limited : {false, true}) {
    options_.queue.max_wait = limited ? seconds(30) : std::chrono::hours(10);
    Start();
    if (GetParam().warm) Warm();
    std::vector<AdmissionClient> clients(kClients);
    const base::TimePoint begin = clock_.Now();
    for (size_t i = 0; i < kClients; ++i) {
      const int tenant = static_cast<int>(i) % GetParam().tenants;
      clients[i].ask = {.tenant = std::string(1, static_cast<char>('a' + tenant)),
                        .text = 1000 + i};
      clients[i].next = begin + GetParam().apart * static_cast<int64_t>(i);
    }
    RunClients(&clients);
    ASSERT_FALSE(HasFatalFailure());
    const double took = base::ToSeconds(clock_.Now() - begin);
    if (!limited) {
      without_limit = took;
      continue;
    }
    int by_second_try = 0;
    int rejected = 0;
    for (const AdmissionClient& client : clients) {
      by_second_try += client.tries <= 2 ? 1 : 0;
      if (client.promised > 0.0) {
        ++rejected;
        const double waited = base::ToSeconds(client.admitted - client.sent) / client.promised;
        EXPECT_GE(waited, 0.5);
        EXPECT_LE(waited, 1.5);
      }
      if (client.predicted > 5.0) {
        const double in_queue = base::ToSeconds(client.started - client.admitted);
        EXPECT_GE(in_queue, 0.5 * client.predicted);
        EXPECT_LE(in_queue, 1.5 * client.predicted);
      }
    }
    EXPECT_GE(by_second_try, static_cast<int>(0.95 * kClients));
    EXPECT_GE(rejected, 200) << "there is nothing to show";
    EXPECT_GE(without_limit / took, 0.95) << "slots were idle while clients waited to come again";
  }
}

INSTANTIATE_TEST_SUITE_P(Bursts, AdmissionBurstTest,
                         testing::Values(AdmissionBurst{"Warm", 1, microseconds(300), true},
                                         AdmissionBurst{"Cold", 1, microseconds(4000), false},
                                         AdmissionBurst{"TwoTenants", 2, microseconds(300), true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(AdmissionTest, ATicketKeepsTheOrderAndNoSlot) {
  options_.scheduler.max_num_seqs = 8;
  options_.queue.max_wait = seconds(4);
  Start();
  Warm();
  // 8 sequences take about 2 s together.
  std::vector<int> told;
  for (uint64_t i = 0; i < 60; ++i) {
    const Status status = Add({.text = 1000 + i});
    if (!status.ok()) told.push_back(status.retry_after_seconds());
  }
  ASSERT_GE(told.size(), 30U);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end())) << "who came later is told a later time";
  EXPECT_GE(told.back(), told.front() + 6);
  // One that never came goes behind them while the queue is long.
  const Status late = Add({.text = 5000});
  EXPECT_GE(late.retry_after_seconds(), told.back());
  EXPECT_THAT(late.message(), HasSubstr("longer than max_wait"));
  // None of them comes again, and the machine does not wait for them.
  while (WaitOf("a") > 0.9) Step();
  EXPECT_TRUE(Add({.text = 6000}).ok());
  // They are forgotten ten seconds after the last one was due.
  RunUntilIdle();
  clock_.Advance(seconds(late.retry_after_seconds()) + AdmissionTickets::kGrace);
  scheduler::LoadView view;
  EXPECT_TRUE(Add({.text = 6001}).ok());
  core_->View(&view);
  EXPECT_DOUBLE_EQ(view.Wait({"a", 1.0, Priority::kMedium}),
                   view.WaitUnbooked({"a", 1.0, Priority::kMedium}));
}

TEST_F(AdmissionTest, WhoComesTooEarlyIsToldTheSameTime) {
  options_.scheduler.max_num_seqs = 8;
  options_.queue.max_wait = seconds(4);
  Start();
  Warm();
  uint64_t text = 1000;
  while (Add({.text = text}).ok()) ++text;  // The last one has a ticket.
  for (uint64_t i = 1; i <= 30; ++i) ASSERT_FALSE(Add({.text = text + i}).ok());
  const Status mine = Add({.text = 9000});
  const base::TimePoint due = clock_.Now() + seconds(mine.retry_after_seconds());
  for (uint64_t i = 1; i <= 30; ++i) ASSERT_FALSE(Add({.text = 9000 + i}).ok());
  for (int i = 0; i < 4; ++i) {
    const base::TimePoint again = clock_.Now() + milliseconds(400);
    while (clock_.Now() < again) Step();
    const Status early = Add({.text = 9000});
    ASSERT_FALSE(early.ok());
    const base::TimePoint told = clock_.Now() + seconds(early.retry_after_seconds());
    EXPECT_GE(told, due);
    EXPECT_LT(told, due + seconds(1)) << "and no later one, though others came";
  }
}

// --- Tenants.

TEST_F(AdmissionTest, AnotherTenantsFloodRejectsNobodyElse) {
  Start();
  Warm();
  // 400 clients of one tenant that do not obey, and one of another that asks for little.
  std::vector<AdmissionClient> clients(400);
  for (size_t i = 0; i < clients.size(); ++i) {
    clients[i].ask = {.tenant = "a", .text = 1000 + i, .outputs = 300};
    clients[i].next = clock_.Now();
    clients[i].impatience = milliseconds(500);
  }
  int asked = 0;
  for (int second = 0; second < 40; ++second) {
    RunClients(&clients, clock_.Now() + seconds(1));
    ASSERT_FALSE(HasFatalFailure());
    const Status status = Add({.tenant = "b", .text = 100'000U + second, .outputs = 8});
    EXPECT_TRUE(status.ok()) << "in second " << second << ": " << status.message();
    ++asked;
  }
  const auto rejected = std::count_if(clients.begin(), clients.end(),
                                      [](const auto& client) { return client.promised > 0.0; });
  EXPECT_GE(rejected, 100);
  EXPECT_EQ(asked, 40);
}

// The queue's limit of tokens: each tenant has what it had alone, less what the others have.
TEST_F(AdmissionTest, QueuedTokensAreSharedByTenants) {
  options_.scheduler.max_num_seqs = 1;
  options_.queue.max_queued_tokens = 1000;
  options_.queue.max_wait = std::chrono::hours(10);
  Start();
  ASSERT_TRUE(Add({.tenant = "a", .outputs = 1000}).ok());
  Step();
  const auto fill = [this](const char* tenant) {
    int taken = 0;
    while (Add({.tenant = tenant, .text = last_id_ + 10, .prompt = 100}).ok()) ++taken;
    return taken;
  };
  EXPECT_EQ(fill("a"), 10);
  EXPECT_EQ(fill("b"), 5) << "half of the 1000 that were left";
  EXPECT_EQ(fill("c"), 2);
  EXPECT_EQ(fill("a"), 0) << "the one with the most is rejected first";
  const Status status = Add({.tenant = "a", .text = 77, .prompt = 100});
  EXPECT_THAT(status.message(), HasSubstr("max_queued_tokens 1000"));
  EXPECT_GE(status.retry_after_seconds(), 1);
  EXPECT_TRUE(Add({.tenant = "d", .text = 78, .prompt = 50}).ok());
}

TEST_F(AdmissionTest, APromptLongerThanTheLimitIsTakenByAnEmptyQueue) {
  options_.scheduler.max_num_seqs = 1;
  options_.queue.max_queued_tokens = 20;
  options_.queue.max_wait = std::chrono::hours(10);
  Start();
  ASSERT_TRUE(Add({.outputs = 1000}).ok());
  Step();
  EXPECT_TRUE(Add({.text = 1, .prompt = 300}).ok());
  EXPECT_FALSE(Add({.text = 2, .prompt = 1}).ok());
  EXPECT_TRUE(Add({.tenant = "b", .text = 3, .prompt = 10}).ok());
}

// --- One request with many prompts or choices.

TEST_F(AdmissionTest, AnEmptyMachineAdmitsAllThatIsOneRequest) {
  options_.queue.max_wait = seconds(10);
  Start();
  Warm();
  // 128 prompts of 800 tokens, which take more than max_wait together.
  const auto group = std::make_shared<core::AdmissionGroup>(128);
  for (uint64_t i = 0; i < 128; ++i) {
    const Status status = Add({.text = 1000 + i, .prompt = 800, .outputs = 16, .group = group});
    ASSERT_TRUE(status.ok()) << "prompt " << i << ": " << status.message();
  }
  EXPECT_GT(WaitOf("a"), 10.0);
  EXPECT_FALSE(Add({.text = 2000}).ok()) << "the next request waits for all of them";
  // If one is rejected, all are, and only the first gets a ticket for all.
  const auto rejected = std::make_shared<core::AdmissionGroup>(3);
  const Status first = Add({.text = 3000, .group = rejected});
  ASSERT_FALSE(first.ok());
  for (uint64_t i = 1; i < 3; ++i) {
    const Status status = Add({.text = 3000 + i, .group = rejected});
    EXPECT_EQ(status.message(), first.message());
    EXPECT_EQ(status.retry_after_seconds(), first.retry_after_seconds());
  }
  RunUntilIdle();
}

// --- Tickets alone.

class AdmissionTicketsTest : public testing::Test {
 protected:
  using Flow = AdmissionTickets::Flow;

  void AddOne(const Flow& flow, uint64_t key, base::TimePoint now, int after = 5) {
    tickets_.Add(flow, 1.0, {.key = key, .requests = 1, .work = {10.0, 20.0}, .seconds = after},
                 now);
  }
  int CountBefore(const Flow& flow, const AdmissionTickets::Ticket* ticket) {
    return tickets_.Before(flow, ticket, scheduler::LoadView()).count;
  }

  const Flow a_{"a", Priority::kMedium};
  const Flow a_low_{"a", Priority::kLow};
  const Flow b_{"b", Priority::kMedium};
  AdmissionTickets tickets_;
};

TEST_F(AdmissionTicketsTest, ATicketIsItsTenantsClassesAndTexts) {
  AddOne(a_, 1, seconds(100));
  AddOne(a_, 2, seconds(100));
  AddOne(b_, 1, seconds(100));
  const base::TimePoint due = seconds(105);
  EXPECT_EQ(tickets_.Find(a_, 3, due), nullptr);
  EXPECT_EQ(tickets_.Find(a_low_, 1, due), nullptr);
  AdmissionTickets::Ticket* const second = tickets_.Find(a_, 2, due);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(CountBefore(a_, second), 1);
  EXPECT_EQ(CountBefore(a_, tickets_.Find(a_, 1, due)), 0);
  tickets_.Remove(a_, tickets_.Find(a_, 1, due));
  EXPECT_EQ(CountBefore(a_, second), 0);
  EXPECT_EQ(tickets_.Find(a_, 1, due), nullptr);
  EXPECT_EQ(tickets_.size(), 2U);
  tickets_.Remove(a_, second);
  tickets_.Remove(b_, tickets_.Find(b_, 1, due));
  EXPECT_TRUE(tickets_.empty());
}

TEST_F(AdmissionTicketsTest, EqualTextsAtOnceAreManyClients) {
  const base::TimePoint now = seconds(100);
  EXPECT_EQ(tickets_.Find(a_, 1, now), nullptr);
  AddOne(a_, 1, now, 5);
  EXPECT_EQ(tickets_.Find(a_, 1, now + milliseconds(1)), nullptr) << "another client's";
  AddOne(a_, 1, now + milliseconds(1), 8);
  // Later, but before they are due, it is one of them that comes too early.
  AdmissionTickets::Ticket* const early = tickets_.Find(a_, 1, now + seconds(2));
  ASSERT_NE(early, nullptr);
  EXPECT_EQ(tickets_.Renew(early, now + seconds(2), 60), 3) << "it is told the same time";
  // In time, one after the other.
  AdmissionTickets::Ticket* const first = tickets_.Find(a_, 1, now + seconds(5));
  EXPECT_EQ(first, early);
  tickets_.Remove(a_, first);
  AdmissionTickets::Ticket* const second = tickets_.Find(a_, 1, now + seconds(8));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(tickets_.Renew(second, now + seconds(9), 7), 7) << "in time, but rejected again";
  EXPECT_EQ(second->due, now + seconds(16));
}

TEST_F(AdmissionTicketsTest, TheyEndTenSecondsAfterTheyAreDue) {
  AddOne(a_, 1, seconds(100), 5);
  AddOne(b_, 1, seconds(100), 9);
  tickets_.Expire(seconds(115));
  EXPECT_EQ(tickets_.size(), 2U);
  tickets_.Expire(seconds(115) + milliseconds(1));
  EXPECT_EQ(tickets_.size(), 1U);
  EXPECT_EQ(tickets_.Find(a_, 1, seconds(116)), nullptr);
  tickets_.Expire(seconds(120));
  EXPECT_TRUE(tickets_.empty());
}

TEST_F(AdmissionTicketsTest, ATenantsAreBounded) {
  for (uint64_t i = 0; i < 3000; ++i) AddOne(a_, i, seconds(1));
  EXPECT_EQ(tickets_.size(), static_cast<size_t>(AdmissionTickets::kMostAlone));
  for (uint64_t i = 0; i < 3000; ++i) AddOne(b_, i, seconds(1));
  EXPECT_EQ(tickets_.size(), static_cast<size_t>(AdmissionTickets::kMostAlone * 3 / 2));
  tickets_.Expire(seconds(1000));
  EXPECT_TRUE(tickets_.empty());
  AddOne(a_, 1, seconds(1001));
  EXPECT_EQ(tickets_.size(), 1U) << "their places are free again";
}

TEST(RetryAfterTest, ItIsHalfOfMaxWaitBeforeTheTurn) {
  EXPECT_EQ(scheduler::RetryAfter(31.0, seconds(30)), 16);
  EXPECT_EQ(scheduler::RetryAfter(100.2, seconds(30)), 86);
  EXPECT_EQ(scheduler::RetryAfter(1e9, seconds(30)), 3600);
  EXPECT_EQ(scheduler::RetryAfter(0.1, milliseconds(50)), 1);
  EXPECT_EQ(scheduler::RetryAfter(0.0, seconds(30)), 1) << "rejected for another reason";
  EXPECT_EQ(scheduler::RetryAfter(20.0, seconds(30)), 10);
}

}  // namespace
}  // namespace ropeway::engine
