#include "server/model_pulls.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "http/http_reply.h"

namespace ropeway::server {

ModelPull::Watcher::Watcher(std::shared_ptr<ModelPull> pull, std::function<void()> wake)
    : pull_(std::move(pull)), wake_(std::move(wake)) {
  const std::lock_guard lock(pull_->mutex_);
  pull_->watchers_.push_back(this);
}

ModelPull::Watcher::~Watcher() {
  const std::lock_guard lock(pull_->mutex_);
  std::erase(pull_->watchers_, this);
}

ModelPull::News ModelPull::Watcher::Take() {
  News news;
  const std::lock_guard lock(pull_->mutex_);
  const std::vector<Step>& steps = pull_->steps_;
  for (; step_ < steps.size(); ++step_, times_ = 0) {
    if (steps[step_].times > times_) news.steps.push_back(steps[step_].progress);
    times_ = steps[step_].times;
    if (step_ + 1 == steps.size()) break;  // It may be told again.
  }
  news.ended = pull_->ended_;
  news.status = pull_->status_;
  news.served_as = pull_->served_as_;
  return news;
}

bool ModelPull::Tell(PullProgress progress) {
  const std::lock_guard lock(mutex_);
  const bool same = !steps_.empty() && steps_.back().progress.status == progress.status;
  if (!same) steps_.emplace_back();
  steps_.back().progress = std::move(progress);
  ++steps_.back().times;
  WakeAll();
  return !watchers_.empty();
}

void ModelPull::End(StatusOr<std::string> result) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  status_ = result.status();
  if (result.ok()) served_as_ = *std::move(result);
  WakeAll();
}

bool ModelPull::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void ModelPull::WakeAll() {
  for (const Watcher* watcher : watchers_) watcher->wake_();
}

StatusOr<std::unique_ptr<ModelPull::Watcher>> ModelPulls::Join(const std::string& name,
                                                               std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  if (current_ != nullptr && !current_->ended()) {
    if (current_->name() == name) {
      return std::make_unique<ModelPull::Watcher>(current_, std::move(wake));
    }
    return Status(StatusCode::kUnavailable,
                  fmt::format("The model '{}' is being pulled, and one is pulled at a time.",
                              current_->name()));
  }
  auto pull = std::make_shared<ModelPull>(name);
  auto watcher = std::make_unique<ModelPull::Watcher>(pull, std::move(wake));
  // It owns what it uses: where a disk or a server hangs, it may outlive the server. Throws what
  // std::thread does.
  std::thread([pull, fetch = pull_] {
    pthread_setname_np(pthread_self(), "ropeway-pull");
    StatusOr<std::string> result = Status(StatusCode::kInternal, "The pull did not end.");
    try {
      result = fetch(pull->name(),
                     [&](PullProgress progress) { return pull->Tell(std::move(progress)); });
    } catch (...) {
      result = http::StatusFromException();
    }
    pull->End(std::move(result));
  }).detach();
  current_ = std::move(pull);
  return StatusOr<std::unique_ptr<ModelPull::Watcher>>(std::move(watcher));
}

}  // namespace ropeway::server
