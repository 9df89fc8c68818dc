#include "policy/fair_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ropeway::policy {

static_assert(kServiceOfDecode ==
              static_cast<int64_t>(TenantCounters::kOutputToken * TenantCounters::kUnitsPerToken));

bool TenantCounters::WasQueued(const core::Job& job) const {
  // A sequence preempted in the last step was not in the queue when that step began.
  if (job.state == core::SequenceState::kPreempted) return job.sched.queued_since < last_step_;
  return job.number < next_number_;
}

void TenantCounters::BeginStep(const core::Jobs& queue, const core::Jobs& running,
                               base::TimePoint now) {
  ++step_;
  were_queued_.swap(in_queue_);
  in_queue_.clear();
  int64_t least = std::numeric_limits<int64_t>::max();
  uint64_t next_number = next_number_;
  for (const core::Job& job : queue) {
    Tenant* tenant = &tenants_[job.request.tenant];
    tenant->active = step_;
    if (tenant->queued != step_) in_queue_.push_back(tenant);
    tenant->queued = step_;
    next_number = std::max(next_number, job.number + 1);
    if (!WasQueued(job)) continue;
    tenant->queued_before = step_;
    least = std::min(least, tenant->counter);
  }
  for (const core::Job& job : running) tenants_[job.request.tenant].active = step_;

  // If several left in one step, the one with the most service started last.
  const Tenant* last = nullptr;
  for (const Tenant* tenant : were_queued_) {
    if (tenant->queued_before == step_) continue;
    if (last == nullptr || tenant->counter > last->counter) last = tenant;
  }
  if (last != nullptr) last_left_ = last;
  if (least == std::numeric_limits<int64_t>::max()) {
    least = last_left_ != nullptr ? last_left_->counter : 0;
  }
  level_ = std::max(level_, least);
  for (Tenant* tenant : in_queue_) {
    if (tenant->queued_before != step_) tenant->counter = std::max(tenant->counter, level_);
  }
  next_number_ = next_number;
  last_step_ = now;
  if (tenants_.size() > sweep_at_) Sweep();
}

int64_t TenantCounters::Of(const core::Job& job) const {
  const auto it = tenants_.find(job.request.tenant);
  return it != tenants_.end() ? it->second.counter : 0;
}

void TenantCounters::Charge(const core::Job& job, const ScheduledWork& work) {
  if (work.prompt_tokens == 0 && work.output_tokens == 0 && !work.rests) return;
  const double slots = work.rests ? 1.0 : work.output_tokens;
  const double tokens = kPromptToken * work.prompt_tokens + kOutputToken * slots;
  const double service = std::max(tokens + work.extra, kOutputToken * work.held);
  tenants_[job.request.tenant].counter +=
      std::llround(service * kUnitsPerToken / job.request.tenant_weight);
}

void TenantCounters::Sweep() {
  std::vector<int64_t> idle;  // The counters of idle tenants that would not be lifted.
  for (auto it = tenants_.begin(); it != tenants_.end();) {
    const Tenant& tenant = it->second;
    const bool may_go = tenant.active != step_ && &tenant != last_left_;
    if (may_go && tenant.counter <= level_) {
      it = tenants_.erase(it);
      continue;
    }
    if (may_go) idle.push_back(tenant.counter);
    ++it;
  }
  if (idle.size() > kMaxIdleTenants) {
    const auto excess = static_cast<int64_t>(idle.size() - kMaxIdleTenants);
    std::nth_element(idle.begin(), idle.begin() + excess, idle.end());
    const int64_t keep_from = idle[static_cast<size_t>(excess)];
    auto equal_ones = excess - std::count_if(idle.begin(), idle.begin() + excess,
                                             [=](int64_t c) { return c < keep_from; });
    std::erase_if(tenants_, [&](const auto& entry) {
      const Tenant& tenant = entry.second;
      if (tenant.active == step_ || &tenant == last_left_) return false;
      return tenant.counter < keep_from || (tenant.counter == keep_from && equal_ones-- > 0);
    });
  }
  sweep_at_ = tenants_.size() + std::max<size_t>(64, tenants_.size() / 2);
}

size_t FairPolicy::PickVictim(std::span<const core::Sequence* const> candidates) const {
  return FirstOfMost(
      candidates, [this](const core::Sequence& s) { return std::pair(counters_.Of(s), s.order); });
}

}  // namespace ropeway::policy
