// One client's socket, plain or under TLS. A read is always outstanding, so the client's end is
// seen at once, whatever else the connection is doing. A write fails if the client does not take it
// in a bounded time.
#ifndef ROPEWAY_HTTP_SOCKET_STREAM_H_
#define ROPEWAY_HTTP_SOCKET_STREAM_H_

#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace ropeway::http {

// Thread rule: PostSignal and PostClose from any thread; every other method on the socket's
// executor, which runs one handler at a time.
class SocketStream : public std::enable_shared_from_this<SocketStream> {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // At most `max_received` bytes wait to be consumed: reading pauses there. `tls` must
  // outlive the stream; null: a plain connection.
  SocketStream(boost::asio::ip::tcp::socket socket, size_t max_received,
               std::chrono::milliseconds write_timeout, boost::asio::ssl::context* tls = nullptr);

  boost::asio::any_io_executor executor() { return socket_.get_executor(); }

  // Starts reading, under TLS after the handshake. Returns false, with the stream closed, if the
  // handshake failed or did not end by `deadline`. Call once, when a shared_ptr owns the stream.
  boost::asio::awaitable<bool> Start(Deadline deadline);

  // The input that was not consumed yet; valid until the next co_await or Consume.
  std::string_view received() const { return received_; }
  void Consume(size_t bytes);
  // Reading is paused until input is consumed; not even the client's end is seen.
  bool full() const { return received_.size() >= max_received_; }

  // The client closed its side, the connection broke, or Close was called. Earlier input may still
  // be consumed.
  bool gone() const { return gone_; }

  // While set, the client's end closes the socket at once (which ends a write in progress), and so
  // does a client that sends more than `max_received` bytes ahead of its answers.
  void set_answering(bool answering);

  // Waits for bytes, the client's end, or a Signal. Returns false after `deadline`, else true, also
  // without a reason. One coroutine at a time.
  boost::asio::awaitable<bool> Wait(Deadline deadline);

  // Sends all of `data`, and then of `more`; false if the connection broke or the client did not
  // take it in time. One coroutine at a time.
  boost::asio::awaitable<bool> Write(std::string data, std::string more);
  boost::asio::awaitable<bool> Write(std::string data) {
    return Write(std::move(data), std::string());
  }
  // The client did not take a write in time, for which the stream was closed.
  bool write_timed_out() const { return write_timed_out_; }

  // Ends the sending side and drops what still arrives, for at most `limit`: a socket closed with
  // unread input resets the connection, and the client may lose the answer.
  boost::asio::awaitable<void> Linger(std::chrono::milliseconds limit);

  void Close();
  void Signal();
  // If memory for the message runs out, these take effect some seconds later.
  void PostSignal() noexcept;
  void PostClose() noexcept;

 private:
  using Tls = boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>;

  void ReadMore();
  void OnRead(boost::system::error_code error, size_t bytes) noexcept;
  void Received(size_t bytes);
  // Closes the stream at `deadline`, unless EndTimedCall was called before. `writes`: for
  // write_timed_out.
  void BeginTimedCall(Deadline deadline, bool writes);
  void EndTimedCall();

  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<Tls> tls_;              // Over socket_; null for a plain connection.
  boost::asio::steady_timer news_timer_;  // Cancelled to end a Wait.
  boost::asio::steady_timer write_timer_;
  const size_t max_received_;
  const std::chrono::milliseconds write_timeout_;

  std::array<char, 8192> chunk_;  // The buffer of the outstanding read.
  std::string received_;
  bool reading_ = false;
  bool gone_ = false;
  bool answering_ = false;
  bool lingering_ = false;
  bool signalled_ = false;
  bool write_timed_out_ = false;
  uint64_t timed_calls_ = 0;              // Identifies the call that a timer belongs to.
  std::atomic<bool> close_asked_{false};  // By PostClose.
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_SOCKET_STREAM_H_
