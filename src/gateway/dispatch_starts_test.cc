#include "gateway/dispatch_starts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "gateway/test_dispatch_parts.h"

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Pass = DispatchStarts::Pass;

// Two replicas of two places, first come, first served.
class DispatchStartsTest : public DispatchPartsTest {
 protected:
  explicit DispatchStartsTest(bool batches = false) : DispatchPartsTest(Options(batches)) {}

  static DispatchOptions Options(bool batches) {
    DispatchOptions options;
    options.queue.policy = "fcfs";
    if (batches) options.batching.dispatch = "batch";
    options.batching.max_batch_size = 2;
    options.replicas = {{.name = "a", .max_concurrency = 2}, {.name = "b", .max_concurrency = 2}};
    options.retries.per_second = 1.0;
    return options;
  }

  DispatchEntry* Add(Priority priority = Priority::kMedium, std::vector<uint64_t> blocks = {}) {
    DispatchRequest request;
    request.priority = priority;
    request.prompt_tokens = 1000;
    request.blocks = std::move(blocks);
    return Queue(std::move(request));
  }
  // Sends what a pass gives. Returns it as "id>replica", in order.
  std::string Run(Pass pass = Pass::kAll, int most = 100) {
    std::string all;
    starts_.Begin(pass, most);
    for (auto start = starts_.Next(); start.entry != nullptr; start = starts_.Next()) {
      all += (all.empty() ? "" : " ") + std::to_string(start.entry->id()) + ">" +
             options_.replicas[static_cast<size_t>(start.route.replica)].name;
      Send(start.entry, start.route.replica);
    }
    return all;
  }
};

TEST_F(DispatchStartsTest, TheFirstInOrderGoWhereItIsFree) {
  for (int i = 0; i < 5; ++i) Add();
  EXPECT_EQ(Run(Pass::kAll, 1), "1>a");
  EXPECT_EQ(starts_.started(), 1);
  EXPECT_EQ(Run(), "2>b 3>a 4>b");
  EXPECT_EQ(starts_.started(), 3);
  EXPECT_EQ(Run(), "");
}

TEST_F(DispatchStartsTest, WhatCanGoNowherePassesNobody) {
  DispatchEntry* const resumes = Add();
  resumes->resumes = true;  // No replica can go on with it.
  Add();
  EXPECT_EQ(Run(), "2>a");
  EXPECT_EQ(starts_.next_look(), base::TimePoint::max());
}

TEST_F(DispatchStartsTest, ARetryWaitsForAToken) {
  DispatchEntry* const retry = Add();
  retry->state = core::SequenceState::kPreempted;
  retry->pays = true;
  while (budget_.Take(now_)) {
  }
  Add();
  EXPECT_EQ(Run(Pass::kAll, 1), "2>a");
  EXPECT_EQ(starts_.retries_delayed(), 1U);
  EXPECT_GT(starts_.next_look(), now_);
  EXPECT_EQ(Run(), "") << "not before";
  Advance(seconds(2));
  EXPECT_EQ(Run(Pass::kAll, 0), "1>b") << "it was sent before, and is not among the most";
  EXPECT_EQ(starts_.started(), 0);
  EXPECT_EQ(starts_.retries_delayed(), 1U);
}

TEST_F(DispatchStartsTest, OneWaitsForItsCacheAWhile) {
  std::vector<uint64_t> blocks;
  for (uint64_t i = 1; i <= 20; ++i) blocks.push_back(i);
  replicas_.NoteSent(blocks, 0);
  for (int i = 0; i < 2; ++i) {
    Add();
    EXPECT_EQ(Run().substr(1), i == 0 ? ">a" : ">b");
  }
  Add(Priority::kMedium, blocks);
  EXPECT_EQ(Run(), "3>a");
  Add(Priority::kMedium, blocks);
  EXPECT_EQ(Run(), "") << "a has no free place";
  EXPECT_EQ(starts_.next_look(), now_ + milliseconds(500));
  Add();
  EXPECT_EQ(Run(), "5>b") << "others pass it";
}

TEST_F(DispatchStartsTest, ThoseThatWereSentAreABatchWhereTheNextIsNot) {
  for (int i = 0; i < 3; ++i) Add();
  int calls = 0;
  EXPECT_THROW(starts_.Run(now_, false,
                           [&](DispatchEntry* entry, const Route& route) {
                             if (++calls == 3) throw std::bad_alloc();
                             Send(entry, route.replica);
                           }),
               std::bad_alloc);
  EXPECT_EQ(entries_.Find(1)->sched.batch.number, 1U);
  EXPECT_EQ(entries_.Find(2)->sched.batch.size, 2);
  EXPECT_EQ(entries_.Find(3)->sched.batch.number, 0U);
  EXPECT_EQ(batches_.counts().batched, 2U);
  const base::TimePoint next = starts_.Run(
      now_, false, [&](DispatchEntry* entry, const Route& route) { Send(entry, route.replica); });
  EXPECT_EQ(entries_.Find(3)->sched.batch.number, 2U);
  EXPECT_EQ(next, base::TimePoint::max()) << "nothing waits";
}

class DispatchStartsInBatchesTest : public DispatchStartsTest {
 protected:
  DispatchStartsInBatchesTest() : DispatchStartsTest(true) {}
};

TEST_F(DispatchStartsInBatchesTest, MembersAndThoseThatWaitForNoBatch) {
  Add();
  EXPECT_EQ(starts_.MembersThatMayStart(false), 0);
  EXPECT_EQ(starts_.MembersThatMayStart(true), 1) << "no more will come";
  Add(Priority::kHigh);
  Add();
  EXPECT_EQ(starts_.JoinsLeft(), 2) << "half the places";
  EXPECT_EQ(Run(Pass::kApart, starts_.JoinsLeft()), "2>a");
  EXPECT_EQ(starts_.MembersThatMayStart(false), 2);
  EXPECT_EQ(Run(Pass::kMembers, 2), "1>b 3>a");
}

}  // namespace
}  // namespace ropeway::gateway
