// No tenant shuts out another at the places of the replicas.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "gateway/test_dispatcher.h"

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class DispatcherTenantsTest : public DispatchTest {
 protected:
  // So many tenants may send to so many replicas with so many places.
  static DispatchOptions Shared(int tenants, int replicas, int places) {
    DispatchOptions options = OptionsOf(replicas, places);
    options.rules.tenants = tenants;
    return options;
  }
  // Replicas that are told the tenants, and share themselves.
  void StartSharing(const DispatchOptions& options) {
    Start(options);
    for (StatusOr<BackendFacts>& facts : facts_) {
      facts->preempts = facts->shares_tenants = true;
    }
    Pass(seconds(6));
  }
  std::vector<RequestId> AddMany(int count, const Asked& asked) {
    std::vector<RequestId> ids;
    for (int i = 0; i < count; ++i) ids.push_back(Add(asked));
    return ids;
  }
  int Sent(const std::vector<RequestId>& ids) const {
    return static_cast<int>(
        std::count_if(ids.begin(), ids.end(), [this](RequestId id) { return IsSent(id); }));
  }
  // Predictions know how long things take: here 150 tokens a second.
  void Measure() {
    const std::vector<RequestId> measured = AddMany(3, {.tenant = "measured", .max_tokens = 400});
    for (int i = 0; i < 20; ++i) {
      Pass(milliseconds(200));
      for (const RequestId id : measured) Output(id, 10);
    }
    for (const RequestId id : measured) End(id);
  }
};

TEST_F(DispatcherTenantsTest, OnePlaceIsKeptForATenantThatRunsNothing) {
  Start(Shared(2, 1, 4));
  const std::vector<RequestId> greedy = AddMany(10, {.tenant = "a"});
  EXPECT_EQ(Sent(greedy), 3);
  const RequestId honest = Add({.tenant = "b"});
  EXPECT_TRUE(IsSent(honest)) << "the place that was kept for it";
  EXPECT_EQ(dispatcher_->running(), 4);
  End(honest);
  EXPECT_EQ(Sent(greedy), 3) << "it is kept for b again";
}

TEST_F(DispatcherTenantsTest, NoClassTakesTheKeptPlace) {
  Start(Shared(2, 1, 4));
  EXPECT_EQ(Sent(AddMany(10, {.tenant = "a", .priority = Priority::kHigh})), 3);
  EXPECT_TRUE(IsSent(Add({.tenant = "b", .priority = Priority::kLow})));
}

TEST_F(DispatcherTenantsTest, NothingIsKeptWhereAllTenantsRunOrThereIsOne) {
  Start(Shared(2, 1, 4));
  EXPECT_TRUE(IsSent(Add({.tenant = "b"})));
  EXPECT_EQ(Sent(AddMany(10, {.tenant = "a"})), 3) << "b and a are there: who else may come?";
  Start(Shared(1, 1, 4));
  EXPECT_EQ(Sent(AddMany(10, {.tenant = "a"})), 4);
  Start(Shared(2, 1, 1));
  EXPECT_EQ(Sent(AddMany(10, {.tenant = "a"})), 1) << "a lone place is not kept";
}

TEST_F(DispatcherTenantsTest, EachReplicaKeepsOne) {
  Start(Shared(3, 2, 4));
  const std::vector<RequestId> greedy = AddMany(20, {.tenant = "a"});
  EXPECT_EQ(Sent(greedy), 6);
  const RequestId b = Add({.tenant = "b"});
  const RequestId c = Add({.tenant = "c"});
  ASSERT_TRUE(IsSent(b) && IsSent(c));
  EXPECT_NE(ReplicaOf(b), ReplicaOf(c));
}

TEST_F(DispatcherTenantsTest, ReplicasOfOnePlaceKeepOneTogether) {
  Start(Shared(2, 3, 1));
  const std::vector<RequestId> greedy = AddMany(10, {.tenant = "a"});
  EXPECT_EQ(Sent(greedy), 2);
  const RequestId honest = Add({.tenant = "b"});
  EXPECT_TRUE(IsSent(honest));
  const RequestId next = Add({.tenant = "b"});
  EXPECT_FALSE(IsSent(next));
  End(honest);
  EXPECT_TRUE(IsSent(next)) << "nothing of b runs, so the place is its own again";
  EXPECT_EQ(Sent(greedy), 2);
}

