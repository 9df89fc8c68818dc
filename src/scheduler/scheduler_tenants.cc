// The part of Scheduler that divides slots and blocks between tenants, and starts in time what
// waits.
#include <algorithm>
#include <limits>
#include <tuple>

#include "scheduler/scheduler.h"

namespace ropeway::scheduler {
namespace {

// Tokens of a prompt that a step computes at least beside decodes, about.
constexpr int32_t kChunkBesideDecodes = 32;

// The steps from a sequence's start until its slot can start another one, about.
int32_t StepsToStart(const core::Sequence& sequence) {
  return Scheduler::kMinRunSteps + sequence.num_ids() / kChunkBesideDecodes;
}

}  // namespace

void Scheduler::StartBelowShare() {
  turns_.clear();
  for (const TenantTable::Tenant& tenant : tenants_.all()) {
    if (tenant.first.sequence != nullptr) turns_.push_back(tenant.first);
  }
  std::sort(turns_.begin(), turns_.end(), [this](const Ranked& a, const Ranked& b) {
    const auto key = [this](const core::Sequence& s) {
      return std::tuple(policy_->ClassOrderOf(s), tenants_.ServiceOf(s), s.order);
    };
    return key(*a.sequence) < key(*b.sequence);
  });
  // A lowered limit takes no slot from a running sequence.
  const int slots = slots_.taken_or_limit();
  double least_passed = std::numeric_limits<double>::infinity();
  bool any = false;
  for (const Ranked& first : turns_) {
    core::Sequence* const sequence = first.sequence;
    // It started, or follows another one, in this step.
    if (sequence->running() || sequence->sched.follows > 0) continue;
    const double share = tenants_.ShareOf(*sequence);
    if (share >= least_passed) continue;
    const bool has_none = tenants_.Of(*sequence).slots == 0;
    candidates_.clear();
    bool below = false;
    for (const Ranked& ranked : order_.running) {
      if (!ranked.sequence->running() || !tenants_.IsBelow(*sequence, *ranked.sequence)) continue;
      below = true;
      if (tenants_.GivesTurn(*ranked.sequence, *sequence)) candidates_.push_back(ranked.sequence);
    }
    if (!below) continue;
    kvcache::CachedPrefix prefix = kv_->Lookup(sequence);
    if (slots_.Follow(sequence, &prefix)) {
      order_.queue.Remove(sequence);
    } else if (GiveWayTo(first, slots)) {
      StartNow(first);
      sequence->sched.first_turn =
          has_none && sequence->num_ids() - sequence->kv.computed <= UrgentSteps::kMaxPrompt;
      any = true;
    } else {
      least_passed = share;
    }
  }
  if (any) std::sort(order_.running.begin(), order_.running.end(), Before);
}

bool Scheduler::GiveWayTo(const Ranked& urgent, int slots) {
  const core::Sequence& its = *urgent.sequence;
  kvcache::CachedPrefix prefix = kv_->Lookup(urgent.sequence);
  std::sort(candidates_.begin(), candidates_.end(),
            [this](const core::Sequence* a, const core::Sequence* b) {
              const auto key = [this](const core::Sequence& s) {
                return std::tuple(policy_->ClassOrderOf(s), tenants_.ServiceOf(s), s.order);
              };
              return key(*a) > key(*b);
            });
  int free_slots = slots - slots_.num_running();
  int32_t freed = 0;
  const auto has_room = [&] { return free_slots > 0 && slots_.Fits(its, prefix, freed); };
  size_t chosen = 0;
  for (size_t i = 0; i < candidates_.size() && !has_room(); ++i) {
    core::Sequence* const victim = candidates_[i];
    // With those before it, its tenant may have given enough, or keep no other slot.
    if (!tenants_.GivesTurn(*victim, its)) continue;
    tenants_.Release(*victim);
    ++free_slots;
    freed += kv_->HeldAlone(*victim, its, prefix);
    candidates_[chosen++] = victim;
  }
  const bool room = has_room();
  candidates_.resize(chosen);
  for (core::Sequence* victim : candidates_) tenants_.Hold(*victim);
  if (!room) return false;
  for (core::Sequence* victim : candidates_) slots_.Preempt(victim, PreemptReason::kFairness);
  // The preempted sequences may have been about to compute some of it.
  prefix = kv_->Lookup(urgent.sequence);
  return slots_.Fits(its, prefix);
}

void Scheduler::StartNow(const Ranked& ranked) {
  kvcache::CachedPrefix prefix = kv_->Lookup(ranked.sequence);
  order_.queue.Remove(ranked.sequence);
  slots_.Start(ranked, &prefix);
  order_.running.push_back(ranked);
}

void Scheduler::StartDue() {
  NoteDue();
  const int slots = slots_.taken_or_limit();
  bool any = false;
  int32_t stuck = -1;  // The tenant whose longest waiting found no room: none of it passes that.
  for (core::Sequence* sequence : due_) {
    if (sequence->running() || sequence->sched.follows > 0) continue;
    if (sequence->sched.tenant == stuck) continue;
    const TenantTable::Tenant& tenant = tenants_.Of(*sequence);
    if (tenant.busy > 0 && tenant.busy >= (tenant.slots + 1) / 2) continue;
    candidates_.clear();
    for (const Ranked& ranked : order_.running) {
      const core::Sequence& its = *ranked.sequence;
      if (!its.running() || ranked.leads || tenants_.IsBusy(its)) continue;
      if (tenants_.GivesInTurn(its, *sequence)) candidates_.push_back(ranked.sequence);
    }
    const Ranked first = order_.RankedOf(sequence);
    kvcache::CachedPrefix prefix = kv_->Lookup(sequence);
    if (slots_.Follow(sequence, &prefix)) {
      order_.queue.Remove(sequence);
    } else if (PreemptFor(first, slots, true)) {
      StartNow(first);
      any = true;
    } else {
      stuck = sequence->sched.tenant;
    }
  }
  if (any) std::sort(order_.running.begin(), order_.running.end(), Before);
}

void Scheduler::NoteDue() {
  due_.clear();
  if (options_.max_wait == base::Duration::max()) return;
  base::Duration longest{};
  double steps = 1.0;  // To start them all, if they were one tenant's with one slot.
  for (core::Sequence* sequence : queue()) {
    if (sequence->state != core::SequenceState::kWaiting || sequence->sched.follows > 0) continue;
    due_.push_back(sequence);
    longest = std::max(longest, slots_.now() - sequence->sched.queued_since);
    steps += StepsToStart(*sequence);
  }
  // Most queues are far from max_wait: then there is nothing to sort.
  if (base::ToSeconds(options_.max_wait - longest) > steps * costs_.step_seconds()) due_.clear();
  // By the time that they wait: one whose prompt took long to encode came late for its order.
  std::sort(due_.begin(), due_.end(), [](const core::Sequence* a, const core::Sequence* b) {
    const auto key = [](const core::Sequence& s) {
      return std::tuple(s.sched.tenant, s.sched.queued_since, s.order);
    };
    return key(*a) < key(*b);
  });
  size_t firsts = 0;
  for (size_t begin = 0, end = 0; begin < due_.size(); begin = end) {
    const int32_t tenant = due_[begin]->sched.tenant;
    while (end < due_.size() && due_[end]->sched.tenant == tenant) ++end;
    const TenantTable::Tenant& its = tenants_.Of(*due_[begin]);
    // With many slots several start in a step: as many as leave the others in time, and find room.
    for (int32_t left = std::max(1, (its.slots + 1) / 2 - its.busy); left > 0; --left) {
      if (begin == end || !MustStart({due_.data() + begin, end - begin})) break;
      due_[firsts++] = due_[begin++];
    }
  }
  due_.resize(firsts);
}

bool Scheduler::MustStart(std::span<core::Sequence* const> of_one_tenant) {
  // Its slots, of which half start others, each after kMinRunSteps and its prompt.
  const double half = std::max(1, (tenants_.Of(*of_one_tenant[0]).slots + 1) / 2);
  double steps = 1.0;  // Until the next one can start; the first one's start takes one.
  for (const core::Sequence* sequence : of_one_tenant) {
    const base::Duration left = options_.max_wait - (slots_.now() - sequence->sched.queued_since);
    if (base::ToSeconds(left) <= steps * costs_.step_seconds()) return true;
    steps += StepsToStart(*sequence) / half;
  }
  return false;
}

}  // namespace ropeway::scheduler
