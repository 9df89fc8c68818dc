#include "policy/tenant_counters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/test_sequences.h"

namespace ropeway {
namespace {

using std::chrono::seconds;

Sequence Of(const char* tenant, uint64_t order) {
  Sequence sequence = WaitingSequence(order);
  sequence.tenant = tenant;
  return sequence;
}

class TenantCountersTest : public testing::Test {
 protected:
  void Step(std::vector<Sequence*> queue, std::vector<Sequence*> running = {}) {
    now_ += seconds(1);
    counters_.BeginStep(queue, running, now_);
  }
  double Tokens(const Sequence& sequence) const {
    return static_cast<double>(counters_.Of(sequence)) / TenantCounters::kUnitsPerToken;
  }

  TenantCounters counters_;
  TimePoint now_{};
};

TEST_F(TenantCountersTest, CountsPromptAndOutputByWeight) {
  Sequence a = Of("a", 0);
  Sequence b = Of("b", 1);
  b.tenant_weight = 4.0;
  Sequence tiny = Of("c", 2);
  tiny.tenant_weight = 100.0;
  Step({&a, &b, &tiny});
  counters_.Charge(a, 10, 3);
  counters_.Charge(b, 10, 3);
  EXPECT_DOUBLE_EQ(Tokens(a), 16.0);
  EXPECT_DOUBLE_EQ(Tokens(b), 4.0);
  counters_.Charge(tiny, 1, 0);
  EXPECT_GT(counters_.Of(tiny), 0) << "the smallest charge is not lost";
}

TEST_F(TenantCountersTest, OneThatComesIsLiftedToTheLeastOfThoseThatWait) {
  Sequence a = Of("a", 0);
  Sequence b = Of("b", 1);
  Step({&a, &b});
  counters_.Charge(a, 1000, 0);
  counters_.Charge(b, 600, 0);
  Sequence c = Of("c", 2);
  Step({&a, &b, &c});
  EXPECT_DOUBLE_EQ(Tokens(c), 600.0);
  // While it waits it keeps what it has.
  counters_.Charge(a, 100, 0);
  counters_.Charge(b, 900, 0);
  Step({&a, &b, &c});
  EXPECT_DOUBLE_EQ(Tokens(c), 600.0);
}

TEST_F(TenantCountersTest, NobodyIsLoweredByComingBack) {
  Sequence a = Of("a", 0);
  Sequence b = Of("b", 1);
  Step({&a, &b});
  counters_.Charge(b, 5000, 0);
  counters_.Charge(a, 10, 0);
  Step({&a});
  Sequence b2 = Of("b", 2);
  Step({&a, &b2});
  EXPECT_DOUBLE_EQ(Tokens(b2), 5000.0);
}

TEST_F(TenantCountersTest, OneThatComesAnewInEachStepIsNotWaiting) {
  // "light" has a request in the queue whenever a step begins, but each one starts at once: it is
  // under its share by its own choice, which earns no credit.
  Sequence heavy = Of("heavy", 0);
  for (uint64_t i = 1; i <= 50; ++i) {
    Sequence light = Of("light", i);
    Step({&heavy, &light});
    counters_.Charge(light, 5, 0);
    counters_.Charge(heavy, 500, 0);
  }
  Sequence light = Of("light", 51);
  Step({&heavy, &light});
  EXPECT_DOUBLE_EQ(Tokens(light), Tokens(heavy));
}

TEST_F(TenantCountersTest, AfterAnEmptyQueueTheLastThatLeftItIsTheMeasure) {
  Sequence a = Of("a", 0);
  Sequence b = Of("b", 1);
  Step({&a, &b});
  counters_.Charge(a, 100, 0);
  counters_.Charge(b, 300, 0);
  a.state = b.state = SequenceState::kDecoding;
  Step({}, {&a, &b});
  counters_.Charge(b, 0, 50);  // It runs on.
  Step({}, {&a, &b});
  Sequence c = Of("c", 2);
  Step({&c}, {&a, &b});
  EXPECT_DOUBLE_EQ(Tokens(c), 400.0);
  EXPECT_DOUBLE_EQ(Tokens(a), 100.0) << "it runs, but has not come back";
}

TEST_F(TenantCountersTest, OneThatIsPreemptedComesBackToo) {
  Sequence a = Of("a", 0);
  Sequence b = Of("b", 1);
  Step({&a, &b});
  b.state = SequenceState::kDecoding;
  Step({&a}, {&b});
  counters_.Charge(a, 1000, 0);
  b.state = SequenceState::kPreempted;
  b.queued_since = now_;  // In that step.
  Step({&a, &b});
  EXPECT_DOUBLE_EQ(Tokens(b), 1000.0);
  counters_.Charge(a, 1000, 0);
  Step({&a, &b});
  EXPECT_DOUBLE_EQ(Tokens(b), 1000.0) << "by now it waits";
}

TEST_F(TenantCountersTest, ForgetsThoseThatWouldBeLiftedAnyway) {
  Sequence stays = Of("stays", 0);
  Step({&stays});
  for (uint64_t i = 1; i <= 5000; ++i) {
    Sequence other = Of(("t" + std::to_string(i)).c_str(), i);
    Step({&stays, &other});
    counters_.Charge(other, 1, 0);
    counters_.Charge(stays, 2, 0);
  }
  EXPECT_LE(counters_.size(), 200U);
}

TEST_F(TenantCountersTest, KeepsALimitedNumberOfOthersAndTheHeaviest) {
  Sequence stays = Of("stays", 0);
  Step({&stays});
  Sequence heavy = Of("heavy", 1);
  Step({&stays, &heavy});
  counters_.Charge(heavy, 100'000'000, 0);
  constexpr uint64_t kTenants = 3 * TenantCounters::kMaxIdleTenants;
  for (uint64_t i = 2; i < kTenants; ++i) {
    Sequence other = Of(("t" + std::to_string(i)).c_str(), i);
    Step({&stays, &other});
    counters_.Charge(other, 1000, 0);  // All above "stays", whom nothing is charged.
  }
  EXPECT_LE(counters_.size(), TenantCounters::kMaxIdleTenants * 3 / 2 + 100);
  EXPECT_GE(counters_.size(), TenantCounters::kMaxIdleTenants);
  EXPECT_DOUBLE_EQ(Tokens(heavy), 1e8);
  EXPECT_DOUBLE_EQ(Tokens(stays), 0.0);
}

}  // namespace
}  // namespace ropeway