TEST_F(DispatcherTenantsTest, WithoutFairnessNothingIsKept) {
  for (const char* policy : {"fcfs", "priority", "sjf"}) {
    DispatchOptions options = Shared(2, 1, 4);
    options.queue.policy = policy;
    Start(options);
    EXPECT_EQ(Sent(AddMany(10, {.tenant = "a"})), 4) << policy;
  }
}

TEST_F(DispatcherTenantsTest, LearnedPlacesGrowThoughOneIsKept) {
  DispatchOptions options = Shared(2, 1, 0);
  options.rules.places = {.start = 4, .least = 1, .most = 64};
  Start(options);
  for (int round = 0; round < 20; ++round) {
    const std::vector<RequestId> greedy = AddMany(8, {.tenant = "a"});
    Pass(milliseconds(10));
    for (const RequestId id : greedy) {
      ASSERT_TRUE(IsSent(id));
      Output(id);
      End(id);
    }
  }
  EXPECT_GE(dispatcher_->ViewOf(0, now_).places, 8);
}

// What is above its share gets no freed place while one below waits, whatever the classes.
TEST_F(DispatcherTenantsTest, AFreedPlaceIsForWhoIsBelowItsShare) {
  for (const Priority of_greedy : {Priority::kMedium, Priority::kHigh}) {
    Start(Shared(2, 1, 8));
    const std::vector<RequestId> greedy = AddMany(40, {.tenant = "a", .priority = of_greedy});
    ASSERT_EQ(Sent(greedy), 7);
    const std::vector<RequestId> honest = AddMany(10, {.tenant = "b"});
    ASSERT_EQ(Sent(honest), 1);
    for (int ended = 1; ended <= 3; ++ended) {
      End(greedy[static_cast<size_t>(ended - 1)]);
      EXPECT_EQ(Sent(honest), 1 + ended) << ended;
    }
    End(greedy[3]);
    EXPECT_EQ(Sent(honest), 4) << "its share, half of the places";
    EXPECT_EQ(dispatcher_->running(), 8);
  }
}

TEST_F(DispatcherTenantsTest, SharesAreByWeight) {
  Start(Shared(2, 1, 8));
  const std::vector<RequestId> greedy = AddMany(40, {.tenant = "a"});
  const std::vector<RequestId> heavy = AddMany(10, {.tenant = "b", .weight = 3.0});
  for (size_t i = 0; i < 7; ++i) End(greedy[i]);
  EXPECT_EQ(Sent(heavy), 6);
  EXPECT_EQ(Sent(greedy), 2);
}

TEST_F(DispatcherTenantsTest, ATenantBelowItsShareDoesNotWaitForItsCacheBesideRivals) {
  Start(Shared(2, 2, 4));
  std::vector<uint64_t> blocks;
  for (uint64_t i = 1; i <= 40; ++i) blocks.push_back(i * 77);
  const Asked cached{.tenant = "b", .prompt = 640, .max_tokens = 10, .blocks = blocks};
  const int home = ReplicaOf(Add(cached));
  const std::vector<RequestId> greedy = AddMany(40, {.tenant = "a"});
  const RequestId elsewhere = Add({.tenant = "b"});
  ASSERT_EQ(ReplicaOf(elsewhere), 1 - home);
  ASSERT_EQ(dispatcher_->running(), 8);
  const RequestId waits = Add(cached);
  for (const RequestId id : greedy) {
    if (ReplicaOf(id) != 1 - home) continue;
    End(id);
    break;
  }
  EXPECT_EQ(ReplicaOf(waits), 1 - home) << "a would have taken the place meanwhile";
}

// --- Replicas that share by themselves.

TEST_F(DispatcherTenantsTest, ARopewayGetsOneOfEachNewcomerBeyondItsPlaces) {
  StartSharing(Shared(9, 1, 8));
  const std::vector<RequestId> greedy = AddMany(20, {.tenant = "a"});
  EXPECT_EQ(Sent(greedy), 8) << "none of its places is kept";
  for (const char* tenant : {"b", "c", "d"}) {
    const std::vector<RequestId> its = AddMany(3, {.tenant = tenant});
    EXPECT_EQ(Sent(its), 1) << tenant;
    EXPECT_TRUE(IsSent(its[0]));
  }
  EXPECT_TRUE(IsSent(Add({.tenant = "e"}))) << "half as many as its places";
  EXPECT_FALSE(IsSent(Add({.tenant = "f"}))) << "and no more";
}

