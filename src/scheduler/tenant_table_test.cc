#include "scheduler/tenant_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ropeway::scheduler {
namespace {

// Of each tenant the service that the test sets.
class SetService final : public policy::SchedulingPolicy {
 public:
  const char* name() const override { return "set"; }
  policy::Rank RankOf(const core::Job&) const override { return {}; }
  bool is_fair() const override { return true; }
  int64_t ServiceOf(const core::Job& sequence) const override {
    return service.at(sequence.request.tenant);
  }
  int ClassOrderOf(const core::Job& sequence) const override {
    return static_cast<int>(sequence.request.priority);
  }
  std::map<std::string, int64_t> service;
};

class TenantTableTest : public testing::Test {
 protected:
  core::Sequence* Add(const std::string& tenant) {
    sequences_.push_back(std::make_unique<core::Sequence>());
    core::Sequence* const sequence = sequences_.back().get();
    sequence->request.tenant = tenant;
    policy_.service.try_emplace(tenant, 0);
    table_.Enter(sequence);
    return sequence;
  }
  // Adds one that runs since step 1.
  core::Sequence* Run(const std::string& tenant) {
    core::Sequence* const sequence = Add(tenant);
    sequence->sched.started_step = 1;
    running_.push_back(sequence);
    return sequence;
  }
  void BeginStep(uint64_t step) { table_.BeginStep(running_, step, 4); }

  static constexpr uint64_t kLater = 100;
  SetService policy_;
  kvcache::KvCacheManager kv_{{.num_blocks = 8, .block_bytes = 1}};
  TenantTable table_{&policy_, &kv_};
  std::vector<std::unique_ptr<core::Sequence>> sequences_;
  std::vector<core::Sequence*> running_;
};

TEST_F(TenantTableTest, ATenantIsThereWhileItHasSequences) {
  core::Sequence* const a = Add("a");
  core::Sequence* const b = Add("b");
  EXPECT_TRUE(table_.several());
  EXPECT_NE(a->sched.tenant, b->sched.tenant);
  EXPECT_EQ(Add("a")->sched.tenant, a->sched.tenant);
  table_.Leave(*b);
  EXPECT_FALSE(table_.several());
  EXPECT_EQ(Add("c")->sched.tenant, b->sched.tenant) << "the place is used again";
  EXPECT_EQ(table_.all().size(), 2U);
}

TEST_F(TenantTableTest, AShareIsOfSlotsOrOfBlocksByWeight) {
  core::Sequence* const a = Run("a");
  Run("a");
  BeginStep(1);
  EXPECT_DOUBLE_EQ(table_.ShareOf(*a), 0.5);
  a->sched.held_blocks = 6;
  table_.Hold(*a);
  EXPECT_DOUBLE_EQ(table_.ShareOf(*a), 0.75);
  EXPECT_DOUBLE_EQ(table_.HeldSlots(*a), 3);
  Add("a")->request.tenant_weight = 1;
  core::Sequence heavy;
  heavy.request.tenant = "a";
  heavy.request.tenant_weight = 2;
  table_.Enter(&heavy);
  EXPECT_DOUBLE_EQ(table_.ShareOf(*a), 0.375);
  for (int i = 0; i < 3; ++i) table_.Release(*a);
  EXPECT_DOUBLE_EQ(table_.ShareOf(*a), 0);
}

TEST_F(TenantTableTest, ASequenceGivesWayAfterItsSteps) {
  core::Sequence* const a = Run("a");
  BeginStep(kMinRunSteps);
  EXPECT_FALSE(table_.MayGiveWay(*a));
  EXPECT_EQ(table_.Of(*a).busy, 1);
  BeginStep(1 + kMinRunSteps);
  EXPECT_TRUE(table_.MayGiveWay(*a));
  EXPECT_EQ(table_.Of(*a).busy, 0);
  a->sched.again_steps = 1;
  EXPECT_FALSE(table_.MayGiveWay(*a)) << "what it computed again counts twice";
  a->sched.again_steps = 0;
  a->sched.aged = true;
  EXPECT_TRUE(table_.IsBusy(*a));
}

TEST_F(TenantTableTest, ATenantIsBelowByAQuantumOfServiceAndItsShare) {
  core::Sequence* const running = Run("a");
  core::Sequence* const waiting = Add("b");
  policy_.service["a"] = policy::kServiceQuantum;
  BeginStep(kLater);
  EXPECT_TRUE(table_.IsBelow(*waiting, *running));
  EXPECT_TRUE(table_.GivesTurn(*running, *waiting));
  EXPECT_FALSE(table_.IsBelow(*running, *running)) << "of one tenant";
  running->request.priority = Priority::kHigh;
  EXPECT_FALSE(table_.IsBelow(*waiting, *running)) << "its class goes first";
  running->request.priority = Priority::kMedium;
  policy_.service["b"] = 1;
  EXPECT_TRUE(table_.IsBelow(*waiting, *running)) << "the service is that of the step's begin";
  BeginStep(kLater + 1);
  EXPECT_FALSE(table_.IsBelow(*waiting, *running));
}

TEST_F(TenantTableTest, AFirstSlotNeedsNoQuantum) {
  core::Sequence* const running = Run("a");
  core::Sequence* const waiting = Add("b");
  BeginStep(2);
  EXPECT_FALSE(table_.IsBelow(*waiting, *running)) << "it is the other one's only slot";
  Run("a");
  BeginStep(2);
  EXPECT_TRUE(table_.IsBelow(*waiting, *running));
  EXPECT_TRUE(table_.GivesTurn(*running, *waiting)) << "although it does not give way yet";
  running->sched.started_step = 2;
  EXPECT_FALSE(table_.GivesTurn(*running, *waiting)) << "it began in this step";
}

TEST_F(TenantTableTest, WhoHasWaitedForLongGetsASlotOfItsTenantOrOfOneWithoutLessService) {
  core::Sequence* const running = Run("a");
  Run("a");
  core::Sequence* const waiting = Add("b");
  BeginStep(kLater);
  EXPECT_TRUE(table_.GivesInTurn(*running, *Add("a")));
  EXPECT_TRUE(table_.GivesInTurn(*running, *waiting));
  policy_.service["b"] = 1;
  BeginStep(kLater);
  EXPECT_FALSE(table_.GivesInTurn(*running, *waiting));
  policy_.service["b"] = 0;
  running_.pop_back();
  Run("b");
  BeginStep(kLater);
  EXPECT_FALSE(table_.GivesInTurn(*running, *waiting)) << "the last slot would be taken back";
}

TEST_F(TenantTableTest, AboveShareIsAQuantumAboveTheLeastThatWasThereBefore) {
  core::Sequence* const a = Add("a");
  core::Sequence* const b = Add("b");
  core::Sequence* const late = Add("c");
  std::vector<core::Sequence*> queue = {a, b, late};
  late->sched.queued_since = base::TimePoint{5};
  policy_.service = {{"a", policy::kServiceQuantum + 1}, {"b", 1}, {"c", 0}};
  table_.NoteAboveShare(queue, base::TimePoint{5});
  EXPECT_TRUE(a->sched.above_share);
  EXPECT_FALSE(b->sched.above_share);
  EXPECT_FALSE(late->sched.above_share);
  policy_.service["b"] = 2;
  table_.NoteAboveShare(queue, base::TimePoint{5});
  EXPECT_FALSE(a->sched.above_share) << "the late one's service may still be lifted";
}

}  // namespace
}  // namespace ropeway::scheduler
