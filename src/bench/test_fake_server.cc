#include "bench/test_fake_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace ropeway {
namespace {

using Json = nlohmann::json;

void SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool ReadRequest(int fd, FakeRequest* request) {
  std::string bytes;
  size_t end = 0;
  size_t length = 0;
  while ((end = bytes.find("\r\n\r\n")) == std::string::npos || bytes.size() < end + 4 + length) {
    char buffer[4096];
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    bytes.append(buffer, static_cast<size_t>(got));
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

}  // namespace

FakeServer::FakeServer(Script script) : script_(std::move(script)) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, any, size) != 0 || listen(listener_, 128) != 0) std::abort();
  getsockname(listener_, any, &size);
  port_ = ntohs(address.sin_port);
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
    if (fd >= 0) connections_.emplace_back([this, fd] { Serve(fd); });
  }
  connections_.clear();  // Joins them.
}

void FakeServer::Serve(int fd) {
  FakeRequest request;
  if (ReadRequest(fd, &request)) {
    const bool counted = request.method == "POST";
    const int now = counted ? ++in_flight_ : 0;
    for (int most = most_in_flight_; most < now;) most_in_flight_.compare_exchange_weak(most, now);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const FakeReply reply = script_(request);
    for (size_t i = 0; i < reply.writes.size(); ++i) {
      if (i > 0) std::this_thread::sleep_for(reply.pause);
      SendAll(fd, reply.writes[i]);
    }
    char byte = 0;
    while (reply.hang && !stopping_ && recv(fd, &byte, 1, MSG_DONTWAIT) < 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (reply.reset) {
      const linger now_and_hard{1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &now_and_hard, sizeof now_and_hard);
    }
    if (counted) --in_flight_;
  }
  close(fd);
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

}  // namespace ropeway
