#include "net/test_fake_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace ropeway::net {

// A socket, or TLS over one. Closes it.
class FakeWire {
 public:
  // Shakes hands first where `tls` is not null.
  FakeWire(int fd, SSL_CTX* tls) : fd_(fd), tls_(tls == nullptr ? nullptr : SSL_new(tls)) {
    if (tls_ == nullptr) return;
    SSL_set_fd(tls_, fd_);
    shaken_ = SSL_accept(tls_) == 1;
  }
  ~FakeWire() {
    if (shaken_) SSL_shutdown(tls_);
    SSL_free(tls_);
    close(fd_);
  }
  FakeWire(const FakeWire&) = delete;
  FakeWire& operator=(const FakeWire&) = delete;

  ssize_t Receive(char* buffer, size_t size) {
    if (tls_ == nullptr) return recv(fd_, buffer, size, 0);
    return shaken_ ? SSL_read(tls_, buffer, static_cast<int>(size)) : 0;
  }

  void SendAll(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = tls_ == nullptr
                               ? send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                               : SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size()));
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

 private:
  const int fd_;
  SSL* const tls_;
  bool shaken_ = false;
};

namespace {

using Json = nlohmann::json;

// A context with a fresh key and a certificate for "localhost", signed by itself.
std::shared_ptr<SSL_CTX> SelfSigned() {
  const std::shared_ptr<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::shared_ptr<X509> certificate(X509_new(), X509_free);
  X509* const x = certificate.get();
  ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
  X509_gmtime_adj(X509_getm_notBefore(x), -60);
  X509_gmtime_adj(X509_getm_notAfter(x), 3600);
  X509_set_pubkey(x, key.get());
  X509_NAME* const name = X509_get_subject_name(x);
  const auto* host = reinterpret_cast<const unsigned char*>("localhost");
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, host, -1, -1, 0);
  X509_set_issuer_name(x, name);
  X509_sign(x, key.get(), EVP_sha256());

  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (SSL_CTX_use_certificate(context.get(), x) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    std::abort();
  }
  return context;
}

bool ReadRequest(FakeWire* wire, FakeRequest* request) {
  std::string bytes;
  size_t end = 0;
  size_t length = 0;
  while ((end = bytes.find("\r\n\r\n")) == std::string::npos || bytes.size() < end + 4 + length) {
    std::array<char, 4096> buffer;
    const ssize_t got = wire->Receive(buffer.data(), buffer.size());
    if (got <= 0) return false;
    bytes.append(buffer.data(), static_cast<size_t>(got));
    const size_t field = bytes.find("Content-Length: ");
    if (field != std::string::npos) length = std::strtoul(&bytes[field + 16], nullptr, 10);
  }
  request->headers = bytes.substr(0, end);
  request->body = bytes.substr(end + 4);
  request->method = bytes.substr(0, bytes.find(' '));
  const size_t path = request->method.size() + 1;
  request->path = bytes.substr(path, bytes.find(' ', path) - path);
  return true;
}

// Binds `fd` to a free port of the loopback address; which.
uint16_t BindToFreePort(int fd) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd, any, size) != 0 || getsockname(fd, any, &size) != 0) std::abort();
  return ntohs(address.sin_port);
}

}  // namespace

ClosedPort::ClosedPort()
    : socket_(socket(AF_INET, SOCK_STREAM, 0)), port_(BindToFreePort(socket_)) {}

ClosedPort::~ClosedPort() { close(socket_); }

FakeServer::FakeServer(Script script, bool tls)
    : script_(std::move(script)), tls_(tls ? SelfSigned() : nullptr) {
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to clients that have left.
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  port_ = BindToFreePort(listener_);
  if (listen(listener_, 1024) != 0) std::abort();
  acceptor_ = std::jthread([this] { Accept(); });
}

FakeServer::~FakeServer() {
  stopping_ = true;
  acceptor_.join();
  close(listener_);
}

