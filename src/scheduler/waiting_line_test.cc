#include "scheduler/waiting_line.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "policy/fair.h"

namespace ropeway {
namespace {

// Tenant "a" came first and with many; after each start the other's turn comes.
TEST(WaitingLineTest, SettlesAfterEachStart) {
  FairPolicy policy;
  std::array<Sequence, 8> sequences;
  std::vector<Sequence*> queue;
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].order = i;
    sequences[i].tenant = i < 5 ? "a" : "b";
    queue.push_back(&sequences[i]);
  }
  policy.BeginStep(queue, {}, TimePoint{1});
  WaitingLine line;
  line.Reserve(queue.size());
  for (Sequence* s : queue) line.Add({.sequence = s, .rank = policy.RankOf(*s)});
  line.Sort();
  std::string order;
  while (!line.empty()) {
    Sequence* const first = line.front().sequence;
    line.Pop();
    order += first->tenant;
    policy.OnScheduled(*first, {.prompt_tokens = 10, .output_tokens = 0, .cost = 10});
    line.Settle(policy);
  }
  EXPECT_EQ(order, "abababaa");
}

}  // namespace
}  // namespace ropeway
