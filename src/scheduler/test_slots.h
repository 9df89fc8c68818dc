// Sequences that wait and run, without a scheduler, for the tests of its parts.
#ifndef ROPEWAY_SCHEDULER_TEST_SLOTS_H_
#define ROPEWAY_SCHEDULER_TEST_SLOTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvcache/test_tier.h"
#include "policy/scheduling_policy.h"
#include "scheduler/cost_model.h"
#include "scheduler/slots.h"
#include "scheduler/tenant_table.h"

namespace ropeway::scheduler {

// First come, first served; of each tenant the service that the test sets.
class SetService final : public policy::SchedulingPolicy {
 public:
  const char* name() const override { return "set"; }
  policy::Rank RankOf(const core::Job&) const override { return {}; }
  bool MayPreempt(const core::Sequence& urgent, const core::Sequence& victim) const override {
    return urgent.request.priority < victim.request.priority;
  }
  bool is_fair() const override { return true; }
  int64_t ServiceOf(const core::Job& sequence) const override {
    const auto it = service.find(sequence.request.tenant);
    return it != service.end() ? it->second : 0;
  }
  bool has_classes() const override { return true; }
  int ClassOrderOf(const core::Job& sequence) const override {
    return static_cast<int>(sequence.request.priority);
  }
  std::map<std::string, int64_t> service;
};

class SlotsTest : public testing::Test {
 protected:
  // A step from which all that began in the first one give way.
  static constexpr int kLater = 2 * kMinRunSteps;

  void Begin(const SchedulingOptions& options, int32_t blocks, kvcache::KvTier* tier = nullptr) {
    kv_ = std::make_unique<kvcache::KvCacheManager>(
        kvcache::KvCacheOptions{.num_blocks = blocks, .block_bytes = 1, .tier = tier});
    tenants_ = std::make_unique<TenantTable>(&policy_, kv_.get());
    slots_ = std::make_unique<Slots>(options, &aging_, kv_.get(), &mover_, tenants_.get(), &load_,
                                     &step_);
    order_ = std::make_unique<StepOrder>(&policy_, kv_.get(), 16);
    order_->Reserve(32);
    slots_->BeginStep(base::TimePoint{1});
  }

  // Queues a sequence. Its ids are its own except for a prefix `shared` with others.
  core::Sequence* Add(int32_t prompt, const std::string& tenant = "", int32_t shared = 0) {
    sequences_.push_back(std::make_unique<core::Sequence>());
    core::Sequence* const sequence = sequences_.back().get();
    sequence->request.id = sequences_.size();
    sequence->request.tenant = tenant;
    sequence->request.max_tokens = 100;
    sequence->order = sequences_.size();
    for (int32_t i = 0; i < prompt; ++i) {
      sequence->Append(i < shared ? 0 : static_cast<TokenId>(sequence->id()));
    }
    sequence->prompt_len = prompt;
    slots_->Add(sequence, slots_->now());
    return sequence;
  }

  void Start(core::Sequence* sequence) {
    kvcache::CachedPrefix prefix = kv_->Lookup(sequence);
    ASSERT_TRUE(slots_->Fits(*sequence, prefix));
    slots_->Start(order_->RankedOf(sequence), &prefix);
  }

  // Queues one and starts it.
  core::Sequence* Run(int32_t prompt, const std::string& tenant = "", int32_t shared = 0) {
    core::Sequence* const sequence = Add(prompt, tenant, shared);
    Start(sequence);
    return sequence;
  }

  // All its ids but the last one are computed: from now on it decodes.
  void Decode(core::Sequence* sequence) {
    sequence->computed = sequence->num_ids();
    kv_->OnComputed(sequence);
    sequence->Append(1);
    mover_.Move(sequence->id(), &sequence->state, core::SequenceEvent::kCaughtUp);
  }

  // Begins the next step, `steps` times, and ranks.
  void NextStep(int steps = 1) {
    for (int i = 0; i < steps; ++i) slots_->BeginStep(slots_->now() + base::Duration{1});
    tenants_->BeginStep(slots_->running(), slots_->step(), slots_->limit());
    order_->Rank(slots_->queue(), slots_->running(), tenants_.get());
  }

  // Ids and reasons, in order.
  std::string Preempted() const {
    std::string text;
    for (const SchedulerOutput::Preempted& gone : step_.preempted) {
      text += (text.empty() ? "" : " ") + std::to_string(gone.sequence->id()) + ":" +
              PreemptReasonName(gone.reason);
    }
    return text;
  }

  void TearDown() override {
    const Status status = slots_->CheckIntegrity();
    EXPECT_TRUE(status.ok()) << status.message();
  }

  SetService policy_;
  static constexpr base::Duration kMaxWait = std::chrono::seconds(1);

  Aging aging_{kMaxWait};
  CostModel costs_{0.0, false};
  QueueLoad load_{&costs_, {}};
  core::SequenceMover mover_;
  SchedulerOutput step_;
  std::unique_ptr<kvcache::KvCacheManager> kv_;
  std::unique_ptr<TenantTable> tenants_;
  std::unique_ptr<Slots> slots_;
  std::unique_ptr<StepOrder> order_;
  std::vector<std::unique_ptr<core::Sequence>> sequences_;
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_TEST_SLOTS_H_
