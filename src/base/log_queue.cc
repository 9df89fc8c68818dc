#include "base/log_queue.h"

#include <pthread.h>
#include <spdlog/async.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "base/log.h"

namespace ropeway::base {
namespace {

constexpr size_t kLinesThatWait = 8192;

}  // namespace

LogQueue::LogQueue()
    : before_(spdlog::default_logger()),
      thread_(std::make_shared<spdlog::details::thread_pool>(
          kLinesThatWait, 1, [] { pthread_setname_np(pthread_self(), "ropeway-log"); })) {
  const spdlog::logger& log = Log();
  auto queued = std::make_shared<spdlog::async_logger>(
      log.name(), log.sinks().begin(), log.sinks().end(), thread_,
      spdlog::async_overflow_policy::overrun_oldest);
  queued->set_level(log.level());
  spdlog::set_default_logger(std::move(queued));
}

bool LogQueue::End() {
  if (thread_ == nullptr) return true;
  spdlog::set_default_logger(before_);
  // Its destructor joins its thread, which a reader that takes nothing holds.
  return EndsInTime([thread = std::move(thread_)]() mutable { thread.reset(); });
}

size_t LogQueue::lost() const { return thread_->overrun_counter(); }

bool EndsInTime(std::function<void()> work) {
  std::promise<void> ended;
  const std::future<void> end = ended.get_future();
  std::thread([work = std::move(work), ended = std::move(ended)]() mutable {
    work();
    ended.set_value();
  }).detach();
  return end.wait_for(std::chrono::seconds(1)) == std::future_status::ready;
}

}  // namespace ropeway::base
