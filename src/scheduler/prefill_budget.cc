#include "scheduler/prefill_budget.h"

#include <algorithm>
#include <tuple>

namespace ropeway::scheduler {
namespace {

// Part of a step's budget that prefills get whatever the decodes cost.
constexpr double kLeastPart = 1.0 / 8;
// What prefills may add to many decodes, in units of the decodes' cost: a step takes at most about
// three times as long.
constexpr double kMixedPart = 2;

}  // namespace

void PrefillBudget::Begin(double decode_cost, bool after_urgent, double step) {
  high_ = std::max(options_.all - decode_cost, kLeastPart * options_.all);
  high_ = std::min(high_, std::max(options_.urgent, step - decode_cost));
  others_ = high_;
  if (after_urgent) high_ = std::min(high_, std::max(options_.urgent, kMixedPart * decode_cost));
  if (options_.mixed > 0 && decode_cost > 0) {
    const double beside = std::min(kMixedPart * decode_cost, step - decode_cost);
    others_ = std::min(others_, std::max(options_.mixed, beside));
  }
  long_ = others_;
  if (decode_cost > 0) {
    long_ = std::min(options_.long_ones, std::max(options_.spare, kMixedPart * decode_cost));
  }
}

void PrefillBudget::BeginUrgent(double decode_cost, double first_need) {
  Begin(decode_cost, false);
  high_ = std::min(high_, std::max(options_.urgent, first_need));
  long_ = high_;  // The first may be the rest of a long prompt.
  others_ = 0;
}

double PrefillBudget::For(bool high, bool is_long) const {
  const double budget = high ? high_ : others_;
  return is_long ? std::min(budget, long_) : budget;
}

void PrefillBudget::Spend(double cost, bool is_long) {
  high_ -= cost;
  others_ -= cost;
  if (is_long) long_ -= cost;
}

UrgentSteps::UrgentSteps(const policy::SchedulingPolicy* policy, int max_chunk, int32_t most)
    : policy_(policy), most_(most), longest_(max_chunk > 0 ? std::min(most, max_chunk) : most) {}

bool UrgentSteps::Leaves(const Ranked& decode, const core::Sequence& urgent) const {
  const core::Sequence& its = *decode.sequence;
  if (its.state != core::SequenceState::kDecoding || decode.aged || decode.leads) return false;
  if (policy_->MayPreempt(urgent, its)) return true;
  return urgent.sched.first_turn && its.sched.tenant != urgent.sched.tenant &&
         policy_->ClassOrderOf(urgent) <= policy_->ClassOrderOf(its);
}

bool UrgentSteps::AnyLeaves(std::span<const Ranked> running, const core::Sequence& urgent) const {
  return std::any_of(running.begin(), running.end(),
                     [&](const Ranked& ranked) { return Leaves(ranked, urgent); });
}

bool UrgentSteps::StartsFirst(const Ranked& first, std::span<const Ranked> running) const {
  if (first.aged || !IsUrgent(*first.sequence, first.sequence->sched.cached_hint)) return false;
  const bool another = std::any_of(running.begin(), running.end(), [this](const Ranked& ranked) {
    return ranked.sequence->state == core::SequenceState::kPrefilling &&
           GoesFirst(*ranked.sequence);
  });
  return !another && AnyLeaves(running, *first.sequence);
}

void UrgentSteps::Choose(std::span<const Ranked> running, const Ranked* next) {
  owner_ = nullptr;
  paused_ = steps_ >= kMaxSteps;
  if (paused_) {
    steps_ = 0;
    return;
  }
  const auto find = [running](auto is_it) {
    return std::find_if(running.begin(), running.end(), [is_it](const Ranked& ranked) {
      return ranked.sequence->state == core::SequenceState::kPrefilling && is_it(ranked);
    });
  };
  auto first = find([](const Ranked& ranked) { return ranked.sequence->sched.first_turn; });
  if (first == running.end()) {
    first = find([](const Ranked&) { return true; });
    if (first != running.end() && next != nullptr && Before(*next, *first)) first = running.end();
  }
  if (first != running.end() && IsUrgent(*first->sequence, first->sequence->computed) &&
      AnyLeaves(running, *first->sequence)) {
    owner_ = first->sequence;
  }
  steps_ = owner_ == nullptr ? 0 : steps_ + 1;
}

void SamplingTurns::Choose(std::span<Ranked> running) {
  const auto decodes = [](const Ranked& ranked) {
    return ranked.sequence->state == core::SequenceState::kDecoding;
  };
  double decoding = 0;
  double sampling = 0;
  for (const Ranked& ranked : running) {
    if (!decodes(ranked)) continue;
    decoding += costs_->step().Cost(ranked.sequence->computed, 1);
    sampling += costs_->Sampling(*ranked.sequence);
  }
  const double most = std::max(kUnits, kPart * decoding);
  if (sampling <= most) return;
  costly_.clear();
  double left = most;
  for (Ranked& ranked : running) {
    if (!decodes(ranked)) continue;
    const double units = costs_->Sampling(*ranked.sequence);
    if (units < kCheapPart * most) {
      left -= units;
    } else {
      costly_.push_back(&ranked);
    }
  }
  std::ranges::sort(costly_, {}, [this](const Ranked* ranked) {
    const core::Sequence& its = *ranked->sequence;
    const bool aged = ranked->aged;
    return std::tuple(!aged, aged ? 0 : policy_->ClassOrderOf(its),
                      aged ? int64_t{0} : tenants_->ServiceOf(its), its.sched.queued_since,
                      its.order);
  });
  for (size_t i = 0; i < costly_.size(); ++i) {
    left -= costs_->Sampling(*costly_[i]->sequence);
    costly_[i]->contends = true;
    costly_[i]->rests = left < 0 && i > 0;
  }
}

}  // namespace ropeway::scheduler
