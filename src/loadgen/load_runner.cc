#include "loadgen/load_runner.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/words.h"
#include "loadgen/reply_reader.h"

namespace ropeway::loadgen {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

std::string Progress::Line(const State& state, int bar_width) {
  const int filled =
      state.total > 0 ? static_cast<int>(static_cast<double>(state.done) / state.total * bar_width)
                      : 0;
  const std::string bar =
      bar_width > 0 ? fmt::format(" [{:-<{}}]", std::string(filled, '#'), bar_width) : "";
  std::string line = fmt::format("{}{} {}/{}, {} in flight, {:.0f} s", state.label, bar, state.done,
                                 state.total, state.in_flight, state.seconds);
  if (state.failed > 0) line += fmt::format(", {} failed", state.failed);
  return line;
}

void Progress::Show(const State& state) {
  if (is_terminal_) {
    // Back to the line's start; what an older, longer line left is erased.
    std::fputs(fmt::format("\r{}\x1b[K", Line(state, kBarWidth)).c_str(), out_);
  } else {
    std::fputs((Line(state, 0) + "\n").c_str(), out_);
  }
  std::fflush(out_);
}

void Progress::End(const State& state) {
  Show(state);
  if (is_terminal_) std::fputs("\n", out_);
  std::fflush(out_);
}

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// User and system time of this process.
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

// The seconds of a Retry-After; nullopt if it is a date or invalid.
std::optional<double> Seconds(std::string_view text) {
  const std::optional<int64_t> seconds = base::ParseNumber<int64_t>(text);
  if (!seconds || *seconds < 0) return std::nullopt;
  return static_cast<double>(*seconds);
}

// The state of one run. All of it belongs to the thread in Run().
class LiveRun {
 public:
  LiveRun(const LoadPlan& plan, int run_num, Progress* progress, std::string label)
      : plan_(plan), run_num_(run_num), progress_(progress), label_(std::move(label)) {}

  RunResult Run() {
    ends_.async_wait([this](const error_code& cancelled, int) {
      if (!cancelled) Interrupt();
    });
    drains_.async_wait([this](const error_code& cancelled, int) {
      if (cancelled) return;
      drained_ = true;
      arrival_.cancel();
      StopIfDone();
    });
    const double cpu = CpuSeconds();
    start_ = clock_.Now();
    Dispatch();
    if (!plan_.arrivals.empty()) WaitForArrival();
    if (progress_ != nullptr) WaitForProgress();
    io_.run();
    RunResult result;
    result.begin = start_;
    result.wall_seconds = Elapsed();
    result.cpu_seconds = CpuSeconds() - cpu;
    result.interrupted = interrupted_;
    if (progress_ != nullptr) progress_->End(State());
    result.records.assign(std::make_move_iterator(records_.begin()),
                          std::make_move_iterator(records_.end()));
    return result;
  }

 private:
  double Elapsed() const { return base::ToSeconds(clock_.Now() - start_); }

  Progress::State State() const {
    return {label_, plan_.count, done_, failed_, sent_ - done_, Elapsed()};
  }

  // Whether nothing more is to be sent.
  bool Over() const {
    return interrupted_ || drained_ || (plan_.duration > 0 && Elapsed() > plan_.duration);
  }

  // Begins conversations that are due (in a closed loop: all) while there are free users.
  void Dispatch() {
    const int due = plan_.arrivals.empty() ? plan_.count : arrived_;
    while (sent_ < due && sent_ - done_ < plan_.concurrency && !Over()) {
      asio::co_spawn(io_, Converse(sent_++), [this](const std::exception_ptr&) {
        ++done_;
        Dispatch();
        StopIfDone();
      });
    }
  }

  asio::awaitable<void> Converse(int seq) {
    const Turns turns = plan_.turns_of(seq);
    const bool first_of_user = seq < plan_.concurrency;
    if (first_of_user) co_await Pause(plan_.user_interval * seq);
    std::vector<std::string> answers(static_cast<size_t>(turns.first));
    base::SeededRandom random(base::Mix64(plan_.seed, static_cast<uint64_t>(seq)));
    for (int turn = turns.first; turn < turns.end; ++turn) {
      if (plan_.think_time > 0 && (turn > turns.first || !first_of_user)) {
        // By inversion, of a number in [0, 1).
        const double uniform = std::ldexp(static_cast<double>(random.Next64() >> 11), -53);
        co_await Pause(-std::log1p(-uniform) * plan_.think_time);
      }
      if (Over()) co_return;
      RequestRecord& record = records_.emplace_back();
      record.run_num = run_num_;
      record.seq = static_cast<int>(records_.size()) - 1;
      record.conversation = seq;
      record.turn = turn;
      record.due = plan_.arrivals.empty() ? Elapsed() : plan_.arrivals[static_cast<size_t>(seq)];
      co_await AskObediently(answers, &record);
      if (!record.ok()) {
        ++failed_;
        co_return;
      }
      if (turn + 1 < turns.end) answers.push_back(record.output);
    }
  }

