// One client's connection: reads requests and answers them in order until either side closes it.
#ifndef ROPEWAY_HTTP_CONNECTION_H_
#define ROPEWAY_HTTP_CONNECTION_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "http/exchange.h"
#include "http/http_context.h"
#include "http/io_turns.h"
#include "http/socket_stream.h"

namespace ropeway::http {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `socket`'s executor must run one handler at a time; `turns`: of its event loop. `tls`: null for
  // plain HTTP. `context` and `turns` must outlive the connection.
  // `peer`: the address at its other end.
  Connection(boost::asio::ip::tcp::socket socket, const boost::asio::ip::address& peer,
             HttpContext* context, IoTurns* turns, std::shared_ptr<boost::asio::ssl::context> tls);

  ~Connection() { stream_->Close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Serves until the end, then releases `slot`, on the connection's thread. Call once.
  void Start(std::shared_ptr<void> slot);

  // Ends the connection: at once, cancelling what runs, or with `when_idle` after the request in
  // progress. Any thread.
  void Stop(bool when_idle);

 private:
  boost::asio::awaitable<void> Run();
  // Reads and answers one request; false where the connection is to end.
  boost::asio::awaitable<bool> ServeOne();
  boost::asio::awaitable<Sent> Answer(std::shared_ptr<Exchange> exchange);

  // Counts the request, and writes its line to the log.
  void Note(const Exchange& exchange, const std::string& tenant, const Sent& sent,
            std::chrono::steady_clock::time_point start);

  // Waits for the first byte of a request; false where none arrives.
  boost::asio::awaitable<bool> AwaitRequest();

  const std::shared_ptr<boost::asio::ssl::context> tls_;  // stream_ uses it.
  const std::shared_ptr<SocketStream> stream_;
  HttpContext* const context_;
  IoTurns* const turns_;
  const std::string address_;  // At the other end.
  const bool proxied_;         // By a trusted proxy.
  const std::unique_ptr<ConnectionTable::Place> place_;
  bool idle_ = true;  // Between requests. On the connection's thread.
};

}  // namespace ropeway::http

#endif  // ROPEWAY_HTTP_CONNECTION_H_
