#include "engine/watchdog.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "base/log.h"

namespace ropeway::engine {

Watchdog::Watchdog(CheckFn check, base::Counter* stalls, base::Duration period)
    : check_(std::move(check)), stalls_(stalls), period_(period), thread_([this] { Loop(); }) {}

Watchdog::~Watchdog() { Stop(); }

void Watchdog::Stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mu_);
    stopped_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watchdog::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-watch");
  std::unique_lock lock(mu_);
  while (!wake_.wait_for(lock, period_, [this] { return stopped_; })) {
    lock.unlock();
    try {
      Look();
    } catch (const std::exception&) {
      // No memory for the sentence: with the next look.
    }
    lock.lock();
  }
}

void Watchdog::Look() {
  const Status status = check_();
  if (status.ok()) {
    if (stalled_) base::TryLog(spdlog::level::info, "the engine makes progress again");
    stalled_ = false;
  } else if (!stalled_) {
    base::TryLog(spdlog::level::err, "the engine is stalled: {}", status.message());
    stalls_->Increment();
    stalled_ = true;
  }
}

}  // namespace ropeway::engine
