// The dispatcher where memory is short: what Run has decided is not lost, and the rest comes with
// the next one.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <new>
#include <vector>

#include "engine/test_failing_new.h"
#include "gateway/dispatcher.h"
#include "gateway/test_dispatcher.h"

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMoreThanItTakes = 10'000;

class DispatcherMemoryTest : public DispatchTest {
 protected:
  // Runs twice, the first time without allocation number `n`. Returns whether it wanted so many.
  bool RunWithout(int64_t n, std::vector<Decision>* decisions) {
    bool fired = false;
    {
      const engine::FailingNew failing(n);
      try {
        dispatcher_->Run(now_, decisions);
      } catch (const std::bad_alloc&) {
      }
      fired = failing.fired();
    }
    CheckLists(n);
    dispatcher_->Run(now_, decisions);
    CheckLists(n);
    return fired;
  }

  void CheckLists(int64_t n) const {
    const Status integrity = dispatcher_->CheckIntegrity();
    EXPECT_TRUE(integrity.ok()) << n << ": " << integrity.message();
  }
};

TEST_F(DispatcherMemoryTest, EachThatStartsIsSentOnceAndInABatch) {
  for (const bool batches : {false, true}) {
    int64_t n = 1;
    for (bool fired = true; fired; ++n) {
      ASSERT_LT(n, kMoreThanItTakes);
      DispatchOptions options = OptionsOf(2, 4);
      options.queue.policy = "priority+fair";
      if (batches) options.batching.dispatch = "batch";
      options.batching.max_batch_size = 3;
      options.batching.max_batch_wait = milliseconds(0);
      options.batching.max_parallel_batches = 6;
      Start(options);
      for (int i = 0; i < 6; ++i) {
        Queue({.tenant = i % 2 == 0 ? "a" : "b",
               .priority = i == 0 ? Priority::kHigh : Priority::kMedium});
      }
      std::vector<Decision> decisions;
      fired = RunWithout(n, &decisions);
      std::map<RequestId, int> sent;
      for (const Decision& decision : decisions) {
        if (decision.kind != Decision::Kind::kSend) continue;
        ++sent[decision.id];
        EXPECT_NE(decision.batch.number, 0U) << n;
      }
      EXPECT_EQ(sent.size(), 6U) << n;
      EXPECT_EQ(dispatcher_->counts().batched, 6U) << n;
      for (const auto& [id, count] : sent) {
        EXPECT_EQ(count, 1) << n;
        EXPECT_TRUE(dispatcher_->OnEnd(id, 1, {}, now_)) << n;
      }
      EXPECT_EQ(dispatcher_->size(), 0U) << n;
      CheckLists(n);
    }
    EXPECT_GT(n, 2) << "it has to allocate something";
  }
}

TEST_F(DispatcherMemoryTest, EachThatHangsOrIsDrainedIsDroppedOnce) {
  for (const bool drains : {false, true}) {
    int64_t n = 1;
    for (bool fired = true; fired; ++n) {
      ASSERT_LT(n, kMoreThanItTakes);
      DispatchOptions options = OptionsOf(2, 8);
      options.failover.idle_timeout = seconds(3);
      Start(options);
      at_.clear();
      for (int i = 0; i < 6; ++i) Output(Add());
      const std::map<RequestId, Decision> before = at_;
      ASSERT_EQ(before.size(), 6U);
      if (drains) {
        dispatcher_->SetDraining(0, true, now_);
      } else {
        now_ += seconds(3);
      }
      std::vector<Decision> decisions;
      fired = RunWithout(n, &decisions);
      std::map<RequestId, int> dropped;
      for (const Decision& decision : decisions) {
        EXPECT_NE(decision.kind, Decision::Kind::kEnd) << n;
        if (decision.kind == Decision::Kind::kDrop) ++dropped[decision.id];
      }
      for (const auto& [id, sent] : before) {
        EXPECT_EQ(dropped[id], drains && sent.replica != 0 ? 0 : 1) << n;
        EXPECT_TRUE(dispatcher_->Cancel(id, now_)) << n;
      }
      EXPECT_EQ(dispatcher_->size(), 0U) << n;
      CheckLists(n);
    }
    EXPECT_GT(n, 2) << "it has to allocate something";
  }
}

}  // namespace
}  // namespace ropeway::gateway
