#include "server/answer_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ropeway::server {

AnswerQueue::Flow AnswerQueue::FlowOf(const StoredRun& run) {
  return {run.request().tenant, run.request().head.priority};
}

void AnswerQueue::Add(WaitingAnswer waiting) {
  std::deque<WaitingAnswer>& line = lines_[FlowOf(*waiting.run)].waiting;
  // Most come at the end.
  auto place = line.end();
  while (place != line.begin() && std::prev(place)->run->made() > waiting.run->made()) --place;
  line.insert(place, std::move(waiting));
}

bool AnswerQueue::HasWaiting(const Flow& flow) const {
  const auto line = lines_.find(flow);
  return line != lines_.end() && !line->second.waiting.empty();
}

void AnswerQueue::Line::LookAtTried(TimePoint now) {
  bool taken = false;
  bool rejected = false;
  std::erase_if(tried, [&](const std::shared_ptr<StoredRun>& run) {
    if (run->undecided()) return false;
    (run->waits() ? rejected : taken) = true;
    return true;
  });
  if (taken) {
    pause = {};
    next = {};
  } else if (rejected) {
    pause = std::clamp(2 * pause, kTick, kMostPause);
    next = now + pause;
  }
}

std::vector<WaitingAnswer> AnswerQueue::TakeDue(TimePoint now) {
  std::vector<WaitingAnswer> due;
  for (auto entry = lines_.begin(); entry != lines_.end();) {
    Line& line = entry->second;
    line.LookAtTried(now);
    for (auto one = line.waiting.begin();
         one != line.waiting.end() && now >= line.next && line.tried.size() < kMostTried;) {
      // Its model is not known yet, or its conversation has another turn: others go before.
      if (now < one->next) {
        ++one;
        continue;
      }
      line.tried.push_back(one->run);
      due.push_back(std::move(*one));
      one = line.waiting.erase(one);
    }
    const bool over = line.waiting.empty() && line.tried.empty();
    entry = over ? lines_.erase(entry) : std::next(entry);
  }
  return due;
}

void AnswerQueue::Remove(const StoredRun& run) {
  const auto line = lines_.find(FlowOf(run));
  if (line == lines_.end()) return;
  std::erase_if(line->second.waiting,
                [&run](const WaitingAnswer& waiting) { return waiting.run.get() == &run; });
}

std::vector<WaitingAnswer> AnswerQueue::TakeAll() {
  std::vector<WaitingAnswer> all;
  for (auto& [flow, line] : lines_) {
    std::move(line.waiting.begin(), line.waiting.end(), std::back_inserter(all));
  }
  lines_.clear();
  return all;
}

}  // namespace ropeway::server
