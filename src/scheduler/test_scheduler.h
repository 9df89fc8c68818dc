// The scheduler with a fake executor, for its tests.
#ifndef ROPEWAY_SCHEDULER_TEST_SCHEDULER_H_
#define ROPEWAY_SCHEDULER_TEST_SCHEDULER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kvcache/test_tier.h"
#include "policy/policies.h"
#include "scheduler/scheduler.h"

namespace ropeway::scheduler {

// Runs scheduled steps as the engine core would, with a fake token for each sample. A step reads as
// "1:0+8 2:40+1*": sequence:start+tokens, and a star if the next token is sampled.
class SchedulerTest : public testing::Test {
 protected:
  // With max_wait_ and step_options_.
  void Start(int32_t blocks, const SchedulingOptions& options,
             policy::SchedulingPolicy* policy = nullptr) {
    kv_ = std::make_unique<kvcache::KvCacheManager>(
        kvcache::KvCacheOptions{.num_blocks = blocks,
                                .block_bytes = 1,
                                .windows = windows_,
                                .cache = {.prefix_caching = caching_, .disk_path = {}},
                                .tier = tier_});
    scheduler_ = std::make_unique<Scheduler>(
        options, max_wait_, step_options_, policy != nullptr ? policy : &fcfs_, kv_.get(), &mover_);
  }

  core::Sequence* Add(int32_t prompt_len, int32_t max_tokens = 1000, int32_t shared = 0) {
    auto sequence = std::make_unique<core::Sequence>();
    sequence->request.id = sequences_.size() + 1;
    sequence->order = sequence->number = sequences_.size();
    // Its own ids, except for a prefix `shared` with the others.
    const auto own = static_cast<TokenId>(sequence->id());
    for (int32_t i = 0; i < prompt_len; ++i) sequence->Append(i < shared ? 0 : own);
    sequence->prompt_len = prompt_len;
    sequence->request.max_tokens = max_tokens;
    sequence->request.priority = priority_;
    sequence->request.tenant = tenant_;
    sequence->request.tenant_weight = weight_;
    sequence->request.ignore_eos = ignore_eos_;
    scheduler_->Add(sequence.get(), now_);
    sequences_.push_back(std::move(sequence));
    return sequences_.back().get();
  }

  std::string Step() {
    const SchedulerOutput& plan = scheduler_->Schedule(now_);
    now_ += kStep;
    std::string text;
    int tokens = 0;
    for (const ScheduledItem& item : plan.items) {
      if (!text.empty()) text += ' ';
      text += std::to_string(item.sequence->id()) + ":" + std::to_string(item.start) + "+" +
              std::to_string(item.num_tokens) + (item.sample ? "*" : "");
      item.sequence->computed += item.num_tokens;
      kv_->OnComputed(item.sequence);
      tokens += item.num_tokens;
      EXPECT_GE(item.sequence->kv.blocks.size(),
                windows_.size() * static_cast<size_t>(kvcache::BlocksFor(item.sequence->computed)));
      if (!item.sample) continue;
      item.sequence->Append(0);
      if (item.sequence->state == core::SequenceState::kPrefilling) {
        mover_.Move(item.sequence->id(), &item.sequence->state, core::SequenceEvent::kCaughtUp);
      }
    }
    EXPECT_EQ(tokens, plan.num_tokens);
    preempted_.clear();
    for (const auto& gone : plan.preempted) preempted_ += std::to_string(gone.sequence->id());
    head_ = plan.head == nullptr
                ? ""
                : std::to_string(plan.head->id()) + ": " + NamesOf(plan.head_blocked_by).text;
    reasons_.clear();
    for (const auto& gone : plan.preempted) {
      reasons_ += std::string(reasons_.empty() ? "" : " ") + PreemptReasonName(gone.reason);
    }
    padding_.clear();
    for (const PaddingItem& item : plan.padding) {
      padding_ += std::string(padding_.empty() ? "" : " ") + std::to_string(item.start) + "+" +
                  std::to_string(item.num_tokens) + (item.sample ? "*" : "");
    }
    next_look_ = plan.next_look;
    CheckSound();
    return text;
  }

  int NumRunning() const { return static_cast<int>(scheduler_->running().size()); }
  int NumPreempted() const { return Count(core::SequenceState::kPreempted); }
  int NumFetching() const { return Count(core::SequenceState::kFetching); }
  int Count(core::SequenceState state) const {
    return static_cast<int>(std::count_if(sequences_.begin(), sequences_.end(),
                                          [state](const auto& s) { return s->state == state; }));
  }

  void CheckSound() {
    Status status = scheduler_->CheckIntegrity();
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<const core::Sequence*> all;
    for (const auto& sequence : sequences_) all.push_back(sequence.get());
    status = kv_->CheckIntegrity(all);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  std::vector<int32_t> windows_ = {0};
  base::Duration max_wait_ = std::chrono::hours(1000);
  StepOptions step_options_;
  bool caching_ = true;
  kvcache::KvTier* tier_ = nullptr;
  policy::FcfsPolicy fcfs_;
  core::SequenceMover mover_;
  std::unique_ptr<kvcache::KvCacheManager> kv_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<core::Sequence>> sequences_;
  std::string preempted_;  // Of the last step: ids in order.
  std::string head_;
  std::string reasons_;  // Of the preemptions.
  std::string padding_;
  base::TimePoint next_look_ = base::TimePoint::max();
  // For sequences that are added from now on, and for the next step.
  Priority priority_ = Priority::kMedium;
  std::string tenant_;
  double weight_ = 1.0;
  bool ignore_eos_ = false;
  base::TimePoint now_{0};
  static constexpr base::Duration kStep = std::chrono::milliseconds(10);
};

}  // namespace ropeway::scheduler

#endif  // ROPEWAY_SCHEDULER_TEST_SCHEDULER_H_
