#include "http/http_server.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "http/connection.h"
#include "http/io_turns.h"
#include "http/server_port.h"

namespace ropeway::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr int kAcceptsAtOnce = 32;
constexpr std::chrono::seconds kAcceptLines{10};  // Between two lines about failures to accept.

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(HttpContext* context)
      : context_(*context), loops_(MakeLoops(context->options.io_threads)) {}

  Status Start() {
    StatusOr<ServerPort> port = ServerPort::Open(context_.options);
    return port.ok() ? Start(*std::move(port)) : port.status();
  }

  Status Start(ServerPort port) {
    Status status = CheckHttpOptions(context_.options);
    if (status.ok()) status = Listen(&port);
    if (!status.ok()) return status;
    tls_ = std::move(port.tls);
    asio::post(loops_[0]->io, [this] { AcceptNext(); });
    for (auto& loop : loops_) {
      loop->thread = std::thread([io = &loop->io] { RunLoop(io); });
    }
    running_ = true;
    return {};
  }

  uint16_t port() const { return port_; }

  void ReplaceTls(std::shared_ptr<asio::ssl::context> tls) noexcept {
    const std::lock_guard lock(mutex_);
    tls_.swap(tls);
  }

  void Stop(std::chrono::milliseconds grace) {
    if (!std::exchange(running_, false)) return;
    context_.state = HttpContext::State::kStopping;
    context_.closing = true;
    asio::post(loops_[0]->io, [this] {
      error_code ignored;
      acceptor_.close(ignored);
    });
    StopConnections(true);
    const auto deadline = std::chrono::steady_clock::now() + grace;
    while (context_.active > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    // The threads end when nothing is left to do; a connection accepted meanwhile is in the set
    // too, or sees `closing` at its first step.
    StopConnections(false);
    for (auto& loop : loops_) {
      // The first one ends before the next may: it hands connections to them.
      loop->work.reset();
      loop->thread.join();
    }
  }

 private:
  // Each thread has its own event loop, and a connection lives on one of them: without locks, and
  // without an allocation to continue after a wait.
  struct Loop {
    IoTurns turns;  // Outlives the coroutines of `io`.
    asio::io_context io{1};
    asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
    std::thread thread;
  };

  // A connection's slot among max_connections, released however its coroutine ends.
  class Slot {
   public:
    Slot(Impl* server, std::weak_ptr<Connection> connection)
        : server_(server), connection_(std::move(connection)) {}
    ~Slot() { server_->Remove(connection_.lock()); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    Impl* const server_;
    const std::weak_ptr<Connection> connection_;
  };

  static std::vector<std::unique_ptr<Loop>> MakeLoops(int count) {
    std::vector<std::unique_ptr<Loop>> loops;
    for (int i = 0; i < std::max(1, count); ++i) loops.push_back(std::make_unique<Loop>());
    return loops;
  }

  // Connections catch their exceptions; what is thrown between them, when memory runs out, must not
  // end the process.
  static void RunLoop(asio::io_context* io) {
    pthread_setname_np(pthread_self(), "ropeway-io");
    while (true) {
      try {
        io->run();
        return;
      } catch (const std::exception& e) {
        spdlog::error("An I/O thread continues after an exception: {}", e.what());
      }
    }
  }

  Status Listen(ServerPort* port) {
    error_code error;
    const tcp::endpoint endpoint = port->acceptor.local_endpoint(error);
    if (!error) acceptor_.assign(endpoint.protocol(), port->acceptor.release(), error);
    // Also of its connections, which may hold the port when the next server starts.
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (error) return ServerPort::ErrorOf(context_.options, endpoint, error);
    port_ = endpoint.port();
    context_.on_loopback = IsLoopbackAddress(endpoint.address());
    return {};
  }

  // A failed allocation costs one connection, not all later ones: the event loop only waits, and
  // what may throw is done here.
  void AcceptNext() noexcept {
    while (acceptor_.is_open()) {
      try {
        acceptor_.async_wait(tcp::acceptor::wait_read, [this](error_code) { OnAcceptable(); });
        return;
      } catch (const std::exception& e) {
        spdlog::error("Cannot wait for connections: {}", e.what());
        std::this_thread::sleep_for(kAcceptPause);
      }
    }
  }

  // Accepts several: between two calls the loop may compute for a millisecond, and a new connection
  // waits behind all earlier ones.
  void OnAcceptable() noexcept {
    error_code error;
    for (int i = 0; i < kAcceptsAtOnce && !error && acceptor_.is_open(); ++i) {
      try {
        Loop* const loop = loops_[next_loop_ % loops_.size()].get();
        tcp::socket socket = acceptor_.accept(loop->io, error);
        if (!error) {
          ++next_loop_;
          Serve(std::move(socket), &loop->turns);
        } else if (error == asio::error::connection_aborted) {
          error.clear();
        }
      } catch (const std::exception& e) {
        spdlog::error("Cannot serve a connection: {}", e.what());
      }
    }
    if (!acceptor_.is_open()) return;
    if (!error || error == asio::error::would_block) {
      AcceptNext();
    } else {
      PauseAccepting(error);
    }
  }

  // Out of file descriptors, most likely: some come back as connections end.
  void PauseAccepting(error_code error) noexcept {
    try {
      context_.connections.EvictOldest();
      if (const int64_t times = failures_.Count(base::RealClock().Now()); times > 0) {
        spdlog::warn("Cannot accept connections: {} ({} times since the last such line)",
                     error.message(), times);
      }
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](error_code) { AcceptNext(); });
    } catch (const std::exception& e) {
      spdlog::error("Cannot serve a connection: {}", e.what());
      AcceptNext();
    }
  }

  void Serve(tcp::socket socket, IoTurns* turns) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const HttpLimits& limits = context_.limits;
    if (limits.send_buffer_bytes > 0) {
      socket.set_option(asio::socket_base::send_buffer_size(limits.send_buffer_bytes), ignored);
    }
    error_code gone;
    const tcp::endpoint peer = socket.remote_endpoint(gone);
    if (gone) return;
    // Not an owner: the connection's end belongs to its own thread, which may be another one.
    Connection* connection = nullptr;
    std::shared_ptr<Slot> slot;  // Outlives the lock, which its destructor takes.
    {
      std::lock_guard lock(mutex_);
      if (context_.closing) return;
      if (static_cast<int64_t>(connections_.size()) >= MostOpen(limits)) {
        context_.metrics.CountRejectedConnection();
        return;
      }
      auto owned =
          std::make_shared<Connection>(std::move(socket), peer.address(), &context_, turns, tls_);
      slot = std::make_shared<Slot>(this, owned);
      connection = owned.get();
      connections_.insert(std::move(owned));
      context_.metrics.ConnectionOpened();
    }
    connection->Start(std::move(slot));
  }

  void Remove(const std::shared_ptr<Connection>& connection) {
    std::lock_guard lock(mutex_);
    if (connections_.erase(connection) > 0) context_.metrics.ConnectionClosed();
  }

  void StopConnections(bool when_idle) {
    std::lock_guard lock(mutex_);
    for (const auto& connection : connections_) connection->Stop(when_idle);
  }

  HttpContext& context_;
  std::vector<std::unique_ptr<Loop>> loops_;
  bool running_ = false;
  // On the first loop.
  tcp::acceptor acceptor_{loops_[0]->io};
  asio::steady_timer pause_{loops_[0]->io};
  base::RepeatedLine failures_{kAcceptLines};
  size_t next_loop_ = 0;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::shared_ptr<asio::ssl::context> tls_;  // Null: plain HTTP. GUARDED_BY(mutex_)
  std::unordered_set<std::shared_ptr<Connection>> connections_;  // GUARDED_BY(mutex_)
};

HttpServer::HttpServer(HttpContext* context) : impl_(std::make_unique<Impl>(context)) {}

HttpServer::~HttpServer() { Stop(); }

Status HttpServer::Start() { return impl_->Start(); }

Status HttpServer::Start(ServerPort port) { return impl_->Start(std::move(port)); }

uint16_t HttpServer::port() const { return impl_->port(); }

void HttpServer::ReplaceTls(std::shared_ptr<asio::ssl::context> tls) noexcept {
  impl_->ReplaceTls(std::move(tls));
}

void HttpServer::Stop(std::chrono::milliseconds grace) { impl_->Stop(grace); }

}  // namespace ropeway::http
