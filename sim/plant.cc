#include "plant.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kvcache/kv_cache_manager.h"

namespace ropeway::sim {
namespace {

constexpr std::array<std::pair<Plant, const char*>, 27> kNames = {{
    {Plant::kNone, "none"},
    {Plant::kLeak, "leak"},
    {Plant::kLost, "lost"},
    {Plant::kDouble, "double"},
    {Plant::kStarve, "starve"},
    {Plant::kReorder, "reorder"},
    {Plant::kDiff, "diff"},
    {Plant::kScoredTwice, "scored_twice"},
    {Plant::kDeadlineMissed, "deadline_missed"},
    {Plant::kEarlyEnd, "early_end"},
    {Plant::kPastStop, "past_stop"},
    {Plant::kStaleBlock, "stale_block"},
    {Plant::kClaimLost, "claim_lost"},
    {Plant::kSharedTenant, "shared_tenant"},
    {Plant::kPartialName, "partial_name"},
    {Plant::kClassStarved, "class_starved"},
    {Plant::kShareIgnored, "share_ignored"},
    {Plant::kAgingForgotten, "aging_forgotten"},
    {Plant::kBatchJoined, "batch_joined"},
    {Plant::kVictimTwice, "victim_twice"},
    {Plant::kShortRope, "short_rope"},
    {Plant::kResumedPrompt, "resumed_prompt"},
    {Plant::kTurnsForgotten, "turns_forgotten"},
    {Plant::kBlocksUncharged, "blocks_uncharged"},
    {Plant::kSamplingUncharged, "sampling_uncharged"},
    {Plant::kPromptsUncharged, "prompts_uncharged"},
    {Plant::kEncodingUncharged, "encoding_uncharged"},
}};

class PlantedPolicy final : public policy::SchedulingPolicy {
 public:
  PlantedPolicy(Plant plant, std::unique_ptr<policy::SchedulingPolicy> policy)
      : plant_(plant), policy_(std::move(policy)) {}

  const char* name() const override { return "planted"; }

  void BeginStep(std::span<core::Sequence* const> queue, std::span<core::Sequence* const> running,
                 base::TimePoint now) override {
    policy_->BeginStep(queue, running, now);
    for (core::Sequence* sequence : running) {
      if (plant_ != Plant::kVictimTwice || sequence->preemptions == 0) continue;
      sequence->sched.run_steps = std::max(sequence->sched.run_steps, 100);
    }
  }

  policy::Rank RankOf(const core::Sequence& sequence) const override {
    const bool starves = plant_ == Plant::kStarve || plant_ == Plant::kAgingForgotten;
    if (starves && sequence.id() == kStarvedId) {
      return {{std::numeric_limits<int64_t>::max()}};
    }
    if (plant_ == Plant::kClaimLost && sequence.kv.claims.size() > 1) {
      const_cast<core::Sequence&>(sequence).kv.claims.pop_back();
    }
    policy::Rank rank = policy_->RankOf(sequence);
    if (plant_ == Plant::kClassStarved && sequence.request.priority == Priority::kLow)
      rank.keys[0] = 9;
    if (plant_ == Plant::kShareIgnored)
      rank.keys[0] = static_cast<int64_t>(sequence.request.priority);
    if (plant_ == Plant::kReorder) rank.keys[0] ^= 1;
    return rank;
  }

  bool MayPreempt(const core::Sequence& urgent, const core::Sequence& victim) const override {
    return policy_->MayPreempt(urgent, victim);
  }

  size_t PickVictim(std::span<const core::Sequence* const> candidates) const override {
    return policy_->PickVictim(candidates);
  }

  bool is_fair() const override { return policy_->is_fair(); }
  int64_t ServiceOf(const core::Sequence& sequence) const override {
    if (plant_ != Plant::kTurnsForgotten) return policy_->ServiceOf(sequence);
    return (sequence.id() - 1) % kNumSimTenants == kHostile ? 0 : 1;
  }
  int ClassOrderOf(const core::Sequence& sequence) const override {
    return policy_->ClassOrderOf(sequence);
  }

  void OnScheduled(const core::Sequence& sequence, const policy::ScheduledWork& work) override {
    policy::ScheduledWork charged = work;
    if (plant_ == Plant::kBlocksUncharged) charged.held = 0.0;
    if (plant_ == Plant::kSamplingUncharged) charged.extra = 0.0;
    if (plant_ == Plant::kPromptsUncharged && work.prompt_tokens > 0) {
      charged.prompt_tokens = 0;
      charged.extra = 0.0;
    }
    policy_->OnScheduled(sequence, charged);
    if (plant_ != Plant::kLeak) return;
    // Forget a block that holds nothing yet: its reference stays, no table names it, no text
    // changes.
    auto& blocks = const_cast<core::Sequence&>(sequence).kv.blocks;
    if (static_cast<int32_t>(blocks.size()) > kvcache::BlocksFor(sequence.num_ids()))
      blocks.pop_back();
  }

  void OnFinished(const core::Sequence& sequence, bool completed) override {
    policy_->OnFinished(sequence, completed);
  }

 private:
  const Plant plant_;
  const std::unique_ptr<policy::SchedulingPolicy> policy_;
};

}  // namespace

const char* PlantName(Plant plant) { return kNames[static_cast<size_t>(plant)].second; }

std::string PlantNames() {
  std::string names;
  for (const auto& [plant, name] : kNames) names += std::string(names.empty() ? "" : " ") + name;
  return names;
}

std::optional<Plant> ParsePlant(std::string_view name) {
  for (const auto& [plant, its_name] : kNames) {
    if (name == its_name) return plant;
  }
  return std::nullopt;
}

std::unique_ptr<policy::SchedulingPolicy> PlantIn(
    Plant plant, std::unique_ptr<policy::SchedulingPolicy> policy) {
  if (plant == Plant::kNone) return policy;
  return std::make_unique<PlantedPolicy>(plant, std::move(policy));
}

core::CoreRequest Forget(Plant plant, core::CoreRequest request) {
  if (plant == Plant::kDeadlineMissed) request.deadline = base::TimePoint::max();
  if (plant == Plant::kEarlyEnd) request.spec.params.min_tokens = 0;
  if (plant == Plant::kPastStop) request.stop_ids.clear();
  if (plant == Plant::kSharedTenant) request.cache_root = {};
  if (plant == Plant::kResumedPrompt) {
    request.max_tokens -= static_cast<int32_t>(request.resume_ids.size());
    request.prompt.insert(request.prompt.end(), request.resume_ids.begin(),
                          request.resume_ids.end());
    request.resume_ids.clear();
  }
  return request;
}

void Tamper(Plant plant, std::vector<engine::CoreEvent>* events) {
  if (plant == Plant::kScoredTwice) {
    for (engine::CoreEvent& event : *events) {
      if (event.scored.size() > 3) event.scored.push_back(event.scored.back());
    }
  }
  if (plant != Plant::kLost && plant != Plant::kDouble) return;
  const auto end = std::find_if(events->begin(), events->end(), [](const engine::CoreEvent& event) {
    return event.id == kLostId && (event.kind == engine::CoreEvent::Kind::kFinished ||
                                   event.kind == engine::CoreEvent::Kind::kFailed);
  });
  if (end == events->end()) return;
  if (plant == Plant::kLost) {
    events->erase(end);
  } else {
    const engine::CoreEvent copy = *end;
    events->push_back(copy);
  }
}

}  // namespace ropeway::sim