  // One request, sent again after each rejection that says when.
  asio::awaitable<void> AskObediently(const std::vector<std::string>& answers,
                                      RequestRecord* record) {
    const RequestRecord unsent = *record;
    std::optional<double> promised;  // The wait that the first rejection told.
    double rejected_at = 0;          // When the first rejection came.
    for (int tries = 1;; ++tries) {
      Outcome outcome;
      co_await Ask(answers, record, &outcome);
      record->tries = tries;
      record->promised = promised;
      if (promised) record->waited = outcome.answered_at - rejected_at;
      if (!outcome.retry_after || tries > plan_.retries || Over()) co_return;
      if (!promised) {
        promised = outcome.retry_after;
        rejected_at = outcome.answered_at;
      }
      co_await Pause(*outcome.retry_after);
      if (Over()) co_return;
      *record = unsent;
    }
  }

  // What AskObediently needs to know of an answer.
  struct Outcome {
    std::optional<double> retry_after;  // Seconds; of a rejection that says so.
    double answered_at = 0;             // When the answer's head came, after the run's start.
  };

  // One request and its answer. Nothing is thrown: what goes wrong is in the record.
  asio::awaitable<void> Ask(const std::vector<std::string>& answers, RequestRecord* record,
                            Outcome* outcome) {
    const auto now = [&] { return Elapsed() - record->due; };
    const bool needs_text = plan_.turns_of(record->conversation).end > record->turn + 1;
    ReplyReader reader(record, plan_.keep_text || needs_text);
    const net::HttpCall::OnHead on_head = [&](const net::ReplyHead& head) {
      outcome->answered_at = Elapsed();
      const bool rejected = head.status == 429 || head.status == 503;
      if (rejected) outcome->retry_after = Seconds(head.retry_after);
      reader.OnHead(head.status, head.content_type);
    };
    const net::HttpCall::OnBody on_body = [&](std::string_view bytes) {
      return reader.OnBody(bytes, now());
    };
    net::HttpEnd end{net::http_error::kNetwork, "the load generator is out of memory"};
    const auto call = std::make_shared<net::HttpCall>(plan_.client_of(record->conversation), &io_);
    calls_.insert(call.get());
    try {
      const std::string body = plan_.body_of(record->conversation, record->turn, answers);
      end = co_await call->Run(plan_.path, body, plan_.timeout, on_head, on_body);
    } catch (const std::exception& e) {  // This request fails alone.
      end.why = e.what();
    }
    calls_.erase(call.get());
    if (end.kind == nullptr) {
      reader.OnEnd(now());
    } else {
      reader.OnBroken(end.kind, std::move(end.why), now());
    }
  }

  // Returns early when the run is interrupted.
  asio::awaitable<void> Pause(double seconds) {
    if (seconds <= 0 || interrupted_) co_return;
    asio::steady_timer timer(io_, Nanoseconds(seconds));
    pauses_.insert(&timer);
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await timer.async_wait(token);
    pauses_.erase(&timer);
  }

  void WaitForArrival() {
    if (arrived_ == plan_.count || Over()) return;
    const double at = plan_.arrivals[static_cast<size_t>(arrived_)];
    arrival_.expires_at(std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(start_ + Nanoseconds(at))));
    arrival_.async_wait([this](const error_code& cancelled) {
      if (cancelled || Over()) return StopIfDone();
      ++arrived_;
      Dispatch();
      WaitForArrival();
    });
  }

  void WaitForProgress() {
    ticks_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(progress_->interval())));
    ticks_.async_wait([this](const error_code& cancelled) {
      if (cancelled || Ended()) return;
      progress_->Show(State());
      WaitForProgress();
    });
  }

  void Interrupt() {
    interrupted_ = true;
    ends_.clear();  // A second signal ends the process.
    arrival_.cancel();
    for (net::HttpCall* call : calls_) call->Interrupt();
    for (asio::steady_timer* timer : pauses_) timer->cancel();
    StopIfDone();
  }

  bool Ended() const { return done_ == plan_.count || (done_ == sent_ && Over()); }

  // Lets io_.run() return: nothing is left to wait for.
  void StopIfDone() {
    if (!Ended()) return;
    ends_.cancel();
    drains_.cancel();
    arrival_.cancel();
    ticks_.cancel();
  }

  const LoadPlan& plan_;
  const int run_num_;
  Progress* const progress_;
  const std::string label_;
  const base::RealClock clock_;
  base::TimePoint start_{};

  asio::io_context io_{1};
  asio::signal_set ends_{io_, SIGINT, SIGTERM};
  asio::signal_set drains_{io_, SIGUSR1};
  asio::steady_timer arrival_{io_};
  asio::steady_timer ticks_{io_};
  std::deque<RequestRecord> records_;         // References stay valid while it grows.
  std::unordered_set<net::HttpCall*> calls_;  // In flight.
  std::unordered_set<asio::steady_timer*> pauses_;
  int arrived_ = 0;
  int sent_ = 0;  // Conversations that began, and that ended.
  int done_ = 0;
  int failed_ = 0;
  bool interrupted_ = false;
  bool drained_ = false;
};

}  // namespace

RunResult RunLoad(const LoadPlan& plan, int run_num, Progress* progress, const std::string& label) {
  return LiveRun(plan, run_num, progress, label).Run();
}

}  // namespace ropeway::loadgen
