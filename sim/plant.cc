#include "plant.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kvcache/kv_cache_manager.h"

namespace ropeway::sim {
namespace {

constexpr std::array<std::pair<Plant, const char*>, 29> kNames = {{
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
    {Plant::kStaleMask, "stale_mask"},
    {Plant::kLostConstraint, "lost_constraint"},
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

  void BeginStep(const core::Jobs& queue, const core::Jobs& running, base::TimePoint now) override {
    policy_->BeginStep(queue, running, now);
    for (core::Job& job : running) {
      if (plant_ != Plant::kVictimTwice || job.preemptions == 0) continue;
      job.sched.run_steps = std::max(job.sched.run_steps, 100);
    }
  }

  policy::Rank RankOf(const core::Job& job) const override {
    const bool starves = plant_ == Plant::kStarve || plant_ == Plant::kAgingForgotten;
    if (starves && job.id() == kStarvedId) {
      return {{std::numeric_limits<int64_t>::max()}};
    }
    if (auto& claims = KvOf(job)->claims; plant_ == Plant::kClaimLost && claims.size() > 1) {
      claims.pop_back();
    }
    policy::Rank rank = policy_->RankOf(job);
    if (plant_ == Plant::kClassStarved && job.request.priority == Priority::kLow) rank.keys[0] = 9;
    if (plant_ == Plant::kShareIgnored) rank.keys[0] = static_cast<int64_t>(job.request.priority);
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
  int64_t ServiceOf(const core::Job& job) const override {
    if (plant_ != Plant::kTurnsForgotten) return policy_->ServiceOf(job);
    return (job.id() - 1) % kNumSimTenants == kHostile ? 0 : 1;
  }
  bool has_classes() const override { return policy_->has_classes(); }
  policy::ClassParts class_parts() const override { return policy_->class_parts(); }
  int ClassOrderOf(const core::Job& job) const override { return policy_->ClassOrderOf(job); }

  void OnScheduled(const core::Job& job, const policy::ScheduledWork& work) override {
    policy::ScheduledWork charged = work;
    if (plant_ == Plant::kBlocksUncharged) charged.held = 0.0;
    if (plant_ == Plant::kSamplingUncharged) charged.extra = 0.0;
    if (plant_ == Plant::kPromptsUncharged && work.prompt_tokens > 0) {
      charged.prompt_tokens = 0;
      charged.extra = 0.0;
    }
    policy_->OnScheduled(job, charged);
    if (plant_ != Plant::kLeak) return;
    // Forget a block that holds nothing yet: its reference stays, no table names it, no text
    // changes.
    auto& blocks = KvOf(job)->blocks;
    if (static_cast<int32_t>(blocks.size()) > kvcache::BlocksFor(job.num_ids())) blocks.pop_back();
  }

  void OnFinished(const core::Job& job, bool completed) override {
    policy_->OnFinished(job, completed);
  }

 private:
  // The jobs of an engine core are sequences.
  static core::KvState* KvOf(const core::Job& job) {
    return &const_cast<core::Sequence&>(static_cast<const core::Sequence&>(job)).kv;
  }

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
