#include "scheduler/sampling_turns.h"

#include <algorithm>
#include <tuple>

namespace ropeway::scheduler {

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