void FakeServer::Accept() {
  while (!stopping_) {
    pollfd ready{listener_, POLLIN, 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    const int fd = accept(listener_, nullptr, nullptr);
    if (fd < 0) continue;
    ++connection_count_;
    connections_.emplace_back([this, fd] { Serve(fd); });
  }
  connections_.clear();  // Joins them.
}

bool FakeServer::AwaitClient(int fd, std::chrono::milliseconds patience) const {
  const auto until = std::chrono::steady_clock::now() + patience;
  pollfd ready{fd, POLLIN, 0};
  while (!stopping_ && std::chrono::steady_clock::now() < until) {
    if (poll(&ready, 1, 20) > 0) return true;
  }
  return false;
}

void FakeServer::Serve(int fd) {
  ++open_count_;
  {
    FakeWire wire(fd, tls_.get());
    FakeRequest request;
    while (ReadRequest(&wire, &request)) {
      const FakeReply reply = Answer(fd, &wire, request);
      if (reply.reset) {
        const linger now_and_hard{1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now_and_hard, sizeof now_and_hard);
      }
      if (!AwaitClient(fd, reply.keep)) break;
    }
  }
  --open_count_;
}

FakeReply FakeServer::Answer(int fd, FakeWire* wire, const FakeRequest& request) {
  const bool counted = request.method == "POST";
  const int now = counted ? ++in_flight_ : 0;
  for (int most = most_in_flight_; most < now;) most_in_flight_.compare_exchange_weak(most, now);
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  FakeReply reply = script_(request);
  for (size_t i = 0; i < reply.writes.size(); ++i) {
    if (i > 0) std::this_thread::sleep_for(reply.pause);
    // Before the client can see the end and send its next request.
    if (i + 1 == reply.writes.size() && counted) --in_flight_;
    wire->SendAll(reply.writes[i]);
  }
  char byte = 0;
  while (reply.hang && !stopping_ && recv(fd, &byte, 1, MSG_DONTWAIT) < 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (reply.writes.empty() && counted) --in_flight_;
  return reply;
}

std::vector<FakeRequest> FakeServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

FakeReply JsonReply(const std::string& body, int status) {
  FakeReply reply;
  reply.writes = {
      fmt::format("HTTP/1.1 {} X\r\nContent-Type: application/json\r\n"
                  "Content-Length: {}\r\n\r\n{}",
                  status, body.size(), body)};
  return reply;
}

FakeReply Kept(FakeReply reply, std::chrono::milliseconds keep) {
  reply.keep = keep;
  return reply;
}

std::string EventStream(const std::vector<std::string>& payloads, const std::string& newline,
                        bool done) {
  std::string text;
  for (const std::string& payload : payloads) {
    text.append("data: ").append(payload).append(newline).append(newline);
  }
  if (done) text.append("data: [DONE]").append(newline).append(newline);
  return text;
}

FakeReply StreamReply(const std::string& events, bool chunked) {
  FakeReply reply;
  std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  if (!chunked) {
    reply.writes = {head + "Connection: close\r\n\r\n" + events};
    return reply;
  }
  head += "Transfer-Encoding: chunked\r\n\r\n";
  // Chunks that know nothing of the events.
  for (size_t at = 0; at < events.size(); at += 37) {
    const std::string piece = events.substr(at, 37);
    head += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  }
  reply.writes = {head + "0\r\n\r\n"};
  return reply;
}

FakeReply Cut(const FakeReply& reply, size_t size) {
  FakeReply result = reply;
  result.writes.clear();
  for (const std::string& bytes : reply.writes) {
    for (size_t at = 0; at < bytes.size(); at += size)
      result.writes.push_back(bytes.substr(at, size));
  }
  return result;
}

FakeReply WellBehaved(const FakeRequest& request) {
  if (request.method == "GET") {
    return JsonReply(R"({"data":[{"id":"fake","max_model_len":2048}]})");
  }
  const Json asked = Json::parse(request.body);
  const bool chat = asked.contains("messages");
  size_t tokens = 0;
  if (!chat && asked["prompt"].is_array()) {
    tokens = asked["prompt"].size();
  } else {
    const auto text = (chat ? asked["messages"][0]["content"] : asked["prompt"]).get<std::string>();
    tokens = 6 + static_cast<size_t>(std::count(text.begin(), text.end(), ' '));
  }
  const int out = asked.value("max_tokens", 2);
  const Json usage = {{"prompt_tokens", tokens}, {"completion_tokens", out}};
  if (!asked.value("stream", false)) {
    std::string text;
    for (int i = 0; i < out; ++i) text += " t";
    const Json choice = chat ? Json{{"message", {{"content", text}}}} : Json{{"text", text}};
    return JsonReply(
        Json{{"choices", {choice}}, {"usage", usage}, {"ropeway", {{"batch_num", 3}}}}.dump());
  }
  const std::string piece =
      chat ? R"({"choices":[{"delta":{"content":" t"}}]})" : R"({"choices":[{"text":" t"}]})";
  std::vector<std::string> events(static_cast<size_t>(out), piece);
  events.push_back(
      Json{{"choices", Json::array()}, {"usage", usage}, {"ropeway", {{"batch_num", 3}}}}.dump());
  return StreamReply(EventStream(events));
}

}  // namespace ropeway::net
