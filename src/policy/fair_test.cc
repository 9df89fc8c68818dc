#include "policy/fair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "policy/test_sequences.h"

namespace ropeway {
namespace {

TEST(FairPolicyTest, TheTenantWithLeastGoesFirstAndTheNewestOfTheHeaviestGivesWay) {
  FairPolicy policy;
  std::array<Sequence, 4> s;
  const std::array<const char*, 4> tenants = {"a", "a", "b", "b"};
  std::vector<Sequence*> queue;
  for (size_t i = 0; i < s.size(); ++i) {
    s[i] = WaitingSequence(i);
    s[i].tenant = tenants[i];
    queue.push_back(&s[i]);
  }
  policy.BeginStep(queue, {}, TimePoint{1});
  EXPECT_EQ(policy.RankOf(s[0]), policy.RankOf(s[3]));
  policy.OnScheduled(s[0], {.prompt_tokens = 16, .output_tokens = 1, .cost = 16.5});
  EXPECT_LT(policy.RankOf(s[2]), policy.RankOf(s[1])) << "b's turn, in the same step";
  const std::vector<const Sequence*> candidates = {&s[3], &s[0], &s[1], &s[2]};
  EXPECT_EQ(policy.PickVictim(candidates), 2U);
  s[2].promoted = true;
  policy.OnScheduled(s[2], {.prompt_tokens = 19, .output_tokens = 0, .cost = 19});
  EXPECT_LT(policy.RankOf(s[1]), policy.RankOf(s[3])) << "promoted work is service";
}

// Three tenants that always have requests waiting; one server, a request at a time.
TEST(FairPolicyTest, ServiceOfBackloggedTenantsStaysWithinTwoRequests) {
  constexpr int32_t kLargest = 300 + 2 * 200;  // One request's service.
  FairPolicy policy;
  const std::array<std::string, 3> names = {"a", "b", "c"};
  const std::array<double, 3> weights = {1.0, 1.0, 2.0};
  std::array<double, 3> served{};
  std::deque<Sequence> waiting;
  uint64_t order = 0;
  const auto arrive = [&](size_t t) {
    // "a" asks for the longest, "b" floods the queue with short ones.
    const int32_t prompt = t == 0 ? 300 : 20 + static_cast<int32_t>(order % 50);
    waiting.push_back(WaitingSequence(order++, prompt, t == 0 ? 200 : 30));
    waiting.back().tenant = names[t];
    waiting.back().tenant_weight = weights[t];
  };
  for (size_t t = 0; t < 3; ++t) arrive(t);
  for (int i = 0; i < 20; ++i) arrive(1);
  arrive(0);
  arrive(2);
  for (int step = 1; step <= 3000; ++step) {
    std::vector<Sequence*> queue;
    for (Sequence& s : waiting) queue.push_back(&s);
    policy.BeginStep(queue, {}, TimePoint{step});
    const auto first =
        std::min_element(waiting.begin(), waiting.end(), [&](const Sequence& a, const Sequence& b) {
          const Rank ra = policy.RankOf(a);
          const Rank rb = policy.RankOf(b);
          return ra != rb ? ra < rb : a.order < b.order;
        });
    const auto t = static_cast<size_t>(first->tenant[0] - 'a');
    policy.OnScheduled(
        *first,
        {.prompt_tokens = first->prompt_len, .output_tokens = first->max_tokens, .cost = 1});
    served[t] += (first->prompt_len + 2.0 * first->max_tokens) / weights[t];
    waiting.erase(first);
    arrive(t);
    for (size_t a = 0; a < 3; ++a) {
      for (size_t b = 0; b < a; ++b) {
        ASSERT_LE(std::abs(served[a] - served[b]), 2 * kLargest) << "step " << step;
      }
    }
  }
  EXPECT_GT(served[0], 100 * kLargest);
}

}  // namespace
}  // namespace ropeway
