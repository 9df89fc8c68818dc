#include "bench/simulated_backend.h"

#include <algorithm>
#include <vector>

namespace ropeway::bench {

SimulatedBackend::SimulatedBackend(int places, std::chrono::nanoseconds call_time)
    : places_(static_cast<size_t>(places)), call_time_(call_time), thread_([this] { Work(); }) {}

SimulatedBackend::~SimulatedBackend() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

StatusOr<std::vector<RequestId>> SimulatedBackend::SubmitAll(std::vector<SinkRequest> requests) {
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    for (SinkRequest& one : requests) {
      auto pending = std::make_shared<Pending>();
      pending->id = ++last_id_;
      pending->sink = std::move(one.sink);
      ids.push_back(pending->id);
      pending_.emplace(pending->id, pending);
      waiting_.push_back(std::move(pending));
    }
    FillPlaces(std::chrono::steady_clock::now());
  }
  changed_.notify_all();
  return ids;
}

Status SimulatedBackend::Cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return NotUnderWay(id);
  found->second->cancelled = true;
  return {};
}

void SimulatedBackend::Probe(ProbeFn done) {
  BackendFacts facts;
  facts.places = static_cast<int>(places_);
  done(std::move(facts));
}

int SimulatedBackend::most_at_once() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(most_);
}

void SimulatedBackend::FillPlaces(TimePoint from) {
  const auto call_time =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(call_time_);
  while (running_.size() < places_ && !waiting_.empty()) {
    running_.emplace_back(from + call_time, std::move(waiting_.front()));
    waiting_.pop_front();
  }
  most_ = std::max(most_, running_.size());
}

void SimulatedBackend::Answer(const Pending& pending) {
  Delta delta;
  delta.text = "word";
  if (pending.cancelled || !pending.sink->OnDelta(pending.id, std::move(delta))) {
    pending.sink->OnEnd(pending.id, Outcome::Failed({StatusCode::kCancelled, "cancelled"}));
    return;
  }
  Finish end;
  end.reason = FinishReason::kLength;
  end.usage = {.prompt_tokens = 2, .completion_tokens = 1};
  pending.sink->OnEnd(pending.id, Outcome::Ended(end));
}

void SimulatedBackend::Work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (running_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const TimePoint due = running_.front().first;
    if (std::chrono::steady_clock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    std::vector<std::shared_ptr<Pending>> done;
    while (!running_.empty() && running_.front().first <= due) {
      done.push_back(std::move(running_.front().second));
      pending_.erase(done.back()->id);
      running_.pop_front();
    }
    FillPlaces(due);
    lock.unlock();
    for (const std::shared_ptr<Pending>& pending : done) Answer(*pending);
    done.clear();
    lock.lock();
  }
}

}  // namespace ropeway::bench
