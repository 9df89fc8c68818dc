#include "scheduler/preemption.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ropeway::scheduler {
namespace {

// Without the prefix cache a longer output is not worth recomputing after a preemption.
constexpr int32_t kMaxGeneratedWithoutCache = 50;

// What a sequence that is preempted for another one has generated, at most.
int32_t MostGenerated(const SchedulingOptions& options, bool caching) {
  if (options.preempt_max_generated >= 0) return options.preempt_max_generated;
  return caching ? std::numeric_limits<int32_t>::max() : kMaxGeneratedWithoutCache;
}

// Half of a tenant's slots start what is due, at least one.
int32_t HalfOf(const TenantTable::Tenant& tenant) { return std::max(1, (tenant.slots + 1) / 2); }

}  // namespace

MemoryPreemption::MemoryPreemption(const policy::SchedulingPolicy* policy,
                                   kvcache::KvCacheManager* kv, const TenantTable* tenants,
                                   Slots* slots)
    : policy_(policy), kv_(kv), tenants_(tenants), slots_(slots) {
  candidates_.reserve(2 * static_cast<size_t>(slots->max()));
}

bool MemoryPreemption::Extend(std::span<const Ranked> running, size_t index) {
  core::Sequence* const decode = running[index].sequence;
  while (!kv_->Extend(decode, decode->computed + 1)) {
    // Without work yet: prefilling and fetching ones of any rank, and decodes from here on.
    candidates_.clear();
    for (size_t i = 0; i < running.size(); ++i) {
      core::Sequence* const other = running[i].sequence;
      const bool pending = i >= index || other->state != core::SequenceState::kDecoding;
      if (other->running() && pending && !other->sched.aged) candidates_.push_back(other);
    }
    if (candidates_.empty()) candidates_.push_back(decode);
    PreemptOne();
    if (!decode->running()) return false;
  }
  return true;
}

bool MemoryPreemption::Cover(core::Sequence* prefill) {
  while (kv_->Cover(prefill, 1) == 0) {
    candidates_.clear();
    for (const bool aged : {false, true}) {
      for (core::Sequence* other : slots_->running()) {
        if (other != prefill && other->sched.aged == aged) candidates_.push_back(other);
      }
      if (!candidates_.empty()) break;
    }
    if (candidates_.empty()) return false;
    PreemptOne();
  }
  return true;
}

void MemoryPreemption::PreemptOne() {
  if (tenants_->several()) KeepLargestHolder();
  slots_->Preempt(candidates_[policy_->PickVictim(candidates_)], PreemptReason::kMemory);
}

void MemoryPreemption::KeepLargestHolder() {
  const auto keep = [this](auto is_kept) {
    if (std::any_of(candidates_.begin(), candidates_.end(), is_kept))
      std::erase_if(candidates_, [&](const core::Sequence* s) { return !is_kept(s); });
  };
  const auto of_one = [this](const core::Sequence* s) {
    return s->sched.tenant == candidates_[0]->sched.tenant;
  };
  if (std::all_of(candidates_.begin(), candidates_.end(), of_one)) return;
  if (policy_->has_classes()) {
    Priority lowest = Priority::kHigh;
    for (const core::Sequence* s : candidates_) lowest = std::max(lowest, s->request.priority);
    keep([lowest](const core::Sequence* s) { return s->request.priority == lowest; });
  }
  double most = 0;
  for (const core::Sequence* s : candidates_) most = std::max(most, tenants_->ShareOf(*s));
  keep([this, most](const core::Sequence* s) { return tenants_->ShareOf(*s) >= most; });
  keep([this](const core::Sequence* s) { return tenants_->MayGiveWay(*s); });
}

void DueList::Reserve(size_t sequences) {
  if (due_.capacity() < sequences) due_.reserve(2 * sequences);
}

std::span<core::Sequence* const> DueList::Find(std::span<core::Sequence* const> queue,
                                               base::TimePoint now, double step_seconds) {
  due_.clear();
  base::Duration longest{};
  double steps = 1.0;  // To start them all, if they were one tenant's with one slot.
  for (core::Sequence* sequence : queue) {
    if (sequence->state != core::SequenceState::kWaiting || sequence->sched.follows > 0) continue;
    due_.push_back(sequence);
    longest = std::max(longest, now - sequence->sched.queued_since);
    steps += StepsToStart(*sequence);
  }
  // Most queues are far from max_wait: then there is nothing to sort.
  if (base::ToSeconds(options_.max_wait - longest) > steps * step_seconds) return {};
  // By the time that they wait: one whose prompt took long to encode came late for its order.
  std::ranges::sort(due_, {}, [](const core::Sequence* s) {
    return std::tuple(s->sched.tenant, s->sched.queued_since, s->order);
  });
  size_t firsts = 0;
  for (size_t begin = 0, end = 0; begin < due_.size(); begin = end) {
    const int32_t tenant = due_[begin]->sched.tenant;
    while (end < due_.size() && due_[end]->sched.tenant == tenant) ++end;
    const TenantTable::Tenant& its = tenants_->Of(*due_[begin]);
    // With many slots several start in a step: as many as leave the others in time, and find room.
    for (int32_t left = std::max(1, (its.slots + 1) / 2 - its.busy); left > 0; --left) {
      if (begin == end || !MustStart({due_.data() + begin, end - begin}, now, step_seconds)) break;
      due_[firsts++] = due_[begin++];
    }
  }
  return {due_.data(), firsts};
}

