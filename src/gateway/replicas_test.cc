#include "gateway/replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using FailureKind = FailureKind;

constexpr PlaceAsk kBeyond{.newcomer = true, .beyond = true};

ReplicaRules RulesForTests() {
  ReplicaRules rules;
  rules.table_entries = 1 << 14;
  return rules;
}

class ReplicaTest : public testing::Test {
 protected:
  // The next probe, which must be due, is answered so.
  bool Probe(const StatusOr<BackendFacts>& facts, bool alone = false) {
    uint64_t probe = 0;
    bool ejected = false;
    EXPECT_TRUE(replica_.TakeProbe(now_, &probe, &ejected));
    return replica_.OnProbe(probe, facts, alone, now_);
  }
  void ProbeWhenDue(const StatusOr<BackendFacts>& facts) {
    now_ = std::max(now_, replica_.next_look(now_));
    Probe(facts);
  }
  bool Fail(FailureKind kind, bool last = false, int retry_after = 0) {
    replica_.OnSent(10, false, now_);
    replica_.OnLeft(10, false);
    return replica_.OnFailure(kind, retry_after, last, now_);
  }
  static BackendFacts Facts(int places, int running = 0, int waiting = 0) {
    BackendFacts facts;
    facts.places = places;
    facts.running = running;
    facts.waiting = waiting;
    return facts;
  }

  base::TimePoint now_ = seconds(100);
  Replica replica_{{.name = "r"}, RulesForTests()};
  const Status refused_{StatusCode::kUnavailable, "connection refused"};
};

TEST_F(ReplicaTest, ReportedPlacesCountAndOthersTakeTheirs) {
  EXPECT_EQ(replica_.limit(now_), 16) << "until it reports";
  EXPECT_TRUE(replica_.View(now_).learned);
  Probe(Facts(4));
  EXPECT_EQ(replica_.limit(now_), 4);
  EXPECT_FALSE(replica_.View(now_).learned);
  ProbeWhenDue(Facts(4, 3));
  EXPECT_EQ(replica_.limit(now_), 4) << "once may be a request of ours that just ended";
  ProbeWhenDue(Facts(4, 3));
  EXPECT_EQ(replica_.limit(now_), 1);
  ProbeWhenDue(Facts(4, 0));
  EXPECT_EQ(replica_.limit(now_), 4);
}

TEST_F(ReplicaTest, OneThatPreemptsHasMorePlacesForUrgentRequests) {
  BackendFacts facts = Facts(5);
  Probe(facts);
  EXPECT_EQ(replica_.free_places(now_, kBeyond), 5);
  facts.preempts = true;
  ProbeWhenDue(facts);
  EXPECT_EQ(replica_.free_places(now_), 5);
  EXPECT_EQ(replica_.free_places(now_, kBeyond), 8);
  for (int i = 0; i < 7; ++i) replica_.OnSent(10, false, now_);
  EXPECT_EQ(replica_.free_places(now_), 0);
  EXPECT_EQ(replica_.free_places(now_, kBeyond), 1);
}

TEST_F(ReplicaTest, OurOwnRequestsAreNoOthers) {
  for (int i = 0; i < 3; ++i) replica_.OnSent(10, false, now_);
  for (int i = 0; i < 4; ++i) ProbeWhenDue(Facts(4, 3));
  EXPECT_EQ(replica_.limit(now_), 4);
  EXPECT_EQ(replica_.free_places(now_), 1);
}

