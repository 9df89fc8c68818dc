#include "net/http_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <exception>
#include <new>
#include <unordered_set>

namespace ropeway::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kResolvedLifetime{60};
// A kept connection that ends later than this after the request was sent has had it.
constexpr std::chrono::seconds kStaleTime{1};

HttpTimeouts TimeoutsOf(const HttpSend& send) {
  HttpTimeouts timeouts;
  timeouts.connect = send.connect_timeout;
  timeouts.first_byte = send.first_byte_timeout;
  timeouts.idle = send.idle_timeout;
  return timeouts;
}

// How an exchange ends that threw: memory was short, or an event threw.
HttpEnd EndOf(const std::exception_ptr& exception) {
  HttpEnd end{http_error::kNetwork, "", true, true};
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    end.why = "out of memory";  // In few enough bytes to need none.
  } catch (const std::exception& e) {
    end.why = e.what();
  } catch (...) {
    end.why = "unknown";
  }
  return end;
}

}  // namespace

// What is behind a pool. The coroutines of its exchanges keep it alive. Thread rule: the pool's
// thread, except for the public methods.
class HttpPoolState : public std::enable_shared_from_this<HttpPoolState> {
 public:
  HttpPoolState(HttpPool::Options options, asio::io_context* io)
      : options_(std::move(options)), io_(*io), aging_(*io) {}

  Status Prepare();
  std::shared_ptr<HttpExchange> Send(HttpSend send, HttpEvents events);
  void Abort(std::shared_ptr<HttpExchange> exchange);
  void Close();
  int busy_connections() const;
  int idle_connections() const { return idle_count_; }

 private:
  using Exchange = std::shared_ptr<HttpExchange>;
  using Connection = std::shared_ptr<HttpConnection>;
  struct Idle {
    Connection connection;
    SteadyClock::time_point until;
  };
  class Waiting;

  static asio::awaitable<HttpEnd> Run(std::shared_ptr<HttpPoolState> self, Exchange exchange);
  asio::awaitable<HttpEnd> Talk(HttpExchange* exchange, Connection connection);
  asio::awaitable<HttpEnd> Connect(HttpExchange* exchange, Connection* connection);
  asio::awaitable<HttpEnd> Resolve(HttpExchange* exchange);
  void StartResolving();
  void TakeResolved(const error_code& error, HttpEndpoints found);
  void Forget(const Exchange& exchange);

  void Keep(Connection connection);
  Connection TakeIdle();
  void DropIdle(std::deque<Idle>::iterator idle);
  void ArmAging();

  const HttpPool::Options options_;
  asio::io_context& io_;
  HttpPeer peer_;

  HttpEndpoints endpoints_;
  bool numeric_ = false;  // The host is an address: there is nothing to resolve.
  bool stale_ = true;     // The endpoints are to be resolved again.
  SteadyClock::time_point resolved_at_;
  error_code resolve_error_;                       // The last attempt's.
  std::unordered_set<asio::steady_timer*> gates_;  // Cancelled when the name is resolved.

  std::deque<Idle> idle_;  // The one that waits longest is first.
  asio::steady_timer aging_;
  bool aging_runs_ = false;
  std::atomic<int> idle_count_ = 0;

  mutable std::mutex mutex_;
  std::unordered_set<Exchange> live_;  // Exchanges that are not over. GUARDED_BY(mutex_)
  // Null: the name is not being resolved. GUARDED_BY(mutex_)
  std::unique_ptr<NameLookup> lookup_;
  std::atomic<bool> closed_ = false;  // Set with the mutex held.
};

