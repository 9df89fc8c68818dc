// One connection of the HTTP client, and the exchanges on it: what HttpCall and HttpPool share.
#ifndef ROPEWAY_NET_HTTP_CONNECTION_H_
#define ROPEWAY_NET_HTTP_CONNECTION_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/base_url.h"
#include "net/proxy.h"
#include "ropeway/status.h"

namespace ropeway::net {

// Why an exchange failed.
namespace http_error {
inline constexpr char kConnect[] = "no connection";
inline constexpr char kRefused[] = "refused";  // By a proxy, as it would be again.
inline constexpr char kReset[] = "connection reset";
inline constexpr char kEarlyEnd[] = "early end";
inline constexpr char kTimeout[] = "timeout";
inline constexpr char kBadReply[] = "bad reply";
inline constexpr char kNetwork[] = "network";
inline constexpr char kInterrupted[] = "interrupted";  // By HttpConnection::Break.
}  // namespace http_error

// What is known of a reply before its body; valid while it is passed on.
struct ReplyHead {
  int status = 0;
  std::string_view content_type;  // "" where there is none.
  std::string_view retry_after;   // "" where there is none.
  // Any other field by its name; "" where there is none.
  std::function<std::string_view(std::string_view name)> field;
};

// How an exchange ended.
struct HttpEnd {
  const char* kind = nullptr;  // One of http_error; null: the reply is complete.
  std::string why = {};
  bool sent = false;      // Bytes of the request may have reached the server.
  bool answered = false;  // Bytes of a reply have come.
};

using HttpEndpoints = boost::asio::ip::tcp::resolver::results_type;
using HttpFields = std::vector<std::pair<std::string, std::string>>;

// What all connections to one server share. Thread rule: const once prepared.
struct HttpPeer {
  // With `insecure`, https accepts any certificate; without, the certificate must be valid for the
  // host under the system's authorities. Fails with kInternal where the TLS library cannot be set
  // up.
  Status Prepare(const BaseUrl& to, const std::string& api_key, bool insecure);

  BaseUrl url;
  std::string authorization;   // Empty: none.
  std::optional<Proxy> proxy;  // Endpoints are its own then, and connections go through it.
  // Set for https only. Mutable because Asio takes a non-const reference, though a stream only
  // reads.
  mutable std::optional<boost::asio::ssl::context> tls;
};

// How long a connection waits; 0: for ever.
struct HttpTimeouts {
  base::Duration connect{0};     // For the connection, with the TLS handshake.
  base::Duration first_byte{0};  // From the sending of a request to the head of its reply.
  base::Duration idle{0};        // Between bytes of the reply's body.
  base::Duration total{0};       // From Connect to the end of the exchange.
};

// What one exchange sends; all of it must outlive the exchange.
struct HttpAsk {
  std::string_view method;
  std::string_view path;  // Appended to the base URL's path.
  std::string_view body;
  const HttpFields& fields;   // In place of the client's own fields of the same names.
  bool keep = false;          // Asks the server to keep the connection open.
  size_t max_body_bytes = 0;  // A longer reply is a kBadReply; 0: any length.
};

// A connection and the exchanges on it, one at a time. Owned by shared_ptr, because its timer and
// its watch keep weak references to it; a coroutine that uses it keeps it alive. While an
// exchange waits for bytes, it takes no buffer. Thread rule: the io_context's thread.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using OnHead = std::function<void(const ReplyHead& head)>;
  using OnBody = std::function<bool(std::string_view bytes)>;  // False ends the exchange.

  // `peer` and `io` must outlive it.
  HttpConnection(const HttpPeer* peer, boost::asio::io_context* io);
  ~HttpConnection();

  // Sets the timeouts of all that follows.
  void set_timeouts(const HttpTimeouts& timeouts) { timeouts_ = timeouts; }

  // Connects to the first of `endpoints` that answers. Call once, before all else.
  boost::asio::awaitable<HttpEnd> Connect(HttpEndpoints endpoints);

  // Sends a request and passes on the reply as it arrives. Redirects are not followed; interim
  // replies (1xx) are skipped. The arguments must outlive the coroutine. Exceptions of the two
  // functions come out of it; the connection is of no use then.
  boost::asio::awaitable<HttpEnd> Exchange(const HttpAsk& ask, const OnHead& on_head,
                                           const OnBody& on_body);

  // Whether another exchange may follow: the last reply is complete, and the server keeps the
  // connection open.
  bool reusable() const { return reusable_; }

  // Ends what runs with this kind of error, and closes the connection. The first kind counts.
  void Break(const char* kind);

  // Watches a connection without an exchange: calls `on_gone` once, when the server closes it or
  // sends what was not asked for. The watch lasts until Unwatch, or the end of this object.
  void Watch(std::function<void()> on_gone);
  // Ends the watch. Returns whether the connection can still be used, as far as is known.
  bool Unwatch();

 private:
  struct Tls;
  class ReplyParser;
  using SteadyTime = std::chrono::steady_clock::time_point;

  boost::asio::awaitable<void> SendRequest(const HttpAsk& ask, boost::system::error_code* error);
  boost::asio::awaitable<HttpEnd> ReadReply(ReplyParser* parser);
  void TakeSome(ReplyParser* parser, boost::system::error_code* error);
  size_t ReadSome(char* bytes, size_t size, boost::system::error_code* error);
  bool Quiet();
  HttpEnd End(const char* stage, const boost::system::error_code& error) const;
  // The end of a call that did not reach the server: names the proxy, where there is one.
  HttpEnd EndAtProxy(const boost::system::error_code& error) const;

  void StartPhase(base::Duration timeout);
  void EndPhases();
  void ArmTimer();
  void OnTimer();

  const HttpPeer& peer_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<Tls> tls_;  // For https, once connected.
  HttpTimeouts timeouts_;
  base::Duration phase_{0};                     // The timeout of what it waits for.
  SteadyTime deadline_ = SteadyTime::max();     // When Break comes.
  SteadyTime last_moment_ = SteadyTime::max();  // The exchange's end, by `total`.
  bool timer_runs_ = false;
  uint64_t watch_ = 0;            // Counts watches begun and ended; a wait of an older one is void.
  const char* broken_ = nullptr;  // Set when this side ended the exchange: one of http_error.
  bool sent_ = false;             // As in HttpEnd, of this exchange.
  bool answered_ = false;
  bool reusable_ = false;
};

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_HTTP_CONNECTION_H_
