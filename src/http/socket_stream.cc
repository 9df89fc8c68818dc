#include "http/socket_stream.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <exception>

namespace ropeway::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// The longest wait: a wake-up that was lost because memory ran out takes effect after it.
constexpr std::chrono::seconds kLongestWait{15};
// The input buffer's capacity that is kept once its input is consumed.
constexpr size_t kKeptBytes = 1024;

}  // namespace

SocketStream::SocketStream(asio::ip::tcp::socket socket, size_t max_received,
                           std::chrono::milliseconds write_timeout, asio::ssl::context* tls)
    : socket_(std::move(socket)),
      tls_(tls == nullptr ? nullptr : std::make_unique<Tls>(socket_, *tls)),
      news_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()),
      max_received_(max_received),
      write_timeout_(write_timeout) {}

asio::awaitable<bool> SocketStream::Start(Deadline deadline) {
  if (tls_) {
    BeginTimedCall(deadline, false);
    error_code error;
    co_await tls_->async_handshake(asio::ssl::stream_base::server,
                                   asio::redirect_error(asio::use_awaitable, error));
    EndTimedCall();
    if (error || gone_) {
      spdlog::debug("A TLS handshake failed: {}", error.message());
      Close();
      co_return false;
    }
  }
  ReadMore();
  co_return true;
}

void SocketStream::ReadMore() {
  if (reading_ || gone_ || full()) return;
  reading_ = true;
  auto on_read = [self = shared_from_this()](error_code error, size_t bytes) {
    self->OnRead(error, bytes);
  };
  if (tls_) {
    tls_->async_read_some(asio::buffer(chunk_), std::move(on_read));
  } else {
    socket_.async_read_some(asio::buffer(chunk_), std::move(on_read));
  }
}

// noexcept, as an exception would leave the event loop and affect other connections.
void SocketStream::OnRead(error_code error, size_t bytes) noexcept {
  reading_ = false;
  try {
    if (error) {
      gone_ = true;
      if (answering_) Close();
    } else {
      Received(bytes);
    }
    Signal();
    ReadMore();
  } catch (const std::exception& e) {
    spdlog::error("A connection was closed after an exception: {}", e.what());
    Close();
  }
}

void SocketStream::Received(size_t bytes) {
  if (!lingering_) received_.append(chunk_.data(), bytes);
  if (answering_ && full()) Close();
}

void SocketStream::Consume(size_t bytes) {
  received_.erase(0, bytes);
  if (received_.empty() && received_.capacity() > kKeptBytes) received_ = std::string();
  ReadMore();
}

void SocketStream::set_answering(bool answering) {
  answering_ = answering;
  if (answering && (gone_ || full())) Close();
}

asio::awaitable<bool> SocketStream::Wait(Deadline deadline) {
  if (!signalled_) {
    error_code ignored;
    news_timer_.expires_at(std::min(deadline, std::chrono::steady_clock::now() + kLongestWait));
    co_await news_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  if (close_asked_ && socket_.is_open()) Close();
  // Checked even if something arrived: a client that never stops sending must time out.
  if (std::chrono::steady_clock::now() >= deadline) co_return false;
  signalled_ = false;
  co_return true;
}

void SocketStream::BeginTimedCall(Deadline deadline, bool writes) {
  const uint64_t call = ++timed_calls_;
  write_timer_.expires_at(deadline);
  write_timer_.async_wait([self = shared_from_this(), call, writes](error_code error) {
    if (error || self->timed_calls_ != call) return;
    if (writes && !self->gone_) self->write_timed_out_ = true;
    self->Close();
  });
}

void SocketStream::EndTimedCall() {
  ++timed_calls_;
  write_timer_.cancel();
}

asio::awaitable<bool> SocketStream::Write(std::string data, std::string more) {
  BeginTimedCall(std::chrono::steady_clock::now() + write_timeout_, true);
  error_code error;
  // Not joined, which would copy an answer of any size.
  const std::array<asio::const_buffer, 2> buffers = {asio::buffer(data), asio::buffer(more)};
  auto token = asio::redirect_error(asio::use_awaitable, error);
  if (tls_) {
    co_await asio::async_write(*tls_, buffers, token);
  } else {
    co_await asio::async_write(socket_, buffers, token);
  }
  EndTimedCall();
  if (error) Close();
  co_return !error;
}

asio::awaitable<void> SocketStream::Linger(std::chrono::milliseconds limit) {
  error_code ignored;
  if (tls_) {
    // Sends close_notify; the read sees the client's own, or its end.
    tls_->async_shutdown([self = shared_from_this()](error_code error) {
      if (!error) self->Close();
    });
  } else {
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }
  lingering_ = true;
  received_ = std::string();
  ReadMore();
  const Deadline deadline = std::chrono::steady_clock::now() + limit;
  bool in_time = true;
  while (!gone_ && in_time) in_time = co_await Wait(deadline);
}

void SocketStream::Close() {
  gone_ = true;
  error_code ignored;
  socket_.close(ignored);
  Signal();
}

void SocketStream::Signal() {
  signalled_ = true;
  news_timer_.cancel();
}

void SocketStream::PostSignal() noexcept {
  try {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Signal(); });
  } catch (const std::exception&) {
    // Out of memory: Wait ends by itself after kLongestWait.
  }
}

void SocketStream::PostClose() noexcept {
  close_asked_ = true;
  try {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Close(); });
  } catch (const std::exception&) {
    // As above; Wait checks close_asked_.
  }
}

}  // namespace ropeway::http
