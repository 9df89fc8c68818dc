#include "cli/batch_tracker.h"

namespace ropeway {

void BatchTracker::OnToken(RequestId id) {
  const std::lock_guard lock(mu_);
  if (!in_step_.insert(id).second) {  // Its second delta since then: a new step has begun.
    in_step_ = {id};
    MoveToEnded(&groups_[current_]);
    if (groups_[current_].running.empty()) groups_.erase(current_);
    ++current_;
  }
  if (group_of_.try_emplace(id, current_).second) groups_[current_].running.insert(id);
}

void BatchTracker::OnEnd(RequestId id, uint64_t first_token_step) {
  const std::lock_guard lock(mu_);
  const auto known = group_of_.find(id);
  if (known == group_of_.end()) {
    done_[first_token_step].insert(id);
    return;
  }
  const uint64_t number = known->second;
  group_of_.erase(known);
  Group& group = groups_[number];
  group.running.erase(id);
  group.ended[first_token_step].insert(id);
  if (number == current_) return;  // Others may join it.
  MoveToEnded(&group);
  if (group.running.empty()) groups_.erase(number);
}

void BatchTracker::Close() {
  const std::lock_guard lock(mu_);
  for (auto& [number, group] : groups_) {
    group.running.clear();
    MoveToEnded(&group);
  }
  groups_.clear();
}

std::map<uint64_t, std::set<RequestId>> BatchTracker::TakeEnded() {
  const std::lock_guard lock(mu_);
  std::map<uint64_t, std::set<RequestId>> taken;
  taken.swap(done_);
  return taken;
}

void BatchTracker::MoveToEnded(Group* group) {
  if (!group->running.empty()) return;
  for (auto& [step, ids] : group->ended) done_[step].merge(ids);
  group->ended.clear();
}

}  // namespace ropeway