TEST_F(DispatcherTenantsTest, ClassHighLeavesOneOfThemForNewcomers) {
  StartSharing(Shared(2, 1, 8));
  const std::vector<RequestId> greedy = AddMany(40, {.tenant = "a", .priority = Priority::kHigh});
  EXPECT_EQ(Sent(greedy), 8 + 3);
  EXPECT_TRUE(IsSent(Add({.tenant = "b", .priority = Priority::kLow})));
}

// Nor does it pass what waits for a place below its share.
TEST_F(DispatcherTenantsTest, ClassHighGoesNotBeyondWhileOneBelowItsShareWaits) {
  StartSharing(Shared(2, 1, 8));
  const std::vector<RequestId> greedy = AddMany(40, {.tenant = "a", .priority = Priority::kHigh});
  const std::vector<RequestId> honest = AddMany(3, {.tenant = "b"});
  ASSERT_EQ(Sent(greedy), 11);
  ASSERT_EQ(Sent(honest), 1);
  for (int left = 10; left >= 7; --left) {
    End(greedy[static_cast<size_t>(10 - left)]);
    EXPECT_EQ(Sent(greedy), left) << "no other one of them takes its place";
    EXPECT_EQ(Sent(honest), 1) << "there are more than its places still";
  }
  End(greedy[4]);
  EXPECT_EQ(Sent(honest), 2);
  End(greedy[5]);
  EXPECT_EQ(Sent(honest), 3);
  EXPECT_EQ(Sent(greedy), 9) << "with nobody below its share it goes beyond again";
}

TEST_F(DispatcherTenantsTest, TheNextOneOfANewcomerStartsWhenItsFirstEnds) {
  StartSharing(Shared(2, 1, 8));
  AddMany(20, {.tenant = "a"});
  const std::vector<RequestId> honest = AddMany(5, {.tenant = "b"});
  for (size_t i = 0; i < honest.size(); ++i) {
    ASSERT_TRUE(IsSent(honest[i])) << i;
    End(honest[i]);
  }
}

// Its 429 is one tenant's: the others are sent what they ask for, and it keeps its places.
TEST_F(DispatcherTenantsTest, ARopewaysRejectionOfOneTenantIsNoOtherOnes) {
  StartSharing(Shared(2, 1, 8));
  const std::vector<RequestId> greedy = AddMany(20, {.tenant = "a"});
  Outcome full;
  full.kind = FailureKind::kBusy;
  full.status = Status(StatusCode::kResourceExhausted, "it would wait too long");
  full.status.set_retry_after_seconds(30);
  for (size_t i = 0; i < 8; ++i) {
    const uint32_t attempt = at_.at(greedy[i]).attempt;
    at_.erase(greedy[i]);
    const FailureOutcome outcome = dispatcher_->OnFailure(greedy[i], attempt, full, now_);
    EXPECT_EQ(outcome.kind, FailureOutcome::Kind::kFinal) << "there is no other one to ask";
    EXPECT_EQ(outcome.status.retry_after_seconds(), 30);
    Run();
  }
  EXPECT_EQ(dispatcher_->ViewOf(0, now_).state, ReplicaView::State::kUp);
  EXPECT_EQ(dispatcher_->ViewOf(0, now_).places, 8);
  EXPECT_TRUE(IsSent(Add({.tenant = "b"})));
}

// A Ropeway that was not told the tenants takes all for one: there it is as with any other server.
TEST_F(DispatcherTenantsTest, ARopewayThatIsNotToldTenantsKeepsAPlace) {
  Start(Shared(2, 1, 4));
  facts_[0]->preempts = true;
  Pass(seconds(6));
  EXPECT_EQ(Sent(AddMany(10, {.tenant = "a"})), 3);
  EXPECT_TRUE(IsSent(Add({.tenant = "b"})));
  EXPECT_FALSE(IsSent(Add({.tenant = "c"})));
}

