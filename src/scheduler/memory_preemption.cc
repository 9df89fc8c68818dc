#include "scheduler/memory_preemption.h"

#include <algorithm>

namespace ropeway::scheduler {

MemoryPreemption::MemoryPreemption(bool has_classes, const policy::SchedulingPolicy* policy,
                                   kvcache::KvCacheManager* kv, const TenantTable* tenants,
                                   Slots* slots)
    : has_classes_(has_classes), policy_(policy), kv_(kv), tenants_(tenants), slots_(slots) {
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
  if (has_classes_) {
    Priority lowest = Priority::kHigh;
    for (const core::Sequence* s : candidates_) lowest = std::max(lowest, s->request.priority);
    keep([lowest](const core::Sequence* s) { return s->request.priority == lowest; });
  }
  double most = 0;
  for (const core::Sequence* s : candidates_) most = std::max(most, tenants_->ShareOf(*s));
  keep([this, most](const core::Sequence* s) { return tenants_->ShareOf(*s) >= most; });
  keep([this](const core::Sequence* s) { return tenants_->MayGiveWay(*s); });
}

}  // namespace ropeway::scheduler
