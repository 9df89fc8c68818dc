#include "server/socket_stream.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace ropeway {

namespace asio = boost::asio;
using boost::system::error_code;

SocketStream::SocketStream(asio::ip::tcp::socket socket, size_t max_received,
                           std::chrono::milliseconds write_timeout)
    : socket_(std::move(socket)),
      news_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()),
      max_received_(max_received),
      write_timeout_(write_timeout) {}

void SocketStream::ReadMore() {
  if (reading_ || gone_ || full()) return;
  reading_ = true;
  socket_.async_read_some(
      asio::buffer(chunk_),
      [self = shared_from_this()](error_code error, size_t bytes) { self->OnRead(error, bytes); });
}

void SocketStream::OnRead(error_code error, size_t bytes) {
  reading_ = false;
  if (error) {
    gone_ = true;
    if (answering_) Close();
  } else {
    if (!lingering_) received_.append(chunk_.data(), bytes);
    if (answering_ && full()) Close();
  }
  Signal();
  ReadMore();
}

void SocketStream::Consume(size_t bytes) {
  received_.erase(0, bytes);
  ReadMore();
}

void SocketStream::set_answering(bool answering) {
  answering_ = answering;
  if (answering && (gone_ || full())) Close();
}

asio::awaitable<bool> SocketStream::Wait(Deadline deadline) {
  if (!signalled_) {
    error_code ignored;
    news_timer_.expires_at(deadline);
    co_await news_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return std::exchange(signalled_, false);
}

asio::awaitable<bool> SocketStream::Write(std::string data) {
  const uint64_t write = ++writes_;
  write_timer_.expires_after(write_timeout_);
  write_timer_.async_wait([self = shared_from_this(), write](error_code error) {
    if (!error && self->writes_ == write) self->Close();
  });
  error_code error;
  const asio::const_buffer buffer = asio::buffer(data);
  co_await asio::async_write(socket_, buffer, asio::redirect_error(asio::use_awaitable, error));
  ++writes_;
  write_timer_.cancel();
  if (error) Close();
  co_return !error;
}

asio::awaitable<void> SocketStream::Linger(std::chrono::milliseconds limit) {
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  lingering_ = true;
  received_.clear();
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

void SocketStream::PostSignal() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Signal(); });
}

void SocketStream::PostClose() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Close(); });
}

}  // namespace ropeway