int32_t DueList::StepsToStart(const core::Sequence& sequence) const {
  return kMinRunSteps + sequence.num_ids() / options_.chunk;
}

bool DueList::MustStart(std::span<core::Sequence* const> of_one_tenant, base::TimePoint now,
                        double step_seconds) const {
  // Half of its slots start others, each after kMinRunSteps and its prompt.
  const double half = HalfOf(tenants_->Of(*of_one_tenant[0]));
  double steps = 1.0;  // Until the next one can start; the first one's start takes one.
  for (const core::Sequence* sequence : of_one_tenant) {
    const base::Duration left = options_.max_wait - (now - sequence->sched.queued_since);
    if (base::ToSeconds(left) <= steps * step_seconds) return true;
    steps += StepsToStart(*sequence) / half;
  }
  return false;
}

Takeover::Takeover(const SchedulingOptions& options, const DueOptions& due,
                   const policy::SchedulingPolicy* policy, kvcache::KvCacheManager* kv,
                   const UrgentSteps* urgent, TenantTable* tenants, Slots* slots)
    : preempt_max_generated_(MostGenerated(options, kv->caching())),
      policy_(policy),
      kv_(kv),
      urgent_(urgent),
      tenants_(tenants),
      slots_(slots),
      due_(due, tenants) {
  candidates_.reserve(2 * static_cast<size_t>(slots->max()));
}

void Takeover::Reserve(size_t sequences, size_t tenants) {
  due_.Reserve(sequences);
  passed_.Reserve(sequences);
  if (turns_.capacity() < tenants) turns_.reserve(2 * tenants);
}

void Takeover::Run(double step_seconds, StepOrder* order) {
  const size_t before = order->running.size();
  StartUrgent(order);
  if (tenants_->several()) StartBelowShare(order);
  StartDue(step_seconds, order);
  if (order->running.size() > before) order->SortRunning();
}

template <typename MakeRoom>
bool Takeover::Take(const Ranked& urgent, StepOrder* order, MakeRoom make_room) {
  kvcache::CachedPrefix prefix = kv_->Lookup(urgent.sequence);
  if (slots_->Follow(urgent.sequence, &prefix)) return true;
  if (!make_room()) return false;
  // What was preempted may have computed what it would have found.
  prefix = kv_->Lookup(urgent.sequence);
  slots_->Start(urgent, &prefix);
  order->running.push_back(urgent);
  return true;
}

void Takeover::StartUrgent(StepOrder* order) {
  const int slots = slots_->taken_or_limit();
  passed_.Clear();
  while (!order->queue.empty()) {
    const Ranked first = order->queue.front();
    candidates_.clear();
    for (const Ranked& ranked : order->running) {
      if (MayBeVictim(ranked, first)) candidates_.push_back(ranked.sequence);
    }
    // An urgent prompt does not pass an aged sequence.
    const auto starts_first = [&] {
      return passed_.empty() && slots_->num_running() < slots &&
             urgent_->StartsFirst(first, order->running);
    };
    if (candidates_.empty() && !starts_first()) {
      // An aged sequence that may preempt none must not keep a higher class from a slot.
      if (!first.aged) break;
      passed_.Add(first);
      order->queue.Pop();
      continue;
    }
    if (!passed_.MayPass(slots_->running(), slots_->limit())) break;
    if (!Take(first, order, [&] { return PreemptFor(first.sequence, slots, first.aged); })) break;
    order->queue.Pop();
  }
  passed_.Return(&order->queue);
}

bool Takeover::MayBeVictim(const Ranked& victim, const Ranked& urgent) {
  const core::Sequence& its = *victim.sequence;
  if (!its.running() || its.sched.aged || victim.leads) return false;
  if (its.sched.run_steps < kMinRunSteps || policy::PreemptedOften(its)) return false;
  if (its.generated() >= preempt_max_generated_) return false;
  if (urgent.aged && its.order > urgent.sequence->order &&
      tenants_->GivesInTurn(its, *urgent.sequence)) {
    return true;
  }
  return policy_->MayPreempt(*urgent.sequence, its);
}

