// A scripted OpenAI-compatible server for tests: bytes, pauses and resets as the test says.
#ifndef ROPEWAY_NET_TEST_FAKE_SERVER_H_
#define ROPEWAY_NET_TEST_FAKE_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct ssl_ctx_st;  // OpenSSL's SSL_CTX.

namespace ropeway::net {

class FakeWire;  // A socket of the server's, perhaps with TLS.

// What the server sends back to one request, in order.
struct FakeReply {
  std::vector<std::string> writes;     // Each one send() of its own.
  std::chrono::milliseconds pause{0};  // Before each write but the first.
  bool reset = false;                  // Ends with a reset in place of an orderly close.
  bool hang = false;                   // Stays open and silent until the client leaves.
  // How long the connection then stays open for another request; 0: it ends.
  std::chrono::milliseconds keep{0};
};

// A request as it came.
struct FakeRequest {
  std::string method;
  std::string path;
  std::string headers;  // With the request line.
  std::string body;
};

// One thread per connection; listens on a free port of the loopback address.
class FakeServer {
 public:
  using Script = std::function<FakeReply(const FakeRequest&)>;

  // `script` is called by the connections' threads, several at a time.
  // With `tls` it speaks https, with a certificate for "localhost" that no authority signed.
  explicit FakeServer(Script script, bool tls = false);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  uint16_t port() const { return port_; }
  std::string url() const {
    return (tls_ == nullptr ? "http://127.0.0.1:" : "https://localhost:") + std::to_string(port_);
  }
  // The largest number of requests in flight at once, without GETs.
  int most_in_flight() const { return most_in_flight_; }
  std::vector<FakeRequest> requests() const;
  int connections() const { return connection_count_; }  // Accepted so far.
  int open_connections() const { return open_count_; }

 private:
  void Accept();
  void Serve(int fd);
  FakeReply Answer(int fd, FakeWire* wire, const FakeRequest& request);
  // Waits until the client sends something or leaves; false if neither happens for so long.
  bool AwaitClient(int fd, std::chrono::milliseconds patience) const;

  const Script script_;
  const std::shared_ptr<ssl_ctx_st> tls_;  // Null: plain http.
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> in_flight_ = 0;
  std::atomic<int> most_in_flight_ = 0;
  std::atomic<int> connection_count_ = 0;
  std::atomic<int> open_count_ = 0;
  mutable std::mutex mutex_;
  std::vector<FakeRequest> requests_;
  std::vector<std::jthread> connections_;  // The accepting thread's.
  std::jthread acceptor_;
};

// A loopback port without a listener, reserved while this object exists.
class ClosedPort {
 public:
  ClosedPort();
  ~ClosedPort();
  ClosedPort(const ClosedPort&) = delete;
  ClosedPort& operator=(const ClosedPort&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  int socket_ = -1;
  uint16_t port_ = 0;
};

// A whole reply with Content-Length.
FakeReply JsonReply(const std::string& body, int status = 200);
// The same reply, after which the connection stays open so long for another request.
FakeReply Kept(FakeReply reply, std::chrono::milliseconds keep = std::chrono::minutes(1));
// An event stream of these payloads, ended by [DONE] unless told otherwise; chunked, or else up to
// the end of the connection.
std::string EventStream(const std::vector<std::string>& payloads, const std::string& newline = "\n",
                        bool done = true);
FakeReply StreamReply(const std::string& events, bool chunked = true);
// Cuts a reply's bytes into writes of `size` bytes.
FakeReply Cut(const FakeReply& reply, size_t size);

// The script of a complete server: lists the model "fake", counts the prompt's ids (or its words
// plus 5) and answers max_tokens tokens " t".
FakeReply WellBehaved(const FakeRequest& request);

}  // namespace ropeway::net

#endif  // ROPEWAY_NET_TEST_FAKE_SERVER_H_
