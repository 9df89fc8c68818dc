#include "server/event_feed.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

#include "base/clock.h"
#include "server/event_frame.h"

namespace ropeway::server {
namespace {

std::string NewProcess() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

EventFeed::EventFeed(service::FrontDesk* desk) : desk_(desk), process_(NewProcess()) {}

std::deque<EventFeed::Frame> EventFeed::Watcher::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(frames_, {});
}

bool EventFeed::Watcher::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::shared_ptr<EventFeed::Watcher> EventFeed::Watch(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  if (stopped_ || watchers_.size() >= kMostWatchers) return nullptr;
  std::shared_ptr<Watcher> watcher(new Watcher(std::move(wake)));
  watchers_.reserve(watchers_.size() + 1);
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  watchers_.push_back(watcher);
  changed_.notify_all();
  return watcher;
}

void EventFeed::Leave(const std::shared_ptr<Watcher>& watcher) {
  const std::lock_guard lock(mutex_);
  watchers_.erase(std::remove(watchers_.begin(), watchers_.end(), watcher), watchers_.end());
}

void EventFeed::Stop() {
  std::thread ended;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    ended = std::move(thread_);
  }
  changed_.notify_all();
  if (ended.joinable()) ended.join();
}

void EventFeed::Watcher::Put(const Frame& frame) {
  {
    const std::lock_guard lock(mutex_);
    if (frames_.size() >= kMostWaiting) return;
    frames_.push_back(frame);
  }
  wake_();
}

std::vector<std::shared_ptr<EventFeed::Watcher>> EventFeed::Watchers() {
  const std::lock_guard lock(mutex_);
  return watchers_;
}

void EventFeed::Serve(const std::vector<std::shared_ptr<Watcher>>& watchers) {
  const bool any_fresh = std::any_of(watchers.begin(), watchers.end(),
                                     [](const auto& watcher) { return watcher->fresh_; });
  const Frame first = any_fresh ? First() : nullptr;
  const Frame next = Next();
  for (const std::shared_ptr<Watcher>& watcher : watchers) {
    const Frame& frame = watcher->fresh_ ? first : next;
    if (frame == nullptr) continue;
    watcher->Put(frame);
    watcher->fresh_ = false;
  }
}

void EventFeed::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-events");
  bool watched = false;
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (watchers_.empty()) {
      lock.unlock();
      if (std::exchange(watched, false)) desk_->SetWatched(false);
      lock.lock();
      changed_.wait(lock, [this] { return stopped_ || !watchers_.empty(); });
      continue;
    }
    lock.unlock();
    if (!std::exchange(watched, true)) {
      desk_->SetWatched(true);
      cursor_ = {};
      made_ = {};
    }
    try {
      Serve(Watchers());
    } catch (const std::exception&) {  // No memory: there is a next frame.
    }
    lock.lock();
    changed_.wait_for(lock, kPeriod, [this] { return stopped_; });
  }
  const std::vector<std::shared_ptr<Watcher>> all = std::exchange(watchers_, {});
  lock.unlock();
  for (const std::shared_ptr<Watcher>& watcher : all) {
    {
      const std::lock_guard own(watcher->mutex_);
      watcher->closed_ = true;
    }
    watcher->wake_();
  }
  if (watched) desk_->SetWatched(false);
}

EventFeed::Frame EventFeed::First() {
  return Make(desk_->ActivityAfter({.step = cursor_.step, .ended = 0}), desk_->Requests());
}

EventFeed::Frame EventFeed::Next() {
  service::Activity activity = desk_->ActivityAfter(cursor_);
  std::vector<service::RequestInfo> requests = desk_->Requests();
  const bool idle = requests.empty() && activity.steps.empty() && activity.ended.empty();
  const auto now = std::chrono::steady_clock::now();
  if (std::exchange(was_idle_, idle) && idle && now - made_ < kIdlePeriod) return nullptr;
  made_ = now;
  if (!activity.steps.empty()) cursor_.step = activity.steps.back().step;
  if (!activity.ended.empty()) cursor_.ended = activity.ended.back().number;
  return Make(std::move(activity), std::move(requests));
}

EventFeed::Frame EventFeed::Make(service::Activity activity,
                                 std::vector<service::RequestInfo> requests) {
  FrameParts parts;
  parts.activity = std::move(activity);
  parts.requests = std::move(requests);
  parts.at = base::ToSeconds(std::chrono::system_clock::now().time_since_epoch());
  parts.queue = desk_->Queue(nullptr, 1.0);
  parts.stats = desk_->Stats();
  parts.backends = desk_->Backends();
  return std::make_shared<const std::string>(FrameEvent(parts));
}

}  // namespace ropeway::server
