#include "base/log.h"

#include <pthread.h>
#include <spdlog/async.h>
#include <spdlog/formatter.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <future>
#include <iterator>
#include <string_view>
#include <thread>

#include "base/json.h"

namespace ropeway::base {
namespace {

std::atomic<bool> as_json = false;

std::string_view View(spdlog::string_view_t text) { return {text.data(), text.size()}; }

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& line, spdlog::memory_buf_t& out) override {
    using std::chrono::milliseconds;
    const std::time_t seconds = spdlog::log_clock::to_time_t(line.time);
    const auto since = std::chrono::duration_cast<milliseconds>(line.time.time_since_epoch());
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    const std::string_view text = View(line.payload);
    fmt::format_to(
        std::back_inserter(out),
        R"({{"time":"{}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z","level":"{}",{}}})"
        "\n",
        utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
        since.count() % 1000, View(spdlog::level::to_string_view(line.level)),
        View(line.logger_name) == kMembersLogger ? fmt::format(R"("message":"request",{})", text)
                                                 : fmt::format(R"("message":{})", QuoteJson(text)));
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

}  // namespace

spdlog::logger& Log() {
  spdlog::logger* const set = spdlog::default_logger_raw();
  if (set != nullptr && !set->name().empty()) return *set;
  static const std::shared_ptr<spdlog::logger> own = [] {
    constexpr const char* kName = "ropeway";
    std::shared_ptr<spdlog::logger> found = spdlog::get(kName);
    return found != nullptr ? found : spdlog::stderr_color_mt(kName);
  }();
  return *own;
}

void SetLogFormat(bool json) {
  as_json = json;
  if (json) {
    Log().set_formatter(std::make_unique<JsonFormatter>());
  } else {
    Log().set_formatter(std::make_unique<spdlog::pattern_formatter>());
  }
}

bool LogsAsJson() { return as_json; }

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