// An exchange waits for the name at `gate`. Its destructor forgets both, however the wait ends.
class HttpPoolState::Waiting {
 public:
  Waiting(HttpPoolState* pool, HttpExchange* exchange, asio::steady_timer* gate)
      : pool_(*pool), exchange_(*exchange), gate_(gate) {
    pool_.gates_.insert(gate);
    exchange_.gate_ = gate;
  }
  ~Waiting() {
    exchange_.gate_ = nullptr;
    pool_.gates_.erase(gate_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  HttpPoolState& pool_;
  HttpExchange& exchange_;
  asio::steady_timer* const gate_;
};

HttpExchange::HttpExchange(std::weak_ptr<HttpPoolState> pool, HttpSend send, HttpEvents events)
    : pool_(std::move(pool)), events_(std::move(events)), send_(std::move(send)) {}

void HttpExchange::Cancel() {
  if (cancelled_.exchange(true)) return;
  if (const auto pool = pool_.lock()) pool->Abort(shared_from_this());
}

void HttpExchange::TellEnd(HttpEnd end) {
  if (cancelled_) end.kind = http_error::kInterrupted;
  const HttpEvents events = std::exchange(events_, HttpEvents{});
  try {
    if (events.end) events.end(end);
  } catch (...) {  // It was told, and there is nothing else to tell.
  }
}

Status HttpPoolState::Prepare() {
  Status prepared = peer_.Prepare(options_.url, options_.api_key, options_.insecure);
  if (!prepared.ok()) return prepared;
  error_code error;  // Does not block: it asks no name server.
  tcp::resolver resolver(io_);
  endpoints_ = resolver.resolve(peer_.url.host, std::to_string(peer_.url.port),
                                tcp::resolver::numeric_host, error);
  numeric_ = !error;
  return prepared;
}

std::shared_ptr<HttpExchange> HttpPoolState::Send(HttpSend send, HttpEvents events) {
  auto exchange =
      std::make_shared<HttpExchange>(weak_from_this(), std::move(send), std::move(events));
  {
    const std::lock_guard lock(mutex_);
    live_.insert(exchange);
  }
  try {
    asio::co_spawn(
        io_, Run(shared_from_this(), exchange),
        [self = shared_from_this(), exchange](const std::exception_ptr& exception, HttpEnd end) {
          exchange->TellEnd(exception ? EndOf(exception) : std::move(end));
          self->Forget(exchange);
        });
  } catch (...) {
    Forget(exchange);
    throw;
  }
  return exchange;
}

void HttpPoolState::Abort(std::shared_ptr<HttpExchange> exchange) {
  try {
    asio::dispatch(io_, [exchange = std::move(exchange)] {
      if (exchange->gate_ != nullptr) exchange->gate_->cancel();
      const Connection connection = exchange->connection_.lock();
      if (connection != nullptr) connection->Break(http_error::kInterrupted);
    });
  } catch (const std::bad_alloc&) {  // It ends with the next byte of the reply, or by a timeout.
  }
}

void HttpPoolState::Close() {
  std::unordered_set<Exchange> live;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    live.swap(live_);
    lookup_.reset();
  }
  for (const Exchange& exchange : live) exchange->Cancel();
  try {
    asio::dispatch(io_, [self = shared_from_this()] {
      while (!self->idle_.empty()) self->DropIdle(self->idle_.begin());
      self->aging_.cancel();
    });
  } catch (const std::bad_alloc&) {  // Then they close as they age.
  }
}

int HttpPoolState::busy_connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(live_.size());
}

void HttpPoolState::Forget(const Exchange& exchange) {
  const std::lock_guard lock(mutex_);
  live_.erase(exchange);
}

asio::awaitable<HttpEnd> HttpPoolState::Run(std::shared_ptr<HttpPoolState> self,
                                            Exchange exchange) {
  HttpEnd end;
  if (exchange->cancelled_) co_return end;
  const auto began = SteadyClock::now();
  Connection connection = self->TakeIdle();
  if (connection != nullptr) {
    end = co_await self->Talk(exchange.get(), connection);
    const bool closed = end.kind == http_error::kEarlyEnd || end.kind == http_error::kReset;
    if (!closed || end.answered || SteadyClock::now() - began > kStaleTime) co_return end;
  }
  const bool sent = end.sent;
  end = co_await self->Connect(exchange.get(), &connection);
  if (end.kind == nullptr) end = co_await self->Talk(exchange.get(), connection);
  end.sent = end.sent || sent;
  co_return end;
}

// One exchange over `connection`, which is kept for others afterwards where that is possible.
asio::awaitable<HttpEnd> HttpPoolState::Talk(HttpExchange* exchange, Connection connection) {
  exchange->connection_ = connection;
  const HttpSend& send = exchange->send_;
  connection->set_timeouts(TimeoutsOf(send));
  const HttpAsk ask{send.method, send.path, send.body, send.fields, true, send.max_body_bytes};
  const HttpConnection::OnHead on_head = [exchange](const ReplyHead& head) {
    std::string().swap(exchange->send_.body);  // It is sent, and will not be sent again.
    if (exchange->events_.head && !exchange->cancelled_) exchange->events_.head(head);
  };
  const HttpConnection::OnBody on_body = [exchange](std::string_view bytes) {
    if (exchange->cancelled_) return false;
    return !exchange->events_.body || exchange->events_.body(bytes);
  };
  HttpEnd end = co_await connection->Exchange(ask, on_head, on_body);
  exchange->connection_.reset();
  if (connection->reusable()) {
    Keep(std::move(connection));
  } else {
    connection->Break(http_error::kInterrupted);
  }
  co_return end;
}

asio::awaitable<HttpEnd> HttpPoolState::Connect(HttpExchange* exchange, Connection* connection) {
  HttpEnd end = co_await Resolve(exchange);
  if (end.kind != nullptr) co_return end;
  *connection = std::make_shared<HttpConnection>(&peer_, &io_);
  exchange->connection_ = *connection;
  (*connection)->set_timeouts(TimeoutsOf(exchange->send_));
  end = co_await (*connection)->Connect(endpoints_);
  if (end.kind != nullptr) {
    if (end.kind != http_error::kInterrupted) stale_ = true;
    (*connection)->Break(http_error::kConnect);
  }
  co_return end;
}

