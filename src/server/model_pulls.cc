#include "server/model_pulls.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "http/http_reply.h"

namespace ropeway::server {

std::unique_ptr<ModelPull::Watcher> ModelPull::Watch(const std::shared_ptr<ModelPull>& pull,
                                                     std::function<void()> wake) {
  std::unique_ptr<Watcher> watcher(new Watcher(pull, std::move(wake)));
  const std::lock_guard lock(pull->mutex_);
  // A watcher that is not in the list leaves it, too.
  if (!pull->given_up_) pull->watchers_.push_back(watcher.get());
  return pull->given_up_ ? nullptr : std::move(watcher);
}

bool ModelPull::GiveUpUnlessWatched() {
  const std::lock_guard lock(mutex_);
  given_up_ = given_up_ || watchers_.empty();
  return given_up_;
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
  given_up_ = given_up_ || watchers_.empty();
  return !given_up_;
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

ModelPulls::ModelPulls(PullModelFn pull) : line_(std::make_shared<Line>()) {
  line_->pull = std::move(pull);
}

StatusOr<std::unique_ptr<ModelPull::Watcher>> ModelPulls::Join(const std::string& name,
                                                               std::function<void()> wake) {
  using Joined = StatusOr<std::unique_ptr<ModelPull::Watcher>>;
  const std::lock_guard lock(line_->mutex);
  for (const std::shared_ptr<ModelPull>& pull : {line_->current, line_->next}) {
    if (pull == nullptr || pull->ended()) continue;
    if (pull->name() == name) {
      if (auto watcher = ModelPull::Watch(pull, wake)) return Joined(std::move(watcher));
    } else if (!pull->GiveUpUnlessWatched()) {
      return Status(StatusCode::kUnavailable,
                    fmt::format("The model '{}' is being pulled, and one is pulled at a time.",
                                pull->name()));
    }
  }
  auto pull = std::make_shared<ModelPull>(name);
  auto watcher = ModelPull::Watch(pull, std::move(wake));
  if (line_->current != nullptr && !line_->current->ended()) {
    pull->Tell({"waiting for the last pull to end"});
    line_->next = std::move(pull);
    return Joined(std::move(watcher));
  }
  line_->current.swap(pull);
  try {
    std::thread([line = line_] { Run(line.get()); }).detach();
  } catch (...) {
    line_->current.swap(pull);
    throw;
  }
  return Joined(std::move(watcher));
}

void ModelPulls::Run(Line* line) {
  pthread_setname_np(pthread_self(), "ropeway-pull");
  std::unique_lock lock(line->mutex);
  while (true) {
    const std::shared_ptr<ModelPull> pull = line->current;
    lock.unlock();
    StatusOr<std::string> result = Status(StatusCode::kInternal, "The pull did not end.");
    try {
      result = line->pull(pull->name(),
                          [&](PullProgress progress) { return pull->Tell(std::move(progress)); });
    } catch (...) {
      result = http::StatusFromException();
    }
    lock.lock();
    // Under the lock: a newcomer finds it under way, or nothing.
    pull->End(std::move(result));
    const std::shared_ptr<ModelPull> next = std::exchange(line->next, nullptr);
    if (next == nullptr || next->GiveUpUnlessWatched()) return;
    line->current = next;
  }
}

}  // namespace ropeway::server
