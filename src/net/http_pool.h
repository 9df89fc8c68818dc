// Kept connections to one HTTP server, and the exchanges that use them.
#ifndef ROPEWAY_NET_HTTP_POOL_H_
#define ROPEWAY_NET_HTTP_POOL_H_

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "net/base_url.h"
#include "net/http_connection.h"
#include "net/name_lookup.h"
#include "ropeway/status.h"

namespace ropeway::net {

class HttpPoolState;

// What one exchange sends, and how long it waits. A timeout of 0 is none.
struct HttpSend {
  std::string method = "POST";
  std::string path = {};   // Appended to the base URL's path: "/completions".
  std::string body = {};   // Not empty: sent as application/json, unless `fields` says otherwise.
  HttpFields fields = {};  // In place of the client's own fields of the same names.
  base::Duration connect_timeout{0};     // For the host's name, and again for the connection.
  base::Duration first_byte_timeout{0};  // From the sending of the request to the reply's head.
  base::Duration idle_timeout{0};        // Between bytes of the reply's body.
  size_t max_body_bytes = 0;             // A longer reply is a kBadReply; 0: any length.
};

// What becomes of an exchange, told on the pool's thread: `head` at most once, `body` any number of
// times, then `end` once. They must not block. An absent one is skipped. Where `head` or `body`
// throws, the exchange ends with kNetwork; what `end` throws is lost. `end` does not come where the
// io_context is stopped before.
struct HttpEvents {
  std::function<void(const ReplyHead& head)> head = {};
  // Bytes of the body as they come, chunks already taken apart; valid during the call. Returns
  // false to end the exchange here, without an error; its connection is then not kept.
  std::function<bool(std::string_view bytes)> body = {};
  std::function<void(const HttpEnd& end)> end = {};
};

// An exchange in flight, or over. May be let go of at any time: the exchange goes on without it.
// Thread rule: any thread, where nothing else is said.
class HttpExchange : public std::enable_shared_from_this<HttpExchange> {
 public:
  // For HttpPool::Send.
  HttpExchange(std::weak_ptr<HttpPoolState> pool, HttpSend send, HttpEvents events);
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  // Asks that the exchange end: `end`, of kInterrupted, comes as soon as the pool's thread is free,
  // when the connection is closed; before it at most the event that is beginning. Nothing happens
  // if the exchange is over.
  void Cancel();

 private:
  friend class HttpPoolState;

  void TellEnd(HttpEnd end);

  const std::weak_ptr<HttpPoolState> pool_;
  std::atomic<bool> cancelled_ = false;

  // For the pool's thread only:
  HttpEvents events_;
  HttpSend send_;
  boost::asio::steady_timer* gate_ = nullptr;  // What it waits on while a name is resolved.
  std::weak_ptr<HttpConnection> connection_;   // Where it has one.
};

// One server. An exchange takes a kept connection where there is one, or else opens one, and leaves
// it to the next where the server agrees. A kept connection that turns out to be closed before
// anything of the reply came, and within a second, is replaced by a fresh one, once: the server had
// closed it before it saw the request. Thread rule: any thread.
class HttpPool {
 public:
  struct Options {
    BaseUrl url = {};
    std::string api_key = {};  // Sent as a bearer token; empty: none.
    bool insecure = false;     // https accepts any certificate (see HttpClient::Open).
    int max_idle = 64;         // Connections that are kept without an exchange.
    base::Duration idle_lifetime = std::chrono::seconds(30);  // How long each is kept.
    NameLookup::Resolve resolve = {};  // In place of the system's resolver, for tests.
  };

  // `io` must outlive the pool and be run by one thread, which is the pool's. The host's name is
  // resolved with the first connection, again after a failure to connect, and once a minute while
  // connections are opened, by a thread of its own (NameLookup); a name that does not resolve is a
  // kConnect of the exchange. Fails with kInternal where the TLS library cannot be set up.
  static StatusOr<std::unique_ptr<HttpPool>> Open(Options options, boost::asio::io_context* io);

  // Cancels all exchanges, as HttpExchange::Cancel does, and closes the connections; the ends come
  // later. Does not wait for a name that is being resolved.
  ~HttpPool();
  HttpPool(const HttpPool&) = delete;
  HttpPool& operator=(const HttpPool&) = delete;

  // Starts an exchange and returns at once; its events may come before that. Throws std::bad_alloc
  // where memory is short, and then no event comes.
  std::shared_ptr<HttpExchange> Send(HttpSend send, HttpEvents events);

  int busy_connections() const;  // Exchanges now: each has a connection, or opens one.
  int idle_connections() const;  // Open now without an exchange.

 private:
  explicit HttpPool(std::shared_ptr<HttpPoolState> state) : state_(std::move(state)) {}

  const std::shared_ptr<HttpPoolState> state_;
};

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_HTTP_POOL_H_
