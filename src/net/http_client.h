// An HTTP/1.1 client over Asio: one connection per request, bodies are not copied. For requests
// that share connections see HttpPool.
#ifndef ROPEWAY_NET_HTTP_CLIENT_H_
#define ROPEWAY_NET_HTTP_CLIENT_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "net/base_url.h"
#include "net/http_connection.h"
#include "net/proxy.h"
#include "ropeway/status.h"

namespace ropeway::net {

// One server, its name resolved. Thread rule: const after Open; may be shared.
class HttpClient {
 public:
  // Resolves the host name once, or the proxy's, through which connections then go. With
  // `insecure`, https accepts any certificate; without, the
  // certificate must be valid for the host under the system's authorities. Fails with kUnavailable
  // if the name does not resolve.
  static StatusOr<std::unique_ptr<HttpClient>> Open(const BaseUrl& url, std::string api_key,
                                                    bool insecure,
                                                    std::optional<Proxy> proxy = std::nullopt);

  struct Reply {
    int status = 0;  // 0: no answer arrived; `why` says why.
    std::string body;
    std::string why;
    std::string error_kind;     // One of http_error; "" where an answer arrived.
    std::string location = {};  // Where a redirect leads; they are not followed.
    std::string link = {};      // The field Link (RFC 8288): the next page of a list, for instance.
  };
  // Sends one request and returns the whole reply; blocks at most `timeout` seconds. An empty body
  // makes it a GET. `path` is appended to the base URL's path: "/models".
  Reply Fetch(const std::string& path, const std::string& body, double timeout) const;

 private:
  friend class HttpCall;

  HttpPeer peer_;
  HttpEndpoints endpoints_;
};

// One exchange in flight, on a connection of its own. Thread rule: the io_context's thread.
class HttpCall {
 public:
  using OnHead = HttpConnection::OnHead;
  using OnBody = HttpConnection::OnBody;  // False ends the exchange.

  // `client` and `io` must outlive it.
  HttpCall(const HttpClient* client, boost::asio::io_context* io)
      : client_(*client), connection_(std::make_shared<HttpConnection>(&client->peer_, io)) {}

  // A field of the request's head. Call before Run.
  void AddField(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }

  // The timeout of Run counts from the last byte that came, or from the connection, not from the
  // beginning: for replies that take as long as they take. Call before Run.
  void set_timeout_when_idle() { timeout_when_idle_ = true; }

  // Sends the request (see HttpClient::Fetch) and passes on the reply as it arrives. Call once. The
  // arguments, and this object, must outlive the coroutine.
  boost::asio::awaitable<HttpEnd> Run(const std::string& path, const std::string& body,
                                      double timeout, const OnHead& on_head, const OnBody& on_body);

  // Ends the exchange with http_error::kInterrupted.
  void Interrupt() { connection_->Break(http_error::kInterrupted); }

 private:
  const HttpClient& client_;
  const std::shared_ptr<HttpConnection> connection_;
  HttpFields fields_;
  bool timeout_when_idle_ = false;
};

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_HTTP_CLIENT_H_
