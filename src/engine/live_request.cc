#include "engine/live_request.h"

#include "engine/failure.h"

namespace ropeway::engine {
namespace {

bool IsQueued(LiveRequest::State state) {
  return state == LiveRequest::State::kEncoding || state == LiveRequest::State::kWaiting;
}

}  // namespace

bool LiveRequest::Move(State from, State to) {
  if (!state_.compare_exchange_strong(from, to)) return false;
  Count(from, to);
  return true;
}

bool LiveRequest::End() {
  const State from = state_.exchange(State::kEnded);
  Count(from, State::kEnded);
  return from != State::kEnded;
}

void LiveRequest::Count(State from, State to) {
  if (!IsQueued(from) || IsQueued(to)) return;
  place.Release();
  if (queued != nullptr) --*queued;
}

void LiveRequests::Add(const std::shared_ptr<LiveRequest>& live) {
  const std::lock_guard lock(mu_);
  requests_.emplace(live->id, live);
  live->queued = &queued_;
  ++queued_;
}

void LiveRequests::Erase(RequestId id) {
  const std::lock_guard lock(mu_);
  requests_.erase(id);
  if (requests_.empty()) empty_.notify_all();
}

std::shared_ptr<LiveRequest> LiveRequests::Find(RequestId id) const {
  const std::lock_guard lock(mu_);
  const auto it = requests_.find(id);
  return it == requests_.end() ? nullptr : it->second;
}

std::shared_ptr<LiveRequest> LiveRequests::Any() const {
  const std::lock_guard lock(mu_);
  return requests_.empty() ? nullptr : requests_.begin()->second;
}

size_t LiveRequests::size() const {
  const std::lock_guard lock(mu_);
  return requests_.size();
}

std::vector<std::shared_ptr<LiveRequest>> LiveRequests::All() const {
  return RetryUntilMemory([this] {
    std::vector<std::shared_ptr<LiveRequest>> all;
    ForEach([&all](const std::shared_ptr<LiveRequest>& live) { all.push_back(live); });
    return all;
  });
}

bool LiveRequests::WaitEmpty(std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(mu_);
  return empty_.wait_for(lock, timeout, [this] { return requests_.empty(); });
}

}  // namespace ropeway::engine