TEST_F(ReplicaTest, WhateverItReportsThereIsAPlaceAndABound) {
  Probe(Facts(0, 2'000'000'000, 2'000'000'000));
  ProbeWhenDue(Facts(-5, 2'000'000'000, 2'000'000'000));
  EXPECT_EQ(replica_.limit(now_), 1);
  ProbeWhenDue(Facts(1'000'000'000, -7, -7));
  ProbeWhenDue(Facts(1'000'000'000, -7, -7));
  EXPECT_EQ(replica_.limit(now_), 256);
}

TEST_F(ReplicaTest, ASetNumberIsTheBound) {
  Replica set({.name = "set", .max_concurrency = 3}, RulesForTests());
  uint64_t probe = 0;
  bool ejected = false;
  ASSERT_TRUE(set.TakeProbe(now_, &probe, &ejected));
  set.OnProbe(probe, Facts(64), false, now_);
  EXPECT_EQ(set.limit(now_), 3);
}

TEST_F(ReplicaTest, LittleFreeMemoryLeavesFewPlaces) {
  ReplicaRules rules = RulesForTests();
  rules.memory_control = true;
  Replica controlled({.name = "m"}, rules);
  const auto answer = [&](double free) {
    uint64_t probe = 0;
    bool ejected = false;
    now_ = std::max(now_, controlled.next_look(now_));
    ASSERT_TRUE(controlled.TakeProbe(now_, &probe, &ejected));
    BackendFacts facts = Facts(64);
    facts.free_memory = free;
    controlled.OnProbe(probe, facts, false, now_);
  };
  answer(0.95);
  EXPECT_EQ(controlled.limit(now_), 16);
  answer(0.3);
  EXPECT_EQ(controlled.limit(now_), 4);
  answer(0.7);
  EXPECT_EQ(controlled.limit(now_), 4) << "unchanged between";
  answer(0.95);
  EXPECT_EQ(controlled.limit(now_), 16);
}

TEST_F(ReplicaTest, FailuresInARowEjectAndSuccessForgives) {
  EXPECT_FALSE(Fail(FailureKind::kBroken));
  EXPECT_FALSE(Fail(FailureKind::kBroken));
  replica_.OnCompleted(seconds(1), now_);
  EXPECT_FALSE(Fail(FailureKind::kBroken));
  EXPECT_FALSE(Fail(FailureKind::kBroken));
  EXPECT_TRUE(replica_.usable(now_));
  EXPECT_TRUE(Fail(FailureKind::kBroken));
  EXPECT_FALSE(replica_.alive());
  EXPECT_EQ(replica_.free_places(now_), 0);
}

TEST_F(ReplicaTest, OneThatTakesNoConnectionsIsOutSooner) {
  EXPECT_FALSE(Fail(FailureKind::kUnreachable));
  EXPECT_TRUE(Fail(FailureKind::kUnreachable));
}

TEST_F(ReplicaTest, TheLastOneIsNotEjectedForItsRequests) {
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Fail(FailureKind::kBroken, true));
  EXPECT_TRUE(replica_.usable(now_));
  EXPECT_TRUE(Fail(FailureKind::kUnreachable, true)) << "but where it is not there";
}

TEST_F(ReplicaTest, ABadRequestSaysNothingAboutIt) {
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Fail(FailureKind::kRejected));
  EXPECT_TRUE(replica_.usable(now_));
  EXPECT_EQ(replica_.View(now_).failed, 0U);
}

TEST_F(ReplicaTest, ItReturnsByAProbeAfterTimesThatDouble) {
  Probe(BackendFacts());
  base::Duration before{};
  for (int i = 0; i < 4; ++i) {
    Fail(FailureKind::kBroken);
    Fail(FailureKind::kBroken);
    ASSERT_TRUE(Fail(FailureKind::kBroken)) << i;
    const base::TimePoint ejected = now_;
    while (!replica_.alive()) ProbeWhenDue(BackendFacts());
    const base::Duration out = now_ - ejected;
    EXPECT_GE(out, seconds(1 << i));
    EXPECT_GT(out, before);
    before = out;
  }
  now_ += seconds(100);
  Fail(FailureKind::kBroken);
  Fail(FailureKind::kBroken);
  ASSERT_TRUE(Fail(FailureKind::kBroken));
  const base::TimePoint ejected = now_;
  while (!replica_.alive()) ProbeWhenDue(BackendFacts());
  EXPECT_LE(now_ - ejected, seconds(3)) << "a quiet time forgives";
}

TEST_F(ReplicaTest, OneThatWasNotThereIsBackWhenItAnswers) {
  Probe(BackendFacts());
  for (int i = 0; i < 6; ++i) {
    Fail(FailureKind::kUnreachable);
    ASSERT_TRUE(Fail(FailureKind::kUnreachable)) << i;
    const base::TimePoint ejected = now_;
    while (!replica_.alive()) ProbeWhenDue(BackendFacts());
    EXPECT_LE(now_ - ejected, seconds(3)) << "it is killed often, and started again: " << i;
  }
}

TEST_F(ReplicaTest, AloneItReturnsEarly) {
  for (int i = 0; i < 4; ++i) {
    Fail(FailureKind::kUnreachable);
    Fail(FailureKind::kUnreachable);
    const base::TimePoint ejected = now_;
    while (!replica_.alive()) {
      now_ = std::max(now_, replica_.next_look(now_));
      Probe(BackendFacts(), true);
    }
    EXPECT_LE(now_ - ejected, seconds(2)) << i;
  }
}

TEST_F(ReplicaTest, ItsPlacesGrowWhenItReturns) {
  Probe(Facts(20));
  Fail(FailureKind::kUnreachable);
  Fail(FailureKind::kUnreachable);
  while (!replica_.alive()) ProbeWhenDue(Facts(20));
  EXPECT_EQ(replica_.limit(now_), 2);
  EXPECT_EQ(replica_.View(now_).state, ReplicaView::State::kReturning);
  EXPECT_LE(replica_.next_look(now_), now_ + seconds(1));
  now_ += seconds(5);
  EXPECT_NEAR(replica_.limit(now_), 11, 1);
  now_ += seconds(5);
  EXPECT_EQ(replica_.limit(now_), 20);
  EXPECT_EQ(replica_.View(now_).state, ReplicaView::State::kUp);
}

TEST_F(ReplicaTest, ProbesThatFailEjectItAndSoDoesSilence) {
  EXPECT_FALSE(Probe(refused_));
  now_ += seconds(1);
  EXPECT_TRUE(Probe(refused_));
  EXPECT_EQ(replica_.View(now_).reason, "connection refused");
  while (!replica_.alive()) ProbeWhenDue(BackendFacts());

  for (int i = 0; i < 2; ++i) {
    now_ = std::max(now_, replica_.next_look(now_)) + seconds(10);
    uint64_t probe = 0;
    bool ejected = false;
    ASSERT_TRUE(replica_.TakeProbe(now_, &probe, &ejected));
    EXPECT_FALSE(replica_.TakeProbe(now_ + seconds(4), &probe, &ejected)) << "one at a time";
    now_ += seconds(5);
    (void)replica_.TakeProbe(now_, &probe, &ejected);
    EXPECT_EQ(ejected, i == 1);
    replica_.OnProbe(probe, BackendFacts(), true, now_ - seconds(1));  // Late: without effect.
  }
  EXPECT_FALSE(replica_.alive());
}

TEST_F(ReplicaTest, OneThatIsNotReadyGetsNothingAndSaysWhy) {
  BackendFacts loading;
  loading.ready = false;
  loading.reason = "loading the model";
  EXPECT_FALSE(Probe(loading));
  EXPECT_FALSE(replica_.usable(now_));
  EXPECT_EQ(replica_.View(now_).state, ReplicaView::State::kNotReady);
  EXPECT_EQ(replica_.View(now_).reason, "loading the model");
  EXPECT_LE(replica_.next_look(now_), now_ + seconds(1)) << "it is asked again soon";
  ProbeWhenDue(BackendFacts());
  EXPECT_TRUE(replica_.usable(now_));
}

TEST_F(ReplicaTest, ABusyOneIsLeftAloneForAWhile) {
  Fail(FailureKind::kBusy);
  EXPECT_FALSE(replica_.usable(now_));
  EXPECT_TRUE(replica_.alive());
  Fail(FailureKind::kBusy);  // Sent together with the first.
  now_ += milliseconds(250);
  EXPECT_TRUE(replica_.usable(now_));
  Fail(FailureKind::kBusy);
  now_ += milliseconds(499);
  EXPECT_FALSE(replica_.usable(now_)) << "longer the second time";
  now_ += milliseconds(1);
  EXPECT_TRUE(replica_.usable(now_));
  Fail(FailureKind::kBusy, false, 3);
  EXPECT_FALSE(replica_.usable(now_ + milliseconds(2999)));
  EXPECT_TRUE(replica_.usable(now_ + seconds(3))) << "as it says";
  now_ += seconds(3);
  Fail(FailureKind::kBusy, false, 1'000'000);
  EXPECT_TRUE(replica_.usable(now_ + seconds(10))) << "but not for ever";
}

TEST_F(ReplicaTest, WhatItIsMustBeAskedAgainAfterAFailure) {
  BackendFacts facts;
  facts.model_digest = "d";
  facts.numerics = "1";
  Probe(facts);
  EXPECT_EQ(replica_.identity(), nullptr) << "its limits are not known";
  facts.limits = "2048";
  ProbeWhenDue(facts);
  ASSERT_NE(replica_.identity(), nullptr);
  Fail(FailureKind::kBroken);
  EXPECT_EQ(replica_.identity(), nullptr);
  EXPECT_LE(replica_.next_look(now_), now_ + milliseconds(250));
  ProbeWhenDue(facts);
  EXPECT_NE(replica_.identity(), nullptr);
}

TEST_F(ReplicaTest, LatenciesAreOfTheLastRequests) {
  for (int i = 1; i <= 1000; ++i) replica_.OnCompleted(milliseconds(i), now_);
  const ReplicaView view = replica_.View(now_);
  EXPECT_EQ(view.completed, 1000U);
  EXPECT_NEAR(base::ToSeconds(view.latency_p50), 0.872, 0.002);
  EXPECT_NEAR(base::ToSeconds(view.latency_p99), 0.998, 0.002);
}

// --- Routes.

class ReplicasTest : public testing::Test {
 protected:
  void Start(int count, std::vector<double> weights = {}, int places = 8) {
    std::vector<BackendOptions> options;
    for (int i = 0; i < count; ++i) {
      options.push_back({.name = "http://host:" + std::to_string(8000 + i),
                         .weight = weights.empty() ? 1.0 : weights[static_cast<size_t>(i)],
                         .max_concurrency = places});
    }
    replicas_.emplace(std::move(options), RulesForTests());
  }
  int Send(const std::vector<uint64_t>& blocks, int64_t tokens = 100) {
    const Route route = replicas_->Choose(
        {.blocks = blocks, .tokens = tokens, .free = replicas_->Free(now_)}, now_);
    if (route.replica < 0) return -1;
    (*replicas_)[route.replica].OnSent(tokens, false, now_);
    replicas_->NoteSent(blocks, route.replica);
    return route.replica;
  }
  void End(int replica, int64_t tokens = 100) { (*replicas_)[replica].OnLeft(tokens, false); }
  static std::vector<uint64_t> Chain(uint64_t seed, int count) {
    std::vector<uint64_t> blocks;
    for (int i = 0; i < count; ++i) blocks.push_back(base::Mix64(seed, static_cast<uint64_t>(i)));
    return blocks;
  }

  base::TimePoint now_ = seconds(100);
  std::optional<Replicas> replicas_;
};

TEST_F(ReplicasTest, WithoutAPrefixTheLeastLoadedTakesIt) {
  Start(3);
  std::vector<int> sent(3);
  for (int i = 0; i < 12; ++i) ++sent[static_cast<size_t>(Send({}))];
  EXPECT_EQ(sent, std::vector<int>({4, 4, 4}));
  End(1);
  EXPECT_EQ(Send({}), 1);
  // A request of many tokens counts as many.
  Start(2);
  EXPECT_EQ(Send({}, 5000), 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Send({}, 100), 1);
}

TEST_F(ReplicasTest, WeightsDivideTheLoad) {
  Start(2, {3.0, 1.0});
  std::vector<int> sent(2);
  for (int i = 0; i < 8; ++i) ++sent[static_cast<size_t>(Send({}))];
  EXPECT_EQ(sent, std::vector<int>({6, 2}));
}

TEST_F(ReplicasTest, AConversationStaysWhereItsCacheIs) {
  Start(4);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::vector<uint64_t> blocks = Chain(seed, 5);
    const int home = Send(blocks);
    End(home);
    for (int turn = 0; turn < 4; ++turn) {
      blocks = Chain(seed, 10 + 5 * turn);
      EXPECT_EQ(Send(blocks), home);
      End(home);
    }
  }
}

TEST_F(ReplicasTest, NoReplicaGetsMuchMoreThanTheOthersForACache) {
  Start(4, {}, 64);
  const std::vector<uint64_t> shared = Chain(7, 50);
  std::vector<int> sent(4);
  for (int i = 0; i < 40; ++i) ++sent[static_cast<size_t>(Send(shared, 900))];
  // 1.25 times the mean of 10, the request, and 800 of 900 tokens.
  for (const int count : sent) EXPECT_LE(count, 15);
  EXPECT_GE(std::count_if(sent.begin(), sent.end(), [](int count) { return count > 0; }), 3);
}

TEST_F(ReplicasTest, WithoutATableGatewaysAgree) {
  // Two gateways that know nothing of each other, and list the replicas in another order.
  Start(3);
  std::vector<BackendOptions> turned;
  for (int i = 2; i >= 0; --i) {
    turned.push_back({.name = (*replicas_)[i].options().name, .max_concurrency = 8});
  }
  Replicas other(turned, RulesForTests());
  int same = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<uint64_t> blocks = Chain(seed, 8);
    const int here = Send(blocks);
    End(here);
    same +=
        other.Choose({.blocks = blocks, .tokens = 100, .free = other.Free(now_)}, now_).replica ==
                2 - here
            ? 1
            : 0;
  }
  EXPECT_EQ(same, 50);
}

