#include "service/activity.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace ropeway::service {

void EndedRequests::Add(EndedRequest ended) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    ended.number = ++last_;
    const size_t bytes = BytesOf(ended);
    ended_.push_back(std::move(ended));
    bytes_ += bytes;
    while (ended_.size() > kMost || bytes_ > kMostBytes) {
      bytes_ -= BytesOf(ended_.front());
      ended_.pop_front();
    }
  } catch (const std::exception&) {  // Only what is shown lacks it.
  }
}

std::vector<EndedRequest> EndedRequests::After(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto first = std::find_if(ended_.begin(), ended_.end(),
                                  [&](const EndedRequest& one) { return one.number > number; });
  return {first, ended_.end()};
}

void StepLog::set_watched(bool watched) {
  watched_ = watched;
  if (watched) return;
  const std::lock_guard lock(mutex_);
  steps_.clear();
  items_ = 0;
}

void StepLog::Add(core::StepTrace step) {
  const size_t items = step.content.items.size();
  const std::lock_guard lock(mutex_);
  if (!watched()) return;
  steps_.push_back(std::move(step));
  items_ += items;
  while (steps_.size() > kMostSteps || (items_ > kMostItems && steps_.size() > 1)) {
    items_ -= steps_.front().content.items.size();
    steps_.pop_front();
  }
}

std::vector<core::StepTrace> StepLog::After(uint64_t step) const {
  const std::lock_guard lock(mutex_);
  const auto first = std::find_if(steps_.begin(), steps_.end(),
                                  [&](const core::StepTrace& one) { return one.step > step; });
  return {first, steps_.end()};
}

void AddRecent(const core::RecentLatencies& recent, Activity* activity) {
  const base::TimePoint now = base::RealClock().Now();
  activity->ttft = SummaryOf(recent.ttft, now);
  activity->inter_token = SummaryOf(recent.inter_token, now);
  activity->e2e = SummaryOf(recent.e2e, now);
  activity->late = SummaryOf(recent.late, now);
}

}  // namespace ropeway::service
