// HTTP/1.1 requests over Asio, as light as may be: one connection each, no copies of bodies.
#ifndef ROPEWAY_BENCH_HTTP_CLIENT_H_
#define ROPEWAY_BENCH_HTTP_CLIENT_H_

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

#include "bench/base_url.h"
#include "ropeway/status.h"

namespace ropeway {

// One server, its name resolved. Thread rule: const after Open; may be shared.
class HttpClient {
 public:
  // Resolves the name once. `insecure`: https takes any certificate; else it must be valid for the
  // host under the machine's authorities. Fails with kUnavailable on a name that is unknown.
  static StatusOr<std::unique_ptr<HttpClient>> Open(const BaseUrl& url, std::string api_key,
                                                    bool insecure);

  struct Reply {
    int status = 0;  // 0: there was none, for the reason `why`.
    std::string body;
    std::string why;
  };
  // One whole exchange; blocks at most `timeout` seconds. An empty body makes it a GET.
  // `path` follows the base URL's: "/models".
  Reply Fetch(const std::string& path, const std::string& body, double timeout) const;

 private:
  friend class HttpCall;

  BaseUrl url_;
  std::string authorization_;  // Empty: none.
  boost::asio::ip::tcp::resolver::results_type endpoints_;
  // Of https alone. Asio takes it as one that may change, though a stream only reads it.
  mutable std::optional<boost::asio::ssl::context> tls_;
};

// How an exchange ended.
struct HttpEnd {
  const char* kind = nullptr;  // An error_kind; null: the reply is complete.
  std::string why;
};

// One exchange in flight. Owned by shared_ptr, since its timer looks back at it.
// Thread rule: the io_context's thread.
class HttpCall : public std::enable_shared_from_this<HttpCall> {
 public:
  using OnHead = std::function<void(int status, std::string_view content_type)>;
  using OnBody = std::function<bool(std::string_view bytes)>;  // False: no more is wanted.

  // `client` and `io` must outlive it.
  HttpCall(const HttpClient* client, boost::asio::io_context* io)
      : client_(*client), socket_(*io), timer_(*io) {}

  // Sends the request (see HttpClient::Fetch) and hands on the reply as it arrives. Call once. The
  // arguments must outlive the reply.
  boost::asio::awaitable<HttpEnd> Run(const std::string& path, const std::string& body,
                                      double timeout, const OnHead& on_head, const OnBody& on_body);

  // Breaks it off with error_kind::kInterrupted.
  void Interrupt();

 private:
  void Break(const char* kind);
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
  double timeout_ = 0;
  const char* broken_ = nullptr;  // Why we broke it off ourselves.
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_HTTP_CLIENT_H_