TEST_F(ReplicasTest, ThoseThatCannotTakeItAreLeftOut) {
  Start(3);
  const std::vector<uint64_t> blocks = Chain(3, 8);
  const int home = Send(blocks);
  End(home);
  const Route away = replicas_->Choose(
      {.blocks = blocks, .tokens = 100, .free = replicas_->Free(now_), .avoided = MaskOf(home)},
      now_);
  EXPECT_NE(away.replica, home);
  const Route only = replicas_->Choose({.blocks = blocks,
                                        .tokens = 100,
                                        .free = replicas_->Free(now_),
                                        .allowed = MaskOf(home),
                                        .avoided = MaskOf(home)},
                                       now_);
  EXPECT_EQ(only.replica, home) << "there is no other";
  (*replicas_)[home].set_draining(true);
  EXPECT_NE(
      replicas_->Choose({.blocks = blocks, .tokens = 100, .free = replicas_->Free(now_)}, now_)
          .replica,
      home);
  EXPECT_EQ(replicas_
                ->Choose({.blocks = blocks,
                          .tokens = 100,
                          .free = replicas_->Free(now_),
                          .allowed = MaskOf(home)},
                         now_)
                .replica,
            -1);
}

TEST_F(ReplicasTest, AFullHomeIsNamedWithWhatItWouldSave) {
  Start(2);
  const std::vector<uint64_t> blocks = Chain(3, 30);
  const int home = Send(blocks, 1);
  for (int i = 0; i < 7; ++i) (*replicas_)[home].OnSent(1, false, now_);
  for (int i = 0; i < 4; ++i) (*replicas_)[1 - home].OnSent(2, false, now_);
  const Route route =
      replicas_->Choose({.blocks = blocks, .tokens = 1, .free = replicas_->Free(now_)}, now_);
  EXPECT_EQ(route.preferred, home);
  EXPECT_EQ(route.replica, 1 - home);
  EXPECT_EQ(route.gain, 30);
  EXPECT_EQ(route.cached, 0);
  replicas_->ForgetCache(home);
  EXPECT_EQ(
      replicas_->Choose({.blocks = blocks, .tokens = 1, .free = replicas_->Free(now_)}, now_).gain,
      0);
}

