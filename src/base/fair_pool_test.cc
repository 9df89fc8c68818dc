#include "base/fair_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"

namespace ropeway::base {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// One server of a FairQueue in virtual time. A piece's job is named by its flow.
class FairQueueTest : public testing::Test {
 protected:
  // Adds a job of `pieces` pieces that take `each`; negative: it never ends.
  void Add(const Flow& flow, int pieces, Duration each) {
    const std::string name = flow.tenant + std::to_string(flow.cls);
    auto left = std::make_shared<int>(pieces);
    queue_.Add(flow,
               [this, name, left, each] {
                 ran_.push_back(name);
                 used_[name] += ToSeconds(each);
                 took_ = each;
                 return --*left == 0;
               },
               {});
  }

  // Runs the next piece; false: there is none.
  bool RunOne() {
    FairQueue::Handle job = queue_.Take();
    if (job.empty()) return false;
    const PieceEnd end = job.front().piece();
    queue_.Return(&job, took_, end);
    return true;
  }
  void Run(int pieces) {
    for (int i = 0; i < pieces; ++i) ASSERT_TRUE(RunOne());
  }

  FairQueue queue_;
  std::vector<std::string> ran_;
  std::map<std::string, double> used_;  // Seconds.
  Duration took_{};
};

TEST_F(FairQueueTest, ClassesGetTheirSharesOfTheTime) {
  for (const int cls : {0, 1, 2}) Add({"a", cls, 1.0}, -1, milliseconds(2));
  Run(1000);
  EXPECT_NEAR(used_["a0"], 1.4, 0.01);
  EXPECT_NEAR(used_["a1"], 0.4, 0.01);
  EXPECT_NEAR(used_["a2"], 0.2, 0.01);
}

TEST_F(FairQueueTest, WeightsAndTimeCountNotTheNumberOfJobsOrPieces) {
  for (int i = 0; i < 100; ++i) Add({"crowd", 1, 1.0}, -1, milliseconds(8));
  Add({"alone", 1, 3.0}, -1, milliseconds(1));
  Run(4000);
  EXPECT_NEAR(used_["alone1"] / used_["crowd1"], 3.0, 0.05);
}

TEST_F(FairQueueTest, ANewcomerIsNextHoweverManyWait) {
  for (int i = 0; i < 150; ++i) Add({"crowd", 0, 100.0}, 80, milliseconds(2));
  Run(50);
  Add({"newcomer", 2, 0.01}, 1, milliseconds(1));
  ran_.clear();
  Run(2);
  EXPECT_EQ(std::count(ran_.begin(), ran_.end(), "newcomer2"), 1);
}

TEST_F(FairQueueTest, QuietTimeEarnsNothing) {
  Add({"busy", 1, 1.0}, -1, milliseconds(2));
  Run(1000);
  Add({"back", 1, 1.0}, -1, milliseconds(2));
  ran_.clear();
  Run(20);
  EXPECT_NEAR(static_cast<double>(std::count(ran_.begin(), ran_.end(), "back1")), 10, 1);
}

// One that sends its next job when the last one ended is no newcomer each time.
TEST_F(FairQueueTest, ComingBackAtOnceIsNoNewBeginning) {
  Add({"steady", 1, 1.0}, -1, milliseconds(2));
  Run(10);
  ran_.clear();
  for (int i = 0; i < 100; ++i) {
    Add({"again", 1, 1.0}, 1, milliseconds(2));
    while (ran_.empty() || ran_.back() != "again1") ASSERT_TRUE(RunOne());
    ran_.push_back("|");
  }
  EXPECT_NEAR(static_cast<double>(std::count(ran_.begin(), ran_.end(), "steady1")), 100, 2);
}

TEST_F(FairQueueTest, JobsOfOneFlowEndInTheOrderTheyWereAdded) {
  std::vector<int> ended;
  for (int i = 0; i < 5; ++i) {
    auto left = std::make_shared<int>(3);
    queue_.Add({},
               [&ended, left, i] {
                 if (--*left > 0) return false;
                 ended.push_back(i);
                 return true;
               },
               {});
  }
  while (RunOne()) {
  }
  EXPECT_EQ(ended, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(queue_.size(), 0U);
  EXPECT_EQ(queue_.flows(), 0U) << "an empty queue remembers nobody";
}

// Two that never end and begin to give way at their third pieces, and then shorter ones.
TEST_F(FairQueueTest, WhatGivesWayLeavesMostPiecesToTheRestOfItsFlow) {
  std::string ran;
  const auto add = [&](char name, int pieces) {
    auto at = std::make_shared<int>(0);
    queue_.Add({},
               [&ran, name, pieces, at]() -> PieceEnd {
                 ran += name;
                 if (++*at == pieces) return true;
                 return *at >= 3 ? PieceEnd::GivingWay() : false;
               },
               {});
  };
  add('L', -1);
  add('M', -1);
  Run(8);
  // Among themselves they are done in order of Add.
  EXPECT_EQ(ran, "LLLMMMLL");
  ran.clear();
  add('a', 2);
  for (int i = 0; i < 4; ++i) add('b', 2);
  Run(15);
  EXPECT_EQ(ran, "LaabLbbbLbbbLbL");
  EXPECT_EQ(queue_.TakeAll().size(), 2U);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(FairQueueTest, ABarredTenantWaitsInAllItsClasses) {
  Add({"a", 0, 1.0}, 1, milliseconds(1));
  Add({"a", 1, 1.0}, 1, milliseconds(1));
  Add({"b", 2, 1.0}, 1, milliseconds(1));
  const auto barred = [](const std::string& tenant) { return tenant == "a"; };
  FairQueue::Handle job = queue_.Take(barred);
  ASSERT_EQ(job.size(), 1U);
  EXPECT_EQ(job.front().tenant(), "b");
  EXPECT_TRUE(queue_.Take(barred).empty());
  queue_.Return(&job, milliseconds(1), true);
  Run(2);
}

TEST_F(FairQueueTest, IdleFlowsAreForgotten) {
  Add({"busy", 1, 1.0}, -1, milliseconds(1));
  for (int i = 0; i < 5000; ++i) {
    Add({std::to_string(i), 1, 1.0}, 1, microseconds(10));
    Run(3);
  }
  EXPECT_LT(queue_.flows(), 200U);
}

// The theorem of start-time fair queueing: while two flows both wait, what they get over their
// weights differs by at most a piece of each.
TEST_F(FairQueueTest, NoFlowLagsByMoreThanAPiece) {
  SeededRandom random(7);
  for (int round = 0; round < 20; ++round) {
    queue_ = FairQueue();
    used_.clear();
    struct One {
      std::string name;
      double rate;
      double longest;
    };
    std::vector<One> all;
    const auto flows = static_cast<int>(random.Between(2, 8));
    for (int i = 0; i < flows; ++i) {
      const Flow flow{"t" + std::to_string(i), static_cast<int>(random.Below(3)),
                      0.25 * static_cast<double>(random.Between(1, 16))};
      const Duration each = microseconds(random.Between(10, 20'000));
      for (int k = 0; k < 3; ++k) Add(flow, -1, each);
      all.push_back({flow.tenant + std::to_string(flow.cls),
                     flow.weight * kFlowClassShares[flow.cls], ToSeconds(each)});
    }
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(RunOne());
      for (const One& a : all) {
        for (const One& b : all) {
          const double lag = used_[a.name] / a.rate - used_[b.name] / b.rate;
          ASSERT_LE(std::abs(lag), a.longest / a.rate + b.longest / b.rate + 1e-9);
        }
      }
    }
  }
}

TEST(FairPoolTest, RunsAllJobsOnOneThreadInOrder) {
  std::vector<int> ran;
  std::promise<void> done;
  FairPool pool(1, 100, "test");  // Last, to join its threads before what they use goes away.
  const auto add = [&](std::function<bool()> piece) {
    EXPECT_TRUE(pool.TryAdd({}, std::move(piece)));
  };
  for (int i = 0; i < 10; ++i) {
    add([&ran, i, pieces = 0]() mutable {
      if (++pieces < 3) return false;
      ran.push_back(i);
      return true;
    });
  }
  add([&done] {
    done.set_value();
    return true;
  });
  done.get_future().wait();
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// Holds a pool's piece until the test goes on.
struct HeldPiece {
  std::promise<void> began;
  std::promise<void> go_on;
  std::function<bool()> Piece() {
    return [this] {
      began.set_value();
      go_on.get_future().wait();
      return true;
    };
  }
};

TEST(FairPoolTest, PlacesAreSharedBetweenTenants) {
  HeldPiece held;
  FairPool pool(1, 8, "test");
  ASSERT_TRUE(pool.TryAdd({.tenant = "a"}, held.Piece()));
  held.began.get_future().wait();
  int taken = 1;
  while (pool.TryAdd({.tenant = "a"}, [] { return true; })) ++taken;
  EXPECT_EQ(taken, 4);
  EXPECT_TRUE(pool.TryAdd({.tenant = "b"}, [] { return true; }));
  held.go_on.set_value();
}

TEST(FairPoolTest, StopDropsWhatWaitsAndCutsWhatRuns) {
  auto token = std::make_shared<int>(0);
  std::atomic<int> pieces{0};
  FairPool pool(1, 100, "test");
  ASSERT_TRUE(pool.TryAdd({}, [&pieces, token] {
    ++pieces;
    return false;  // It would never end.
  }));
  std::atomic<int> ran{0};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pool.TryAdd({}, [&ran, token] {
      ++ran;
      return true;
    }));
  }
  while (pieces < 10) std::this_thread::yield();
  pool.Stop();
  EXPECT_EQ(ran, 0) << "the first job of the flow had not ended";
  EXPECT_EQ(token.use_count(), 1) << "a job was kept after Stop";
  EXPECT_EQ(pool.size(), 0U);
  EXPECT_FALSE(pool.TryAdd({}, [] { return true; }));
}

TEST(FairPoolTest, ALongPieceHoldsUpNoOtherTenant) {
  HeldPiece held;
  std::atomic<bool> same_ran{false};
  std::promise<void> other_ran;
  FairPool pool(1, 100, "test");
  ASSERT_TRUE(pool.TryAdd({.tenant = "a"}, held.Piece()));
  held.began.get_future().wait();
  // No class of its own helps a tenant whose piece runs for long.
  ASSERT_TRUE(pool.TryAdd({.tenant = "a", .cls = 0}, [&] { return same_ran = true; }));
  ASSERT_TRUE(pool.TryAdd({.tenant = "b"}, [&] {
    other_ran.set_value();
    return true;
  }));
  other_ran.get_future().wait();
  EXPECT_FALSE(same_ran);
  held.go_on.set_value();
  while (!same_ran) std::this_thread::yield();
}

// The thread that takes the place of the first long piece is held by a second one.
TEST(FairPoolTest, TwoLongPiecesHoldUpNoThirdTenant) {
  for (int i = 0; i < 10; ++i) {
    HeldPiece a;
    HeldPiece b;
    std::promise<void> other_ran;
    FairPool pool(1, 100, "test");
    ASSERT_TRUE(pool.TryAdd({.tenant = "a"}, a.Piece()));
    a.began.get_future().wait();
    ASSERT_TRUE(pool.TryAdd({.tenant = "b"}, b.Piece()));
    ASSERT_TRUE(pool.TryAdd({.tenant = "c"}, [&] {
      other_ran.set_value();
      return true;
    }));
    other_ran.get_future().wait();
    a.go_on.set_value();
    b.go_on.set_value();
  }
}

TEST(FairPoolTest, JobsRunAtTheSameTimeOnSeveralThreads) {
  std::promise<void> first;
  std::promise<void> second;
  std::promise<void> done;
  FairPool pool(2, 10, "test");
  // Each waits for the other: one thread alone would never finish.
  ASSERT_TRUE(pool.TryAdd({}, [&] {
    first.set_value();
    second.get_future().wait();
    done.set_value();
    return true;
  }));
  ASSERT_TRUE(pool.TryAdd({}, [&] {
    second.set_value();
    first.get_future().wait();
    return true;
  }));
  done.get_future().wait();
}

TEST(FairPoolTest, ItsThreadsYieldToOthers) {
  const auto nice = [] { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); };
  std::promise<int> its;
  FairPool pool(1, 1, "test");
  ASSERT_TRUE(pool.TryAdd({}, [&] {
    its.set_value(nice());
    return true;
  }));
  EXPECT_EQ(its.get_future().get(), std::min(nice() + FairPool::kNice, 19));
}

// Adds a job that says when its function is destroyed.
bool AddWithEnd(FairPool* pool, std::atomic<bool>* destroyed) {
  std::shared_ptr<void> end(nullptr, [destroyed](void*) { *destroyed = true; });
  return pool->TryAdd({}, [end = std::move(end)] { return true; });
}

// What waits for a job by its function's end finds the place free.
TEST(FairPoolTest, APlaceIsFreeBeforeItsFunctionIsDestroyed) {
  for (int i = 0; i < 200; ++i) {
    FairPool pool(1, 2, "test");
    for (int k = 0; k < 3; ++k) {
      std::atomic<bool> destroyed{false};
      ASSERT_TRUE(AddWithEnd(&pool, &destroyed));
      while (!destroyed) std::this_thread::yield();
    }
  }
}

}  // namespace
}  // namespace ropeway::base
