#include "bench/session_runner.h"

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
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "bench/cpu_time.h"
#include "bench/exchange.h"

namespace ropeway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

const std::string kPath = "/chat/completions";

// The state of one run. All of it belongs to the thread in Run().
class LiveSessions {
 public:
  LiveSessions(const HttpClient* client, const SessionShape& shape, const RequestShape& request,
               const SessionRunner::ConversationOf& conversation_of)
      : client_(client), shape_(shape), request_(request), conversation_of_(conversation_of) {}

  SessionResult Run() {
    signals_.async_wait([this](const error_code& cancelled, int) {
      if (!cancelled) Interrupt();
    });
    const double cpu = ProcessCpuSeconds();
    start_ = clock_.Now();
    left_ = shape_.users;
    for (int user = 0; user < shape_.users; ++user) {
      asio::co_spawn(io_, User(user), [this](const std::exception_ptr&) {
        if (--left_ == 0) signals_.cancel();
      });
    }
    io_.run();
    SessionResult result;
    result.wall_seconds = Elapsed();
    result.cpu_seconds = ProcessCpuSeconds() - cpu;
    result.interrupted = interrupted_;
    result.turns.assign(std::make_move_iterator(turns_.begin()),
                        std::make_move_iterator(turns_.end()));
    return result;
  }

 private:
  double Elapsed() const { return ToSeconds(clock_.Now() - start_); }

  bool Over() const { return interrupted_ || (shape_.duration > 0 && Elapsed() > shape_.duration); }

  asio::awaitable<void> User(int user) {
    SeededRandom random(Mix64(shape_.seed, static_cast<uint64_t>(user)));
    const double begin = shape_.request_interval * user;
    co_await Pause(begin);
    for (int i = 0; i < shape_.conversations && !Over(); ++i) {
      co_await Chat(user, user + i * shape_.users, &random);
    }
  }

  asio::awaitable<void> Chat(int user, int number, Random* random) {
    const Conversation conversation = conversation_of_(number);
    std::vector<std::string> answers(static_cast<size_t>(shape_.first_turn));
    for (int turn = shape_.first_turn; turn < static_cast<int>(conversation.size()); ++turn) {
      if (shape_.think_time > 0 && (turn > shape_.first_turn || number >= shape_.users)) {
        // By inversion, of a number in [0, 1).
        const double uniform = std::ldexp(static_cast<double>(random->Next64() >> 11), -53);
        const double pause = -std::log1p(-uniform) * shape_.think_time;
        co_await Pause(pause);
      }
      if (Over()) co_return;
      TurnRecord& record = turns_.emplace_back();
      record.user = user;
      record.conversation = number;
      record.turn = turn;
      record.request.seq = static_cast<int>(turns_.size()) - 1;
      co_await Ask(conversation, answers, &record);
      if (!record.request.ok()) co_return;
      answers.push_back(std::move(record.request.output));
    }
  }

  asio::awaitable<void> Ask(const Conversation& conversation,
                            const std::vector<std::string>& answers, TurnRecord* record) {
    record->request.due = Elapsed();
    const std::function<double()> now = [this, due = record->request.due] {
      return Elapsed() - due;
    };
    const std::function<std::string()> body_of = [&] {
      Prompt prompt;
      prompt.messages = MessagesOf(conversation, record->turn, answers);
      prompt.max_tokens = conversation[static_cast<size_t>(record->turn)].max_tokens;
      return RequestBody(request_, prompt, shape_.seed);
    };
    const auto call = std::make_shared<HttpCall>(client_, &io_);
    calls_.insert(call.get());
    co_await Exchange(call.get(), {&kPath, &body_of, shape_.timeout, /*keep_text=*/true}, now,
                      &record->request);
    calls_.erase(call.get());
  }

  // Returns early when the run is interrupted.
  asio::awaitable<void> Pause(double seconds) {
    if (seconds <= 0 || interrupted_) co_return;
    asio::steady_timer timer(io_);
    timer.expires_after(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
    pauses_.insert(&timer);
    error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await timer.async_wait(token);
    pauses_.erase(&timer);
  }

  void Interrupt() {
    interrupted_ = true;
    signals_.clear();  // A second signal ends the process.
    for (HttpCall* call : calls_) call->Interrupt();
    for (asio::steady_timer* timer : pauses_) timer->cancel();
  }

  const HttpClient* const client_;
  const SessionShape& shape_;
  const RequestShape& request_;
  const SessionRunner::ConversationOf& conversation_of_;
  const RealClock clock_;
  TimePoint start_{};

  asio::io_context io_{1};
  asio::signal_set signals_{io_, SIGINT, SIGTERM};
  std::deque<TurnRecord> turns_;  // Their places stay while it grows.
  std::unordered_set<HttpCall*> calls_;
  std::unordered_set<asio::steady_timer*> pauses_;
  int left_ = 0;  // Users who are not done.
  bool interrupted_ = false;
};

}  // namespace

SessionRunner::SessionRunner(const HttpClient* client, SessionShape shape, RequestShape request,
                             ConversationOf conversation_of)
    : client_(client),
      shape_(shape),
      request_(std::move(request)),
      conversation_of_(std::move(conversation_of)) {}

SessionResult SessionRunner::Run() {
  LiveSessions sessions(client_, shape_, request_, conversation_of_);
  return sessions.Run();
}

}  // namespace ropeway