// Dialogues of several turns, at random times, through so many replicas: the share of the prompts'
// pieces that was cached where they went.
double CachedShare(int count, bool by_prefix) {
  std::vector<BackendOptions> options;
  for (int i = 0; i < count; ++i) {
    options.push_back({.name = "r" + std::to_string(i), .max_concurrency = 64});
  }
  Replicas replicas(options, RulesForTests());
  // The truth: what each replica was sent.
  std::vector<PrefixTable> caches(static_cast<size_t>(count), PrefixTable(1 << 16));
  base::SeededRandom random(5);
  struct Dialogue {
    uint64_t seed = 0;
    int blocks = 0;
    int turns = 0;
  };
  std::vector<Dialogue> open(12);
  std::vector<std::pair<int, int64_t>> running;
  uint64_t next_seed = 100;
  double cached = 0.0;
  double all = 0.0;
  const base::TimePoint now = seconds(1);
  for (int i = 0; i < 3000; ++i) {
    Dialogue& one = open[random.Below(open.size())];
    if (one.turns == 0) one = {++next_seed, 0, static_cast<int>(random.Between(2, 9))};
    --one.turns;
    one.blocks += static_cast<int>(random.Between(4, 12));
    std::vector<uint64_t> blocks = {1, 2, 3};  // The system prompt.
    for (int b = 0; b < one.blocks; ++b) {
      blocks.push_back(base::Mix64(one.seed, static_cast<uint64_t>(b)));
    }
    const auto tokens = static_cast<int64_t>(16 * blocks.size() + 100);
    int replica =
        replicas.Choose({.blocks = blocks, .tokens = tokens, .free = replicas.Free(now)}, now)
            .replica;
    if (!by_prefix) replica = static_cast<int>(random.Below(static_cast<uint64_t>(count)));
    PrefixTable& cache = caches[static_cast<size_t>(replica)];
    cached += cache.Depth(blocks, 0);
    all += static_cast<double>(blocks.size());
    cache.Note(blocks, 0);
    replicas.NoteSent(blocks, replica);
    replicas[replica].OnSent(tokens, false, now);
    running.emplace_back(replica, tokens);
    if (running.size() < 6) continue;
    const size_t ended = random.Below(running.size());
    replicas[running[ended].first].OnLeft(running[ended].second, false);
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(ended));
  }
  return cached / all;
}

TEST(AffinityTest, ThreeReplicasCacheNearlyAsMuchAsOne) {
  const double one = CachedShare(1, true);
  const double three = CachedShare(3, true);
  const double at_random = CachedShare(3, false);
  EXPECT_GT(three, one - 0.05);
  EXPECT_LT(at_random, one - 0.15) << "or the test says nothing";
}

}  // namespace
}  // namespace ropeway::gateway