bool Takeover::PreemptFor(core::Sequence* urgent, int slots, bool due) {
  kvcache::CachedPrefix prefix = kv_->Lookup(urgent);
  int32_t freed = 0;
  for (const core::Sequence* candidate : candidates_) {
    freed += kv_->HeldAlone(*candidate, *urgent, prefix);
  }
  if (!slots_->Fits(*urgent, prefix, freed)) return false;
  while (slots_->num_running() >= slots || !slots_->Fits(*urgent, prefix)) {
    if (candidates_.empty()) return false;
    const bool for_slot = slots_->num_running() >= slots;
    const auto pick =
        candidates_.begin() + static_cast<std::ptrdiff_t>(policy_->PickVictim(candidates_));
    core::Sequence* const victim = *pick;
    candidates_.erase(pick);
    slots_->Preempt(victim, due        ? PreemptReason::kAging
                            : for_slot ? PreemptReason::kPriority
                                       : PreemptReason::kBlocks);
    prefix = kv_->Lookup(urgent);  // The victim may have been about to compute some of it.
  }
  return true;
}

void Takeover::StartBelowShare(StepOrder* order) {
  turns_.clear();
  for (const TenantTable::Tenant& tenant : tenants_->all()) {
    if (tenant.first.sequence != nullptr) turns_.push_back(tenant.first);
  }
  std::ranges::sort(turns_, {}, [this](const Ranked& first) { return TurnOf(*first.sequence); });
  const int slots = slots_->taken_or_limit();
  double least_passed = std::numeric_limits<double>::infinity();
  for (const Ranked& first : turns_) {
    core::Sequence* const sequence = first.sequence;
    // It started, or follows another one, in this step.
    if (sequence->running() || sequence->sched.follows > 0) continue;
    const double share = tenants_->ShareOf(*sequence);
    if (share >= least_passed) continue;
    const bool has_none = tenants_->Of(*sequence).slots == 0;
    candidates_.clear();
    bool below = false;
    for (const Ranked& ranked : order->running) {
      core::Sequence* const its = ranked.sequence;
      if (!its->running() || !tenants_->IsBelow(*sequence, *its)) continue;
      below = true;
      if (tenants_->GivesTurn(*its, *sequence)) candidates_.push_back(its);
    }
    if (!below) continue;
    if (!Take(first, order, [&] { return GiveWayTo(sequence, slots); })) {
      least_passed = share;
      continue;
    }
    order->queue.Remove(sequence);
    if (!sequence->running()) continue;
    sequence->sched.first_turn =
        has_none && sequence->num_ids() - sequence->computed <= urgent_->most();
  }
}

bool Takeover::GiveWayTo(core::Sequence* below, int slots) {
  kvcache::CachedPrefix prefix = kv_->Lookup(below);
  std::ranges::sort(candidates_, std::greater{},
                    [this](const core::Sequence* s) { return TurnOf(*s); });
  int free_slots = slots - slots_->num_running();
  int32_t freed = 0;
  const auto has_room = [&] { return free_slots > 0 && slots_->Fits(*below, prefix, freed); };
  size_t chosen = 0;
  for (size_t i = 0; i < candidates_.size() && !has_room(); ++i) {
    core::Sequence* const victim = candidates_[i];
    // With those before it, its tenant may have given enough, or keep no other slot.
    if (!tenants_->GivesTurn(*victim, *below)) continue;
    tenants_->Release(*victim);
    ++free_slots;
    freed += kv_->HeldAlone(*victim, *below, prefix);
    candidates_[chosen++] = victim;
  }
  const bool room = has_room();
  candidates_.resize(chosen);
  for (const core::Sequence* victim : candidates_) tenants_->Hold(*victim);
  if (!room) return false;
  for (core::Sequence* victim : candidates_) slots_->Preempt(victim, PreemptReason::kFairness);
  // The preempted sequences may have been about to compute some of it.
  prefix = kv_->Lookup(below);
  return slots_->Fits(*below, prefix);
}

void Takeover::StartDue(double step_seconds, StepOrder* order) {
  const int slots = slots_->taken_or_limit();
  int32_t stuck = -1;  // The tenant whose longest waiting found no room: none of it passes that.
  for (core::Sequence* sequence : due_.Find(slots_->queue(), slots_->now(), step_seconds)) {
    if (sequence->running() || sequence->sched.follows > 0) continue;
    if (sequence->sched.tenant == stuck) continue;
    const TenantTable::Tenant& tenant = tenants_->Of(*sequence);
    if (tenant.busy > 0 && tenant.busy >= (tenant.slots + 1) / 2) continue;
    candidates_.clear();
    for (const Ranked& ranked : order->running) {
      core::Sequence* const its = ranked.sequence;
      if (!its->running() || ranked.leads || tenants_->IsBusy(*its)) continue;
      if (tenants_->GivesInTurn(*its, *sequence)) candidates_.push_back(its);
    }
    const Ranked first = order->RankedOf(sequence);
    if (Take(first, order, [&] { return PreemptFor(sequence, slots, true); })) {
      order->queue.Remove(sequence);
    } else {
      stuck = sequence->sched.tenant;
    }
  }
}

}  // namespace ropeway::scheduler
