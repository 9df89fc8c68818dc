// An HTTP/1.1 client over Asio: one connection per request, bodies are not copied.
#ifndef ROPEWAY_NET_HTTP_CLIENT_H_
#define ROPEWAY_NET_HTTP_CLIENT_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/base_url.h"
#include "ropeway/status.h"

namespace ropeway::net {

// Why an exchange failed.
namespace http_error {
inline constexpr char kConnect[] = "no connection";
inline constexpr char kReset[] = "connection reset";
inline constexpr char kEarlyEnd[] = "early end";
inline constexpr char kTimeout[] = "timeout";
inline constexpr char kBadReply[] = "bad reply";
inline constexpr char kNetwork[] = "network";
inline constexpr char kInterrupted[] = "interrupted";  // By HttpCall::Interrupt.
}  // namespace http_error

// One server, its name resolved. Thread rule: const after Open; may be shared.
class HttpClient {
 public:
  // Resolves the host name once. With `insecure`, https accepts any certificate; without, the
  // certificate must be valid for the host under the system's authorities. Fails with kUnavailable
  // if the name does not resolve.
  static StatusOr<std::unique_ptr<HttpClient>> Open(const BaseUrl& url, std::string api_key,
                                                    bool insecure);

  struct Reply {
    int status = 0;  // 0: no answer arrived; `why` says why.
    std::string body;
    std::string why;
    std::string error_kind;     // Of http_error; "" where an answer arrived.
    std::string location = {};  // Where a redirect leads; they are not followed.
    std::string link = {};      // The field Link (RFC 8288): the next page of a list, for instance.
  };
  // Sends one request and returns the whole reply; blocks at most `timeout` seconds. An empty body
  // makes it a GET. `path` is appended to the base URL's path: "/models".
  Reply Fetch(const std::string& path, const std::string& body, double timeout) const;

 private:
  friend class HttpCall;

  BaseUrl url_;
  std::string authorization_;  // Empty: none.
  boost::asio::ip::tcp::resolver::results_type endpoints_;
  // Set for https only. Mutable because Asio takes a non-const reference, though a stream only
  // reads.
  mutable std::optional<boost::asio::ssl::context> tls_;
};

// What is known of a reply before its body; valid while it is passed on.
struct ReplyHead {
  int status = 0;
  std::string_view content_type;  // "" where there is none, as for the next.
  std::string_view retry_after;
  // Any other field by its name; "" where there is none.
  std::function<std::string_view(std::string_view name)> field;
};

// How an exchange ended.
struct HttpEnd {
  const char* kind = nullptr;  // One of http_error; null: the reply is complete.
  std::string why;
};

// One exchange in flight. Owned by shared_ptr, because its timer keeps a weak reference to it.
// Thread rule: the io_context's thread.
class HttpCall : public std::enable_shared_from_this<HttpCall> {
 public:
  using OnHead = std::function<void(const ReplyHead& head)>;
  using OnBody = std::function<bool(std::string_view bytes)>;  // False ends the exchange.

  // `client` and `io` must outlive it.
  HttpCall(const HttpClient* client, boost::asio::io_context* io)
      : client_(*client), socket_(*io), timer_(*io) {}

  // A field of the request's head. Call before Run.
  void AddField(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }

  // The timeout of Run counts from the last byte that came, not from the beginning: for replies
  // that take as long as they take. Call before Run.
  void set_timeout_when_idle() { timeout_when_idle_ = true; }

  // Sends the request (see HttpClient::Fetch) and passes on the reply as it arrives. Call once. The
  // arguments must outlive the coroutine.
  boost::asio::awaitable<HttpEnd> Run(const std::string& path, const std::string& body,
                                      double timeout, const OnHead& on_head, const OnBody& on_body);

  // Ends the exchange with http_error::kInterrupted.
  void Interrupt();

 private:
  void Break(const char* kind);
  void StartTimer();
  HttpEnd End(const char* stage, const boost::system::error_code& error) const;
  boost::asio::awaitable<HttpEnd> Secure(const std::string& path, const std::string& body,
                                         const OnHead& on_head, const OnBody& on_body);
  template <typename Stream>
  boost::asio::awaitable<HttpEnd> Talk(Stream* stream, const std::string& path,
                                       const std::string& body, const OnHead& on_head,
                                       const OnBody& on_body);

  const HttpClient& client_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::vector<std::pair<std::string, std::string>> fields_;
  double timeout_ = 0;
  bool timeout_when_idle_ = false;
  const char* broken_ = nullptr;  // Set when this side ended the exchange: one of http_error.
};

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_HTTP_CLIENT_H_
