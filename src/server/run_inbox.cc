#include "server/run_inbox.h"

#include <utility>

namespace ropeway::server {

void RunInbox::Add(std::shared_ptr<StoredRun> run) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  runs_.push_back(std::move(run));
  added_.notify_one();
}

std::vector<std::shared_ptr<StoredRun>> RunInbox::Take(
    std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  added_.wait_until(lock, deadline, [this] { return closed_ || !runs_.empty(); });
  return std::exchange(runs_, {});
}

void RunInbox::Close() {
  std::vector<std::shared_ptr<StoredRun>> dropped;  // Without the lock: a run keeps its inbox.
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(runs_);
  added_.notify_one();
}

bool RunInbox::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace ropeway::server
