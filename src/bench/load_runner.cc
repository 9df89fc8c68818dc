#include "bench/load_runner.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <memory>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "bench/cpu_time.h"
#include "bench/exchange.h"

namespace ropeway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// The state of one run. All of it belongs to the thread in Run().
class LiveRun {
 public:
  LiveRun(LoadRunner::ClientOf client_of, const std::string& path, const LoadShape& shape,
          const LoadRunner::BodyOf& body_of, Progress* progress, int run_num)
      : client_of_(std::move(client_of)),
        path_(path),
        shape_(shape),
        body_of_(body_of),
        progress_(progress),
        run_num_(run_num),
        records_(static_cast<size_t>(shape.count)) {}

  RunResult Run(const std::string& label) {
    label_ = label;
    signals_.async_wait([this](const error_code& cancelled, int) {
      if (!cancelled) Interrupt();
    });
    const double cpu = ProcessCpuSeconds();
    start_ = clock_.Now();
    Dispatch();
    StopIfDone();  // It may have been stopped before it began.
    if (!shape_.arrivals.empty()) WaitForArrival();
    if (progress_ != nullptr) WaitForProgress();
    io_.run();
    RunResult result;
    result.begin = start_;
    result.wall_seconds = Elapsed();
    result.cpu_seconds = ProcessCpuSeconds() - cpu;
    result.interrupted = interrupted_;
    if (progress_ != nullptr) progress_->End(State());
    records_.resize(static_cast<size_t>(sent_));
    result.records = std::move(records_);
    return result;
  }

 private:
  double Elapsed() const { return ToSeconds(clock_.Now() - start_); }

  Progress::State State() const {
    return {label_, shape_.count, done_, failed_, sent_ - done_, Elapsed()};
  }

  // Nothing further is to be sent.
  bool stopped() const { return shape_.arrivals.empty() && shape_.stop.stop_requested(); }

  // The requests that are due: in a closed loop always all of them.
  int due() const {
    if (stopped()) return sent_;
    return shape_.arrivals.empty() ? shape_.count : arrived_;
  }

  // Sends what is due and has a place.
  void Dispatch() {
    while (!interrupted_ && sent_ < due() && sent_ - done_ < shape_.concurrency) {
      const int seq = sent_++;
      const auto call = std::make_shared<HttpCall>(client_of_(seq), &io_);
      calls_.insert(call.get());
      asio::co_spawn(io_, Ask(seq, call), [this, call](const std::exception_ptr&) {
        calls_.erase(call.get());
        ++done_;
        Dispatch();
        StopIfDone();
      });
    }
  }

  asio::awaitable<void> Ask(int seq, std::shared_ptr<HttpCall> call) {
    RequestRecord& record = records_[static_cast<size_t>(seq)];
    record.run_num = run_num_;
    record.seq = seq;
    record.due = shape_.arrivals.empty() ? Elapsed() : shape_.arrivals[static_cast<size_t>(seq)];
    const std::function<double()> now = [this, &record] { return Elapsed() - record.due; };
    const std::function<std::string()> body_of = [this, seq] { return body_of_(seq); };
    co_await Exchange(call.get(), {&path_, &body_of, shape_.timeout, shape_.keep_text}, now,
                      &record);
    if (!record.ok()) ++failed_;
  }

  void WaitForArrival() {
    if (arrived_ == shape_.count) return;
    const double at = shape_.arrivals[static_cast<size_t>(arrived_)];
    arrival_.expires_at(std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            start_ + Duration(static_cast<int64_t>(at * 1e9)))));
    arrival_.async_wait([this](const error_code& cancelled) {
      if (cancelled || interrupted_) return;
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
    signals_.clear();  // A second signal ends the process.
    arrival_.cancel();
    for (HttpCall* call : calls_) call->Interrupt();
    StopIfDone();
  }

  bool Ended() const {
    return done_ == shape_.count || ((interrupted_ || stopped()) && done_ == sent_);
  }

  // Lets io_.run() return: nothing is left to wait for.
  void StopIfDone() {
    if (!Ended()) return;
    signals_.cancel();
    arrival_.cancel();
    ticks_.cancel();
  }

  const LoadRunner::ClientOf client_of_;
  const std::string& path_;
  const LoadShape& shape_;
  const LoadRunner::BodyOf& body_of_;
  Progress* const progress_;
  const int run_num_;
  std::string label_;
  const RealClock clock_;
  TimePoint start_{};

  asio::io_context io_{1};
  asio::signal_set signals_{io_, SIGINT, SIGTERM};
  asio::steady_timer arrival_{io_};
  asio::steady_timer ticks_{io_};
  std::vector<RequestRecord> records_;
  std::unordered_set<HttpCall*> calls_;  // In flight.
  int arrived_ = 0;
  int sent_ = 0;
  int done_ = 0;
  int failed_ = 0;
  bool interrupted_ = false;
};

}  // namespace

LoadRunner::LoadRunner(const HttpClient* client, std::string path, LoadShape shape, BodyOf body_of,
                       Progress* progress)
    : client_(client),
      path_(std::move(path)),
      shape_(std::move(shape)),
      body_of_(std::move(body_of)),
      progress_(progress) {}

RunResult LoadRunner::Run(int run_num, const std::string& label) {
  ClientOf client_of = client_of_;
  if (!client_of) client_of = [this](int) { return client_; };
  LiveRun run(std::move(client_of), path_, shape_, body_of_, progress_, run_num);
  return run.Run(label);
}

}  // namespace ropeway