// Sees to it that the endpoints are resolved, together with all others that wait for them.
asio::awaitable<HttpEnd> HttpPoolState::Resolve(HttpExchange* exchange) {
  HttpEnd end;
  const auto now = SteadyClock::now();
  const bool fresh = numeric_ || (!stale_ && now - resolved_at_ < kResolvedLifetime);
  if (!fresh && !exchange->cancelled_) {
    const base::Duration timeout = exchange->send_.connect_timeout;
    asio::steady_timer gate(io_, SteadyClock::time_point::max());
    if (timeout.count() > 0) gate.expires_at(now + timeout);
    StartResolving();
    error_code woken;
    {
      const Waiting waiting(this, exchange, &gate);
      auto token = asio::redirect_error(asio::use_awaitable, woken);
      co_await gate.async_wait(token);
    }
    if (!woken) {
      end.kind = http_error::kTimeout;
      end.why = fmt::format("the host '{}' was not resolved within {} s", peer_.url.host,
                            base::ToSeconds(timeout));
    } else if (endpoints_.empty()) {
      end.kind = http_error::kConnect;
      end.why = fmt::format("the host '{}' cannot be resolved: {}", peer_.url.host,
                            resolve_error_.message());
    }
  }
  if (exchange->cancelled_) end.kind = http_error::kInterrupted;
  co_return end;
}

void HttpPoolState::StartResolving() {
  auto resolved = [weak = weak_from_this()](const error_code& error, HttpEndpoints found) {
    const auto self = weak.lock();
    if (self != nullptr) self->TakeResolved(error, std::move(found));
  };
  const std::lock_guard lock(mutex_);
  // Where the pool is gone, the exchange is being cancelled.
  if (lookup_ != nullptr || closed_) return;
  lookup_ = std::make_unique<NameLookup>(peer_.url.host, peer_.url.port, &io_, std::move(resolved),
                                         options_.resolve);
}

void HttpPoolState::TakeResolved(const error_code& error, HttpEndpoints found) {
  {
    const std::lock_guard lock(mutex_);
    lookup_.reset();
  }
  resolve_error_ = error;
  resolved_at_ = SteadyClock::now();
  if (!error) endpoints_ = std::move(found);
  stale_ = endpoints_.empty();  // Old ones are better than none.
  for (asio::steady_timer* gate : gates_) gate->cancel();
}

void HttpPoolState::Keep(Connection connection) {
  if (closed_ || options_.max_idle <= 0) return connection->Break(http_error::kInterrupted);
  if (idle_.size() >= static_cast<size_t>(options_.max_idle)) DropIdle(idle_.begin());
  HttpConnection* const kept = connection.get();
  idle_.push_back({std::move(connection), SteadyClock::now() + options_.idle_lifetime});
  idle_count_ = static_cast<int>(idle_.size());
  kept->Watch([weak = weak_from_this(), kept] {
    const auto self = weak.lock();
    if (!self) return;
    const auto gone = [kept](const Idle& idle) { return idle.connection.get() == kept; };
    const auto found = std::find_if(self->idle_.begin(), self->idle_.end(), gone);
    if (found != self->idle_.end()) self->DropIdle(found);
  });
  ArmAging();
}

// The one that was used last, since the server keeps it longest; null if there is none.
HttpPoolState::Connection HttpPoolState::TakeIdle() {
  while (!idle_.empty()) {
    Connection connection = std::move(idle_.back().connection);
    idle_.pop_back();
    idle_count_ = static_cast<int>(idle_.size());
    if (connection->Unwatch()) return connection;
    connection->Break(http_error::kInterrupted);
  }
  return nullptr;
}

void HttpPoolState::DropIdle(std::deque<Idle>::iterator idle) {
  idle->connection->Break(http_error::kInterrupted);
  idle_.erase(idle);
  idle_count_ = static_cast<int>(idle_.size());
}

void HttpPoolState::ArmAging() {
  if (aging_runs_ || idle_.empty()) return;
  aging_runs_ = true;
  aging_.expires_at(idle_.front().until);
  aging_.async_wait([weak = weak_from_this()](const error_code&) {
    const auto self = weak.lock();
    if (!self) return;
    self->aging_runs_ = false;
    const auto now = SteadyClock::now();
    while (!self->idle_.empty() && self->idle_.front().until <= now) {
      self->DropIdle(self->idle_.begin());
    }
    self->ArmAging();
  });
}

StatusOr<std::unique_ptr<HttpPool>> HttpPool::Open(Options options, asio::io_context* io) {
  auto state = std::make_shared<HttpPoolState>(std::move(options), io);
  Status prepared = state->Prepare();
  if (!prepared.ok()) return prepared;
  return std::unique_ptr<HttpPool>(new HttpPool(std::move(state)));
}

HttpPool::~HttpPool() { state_->Close(); }

std::shared_ptr<HttpExchange> HttpPool::Send(HttpSend send, HttpEvents events) {
  return state_->Send(std::move(send), std::move(events));
}

int HttpPool::busy_connections() const { return state_->busy_connections(); }

int HttpPool::idle_connections() const { return state_->idle_connections(); }

}  // namespace ropeway::net