TEST_F(DispatcherTenantsTest, ThereClassHighGoesNotBeyondWhileAPlaceIsKept) {
  Start(Shared(3, 1, 4));
  facts_[0]->preempts = true;
  Pass(seconds(6));
  const std::vector<RequestId> greedy = AddMany(10, {.tenant = "a", .priority = Priority::kHigh});
  EXPECT_EQ(Sent(greedy), 3);
  EXPECT_TRUE(IsSent(Add({.tenant = "b"})));
  EXPECT_TRUE(IsSent(Add({.tenant = "c", .priority = Priority::kHigh}))) << "a newcomer may";
  Pass(milliseconds(30));
  EXPECT_EQ(Sent(greedy), 4) << "now that all tenants run, so may a";
}

// --- What is predicted.

TEST_F(DispatcherTenantsTest, TheWaitForAKeptPlaceIsTheOneThatIsPredicted) {
  for (const bool shares : {false, true}) {
    DispatchOptions options = Shared(2, 1, 4);
    shares ? StartSharing(options) : Start(options);
    Measure();
    // Minutes of work, all of it running.
    for (int i = 0; i < (shares ? 4 : 3); ++i) Add({.tenant = "a", .max_tokens = 20'000});
    EXPECT_FALSE(TryAdd({.tenant = "a", .max_tokens = 20'000}).ok()) << "it has long to wait";
    for (int i = 0; i < 20; ++i) {
      const RequestId honest = Add({.tenant = "b", .max_tokens = 20});
      ASSERT_TRUE(IsSent(honest)) << i << (shares ? ", at a Ropeway" : "");
      const RequestId next = Add({.tenant = "b", .max_tokens = 20});
      EXPECT_FALSE(IsSent(next));
      Pass(milliseconds(100));
      End(honest);
      ASSERT_TRUE(IsSent(next));
      End(next);
    }
    // What it has before it in its one place counts.
    Add({.tenant = "b", .max_tokens = 5'000});
    const Status late = TryAdd({.tenant = "b", .max_tokens = 20});
    EXPECT_EQ(late.code(), StatusCode::kResourceExhausted);
    EXPECT_GE(late.retry_after_seconds(), 30);
  }
}

TEST_F(DispatcherTenantsTest, ManyNewcomersWaitForManyEnds) {
  DispatchOptions options = Shared(100, 1, 4);
  options.queue.max_wait = std::chrono::hours(1);
  Start(options);
  Measure();
  const auto predicted = [&](const std::string& tenant) {
    const service::QueueInfo queue = dispatcher_->Queue(&tenant, 1.0);
    return queue.classes[static_cast<size_t>(Priority::kMedium)].wait_seconds;
  };
  // 27 s for the first four; each of the others gets the place of one that has ended.
  for (int i = 0; i < 4; ++i) Add({.tenant = std::to_string(i), .max_tokens = 1000});
  double before = predicted("new");
  EXPECT_NEAR(before, 27, 8);
  for (int i = 4; i < 14; ++i) {
    const std::string tenant = std::to_string(i);
    Add({.tenant = tenant, .max_tokens = 1000});
    EXPECT_GE(predicted("new"), before - 0.01);
    before = predicted("new");
    EXPECT_GE(predicted(tenant), before / 4) << "its own first one waits itself";
  }
  EXPECT_GT(before, 70);
}

TEST_F(DispatcherTenantsTest, WhereTheKeptPlaceIsTakenTheNextEndIsPredicted) {
  Start(Shared(3, 1, 4));
  Measure();
  for (int i = 0; i < 3; ++i) Add({.tenant = "a", .max_tokens = 20'000});
  const RequestId b = Add({.tenant = "b", .max_tokens = 200});
  ASSERT_TRUE(IsSent(b));
  // b ends in some seconds, a in minutes.
  const RequestId c = Add({.tenant = "c", .max_tokens = 20'000});
  EXPECT_FALSE(IsSent(c));
  const std::string other = "d";
  const service::QueueInfo queue = dispatcher_->Queue(&other, 1.0);
  const double wait = queue.classes[static_cast<size_t>(Priority::kMedium)].wait_seconds;
  EXPECT_GT(wait, 60.0) << "c has the next end, and the one after it is far";
  End(b);
  EXPECT_TRUE(IsSent(c));
}

}  // namespace
}  // namespace ropeway::gateway
