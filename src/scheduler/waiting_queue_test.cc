#include "scheduler/waiting_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "policy/fair_policy.h"

namespace ropeway::scheduler {
namespace {

using std::chrono::seconds;

// Tenant "a" came first with many requests; after each start it is the other's turn.
TEST(WaitingQueueTest, ResortsAfterEachStart) {
  policy::FairPolicy policy;
  std::array<core::Sequence, 8> sequences;
  std::vector<core::Sequence*> queue;
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].order = i;
    sequences[i].request.tenant = i < 5 ? "a" : "b";
    queue.push_back(&sequences[i]);
  }
  policy.BeginStep(queue, {}, base::TimePoint{1});
  WaitingQueue<Ranked> waiting;
  waiting.Reserve(queue.size());
  for (core::Sequence* s : queue) waiting.Add({{.rank = policy.RankOf(*s), .order = s->order}, s});
  waiting.Sort();
  std::string order;
  while (!waiting.empty()) {
    core::Sequence* const first = waiting.front().sequence;
    waiting.Pop();
    order += first->request.tenant;
    policy.OnScheduled(*first, {.prompt_tokens = 10, .output_tokens = 0, .cost = 10});
    waiting.Resort(policy);
  }
  EXPECT_EQ(order, "abababaa");
}

class AgingTest : public testing::Test {
 protected:
  AgingTest() {
    for (size_t i = 0; i < sequences_.size(); ++i) {
      sequences_[i].order = i;
      sequences_[i].sched.queued_since = base::TimePoint{};
    }
    aging_.Reserve(sequences_.size());
  }

  // Returns the orders of the aged sequences.
  std::string Update(int limit, const std::vector<core::Sequence*>& running,
                     const std::vector<core::Sequence*>& queue,
                     base::TimePoint now = base::TimePoint{seconds(30)}) {
    aging_.Update(now, limit, running, queue);
    std::string text;
    for (const core::Sequence& s : sequences_) {
      if (s.sched.aged) text += std::to_string(s.order);
    }
    return text;
  }

  std::array<core::Sequence, 6> sequences_;
  Aging aging_{seconds(30)};
};

TEST_F(AgingTest, TheOldestInUpToHalfTheSlots) {
  auto& [a, b, c, d, e, f] = sequences_;
  EXPECT_EQ(Update(4, {}, {&d, &a, &c, &b}), "01");
  EXPECT_EQ(Update(5, {}, {&d, &a, &c, &b}), "012");
  EXPECT_EQ(Update(1, {}, {&d, &a, &c, &b}), "0");
  EXPECT_EQ(Update(64, {}, {&d, &a, &c, &b}), "0123");
}

TEST_F(AgingTest, NotBeforeMaxWait) {
  auto& [a, b, c, d, e, f] = sequences_;
  b.sched.queued_since = base::TimePoint{seconds(1)};
  EXPECT_EQ(Update(8, {}, {&a, &b}), "0");
  EXPECT_EQ(Update(8, {}, {&a, &b}, base::TimePoint{seconds(31)}), "01");
}

TEST_F(AgingTest, AgedRunningOnesLeaveFewerSlots) {
  auto& [a, b, c, d, e, f] = sequences_;
  e.state = f.state = core::SequenceState::kDecoding;
  e.sched.aged = true;
  EXPECT_EQ(Update(4, {&e, &f}, {&a, &b}), "04") << "a decode does not age: it gets its tokens";
  f.sched.aged = true;
  EXPECT_EQ(Update(4, {&e, &f}, {&a, &b}), "45") << "and a sequence of the queue is aged no more";
}

TEST_F(AgingTest, APromptWithoutAChunkAges) {
  auto& [a, b, c, d, e, f] = sequences_;
  e.state = f.state = core::SequenceState::kPrefilling;
  f.sched.queued_since = base::TimePoint{seconds(5)};
  EXPECT_EQ(Update(2, {&e, &f}, {&a}), "4");
}

TEST_F(AgingTest, APreemptedOneStaysAged) {
  const base::TimePoint now{seconds(100)};
  EXPECT_EQ(aging_.QueuedSince(sequences_[0], now), now);
  sequences_[0].sched.aged = true;
  EXPECT_EQ(aging_.QueuedSince(sequences_[0], now), now - seconds(30));
}

}  // namespace
}  // namespace ropeway::scheduler
