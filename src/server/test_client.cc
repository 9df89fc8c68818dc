#include "server/test_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace ropeway::server {

TestClient::TestClient(uint16_t port, int receive_buffer) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  timeval timeout{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) Close();
}

TestClient::~TestClient() { Close(); }

void TestClient::Close(bool reset) {
  if (fd_ < 0) return;
  if (reset) {
    linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  }
  ::close(fd_);
  fd_ = -1;
}

void TestClient::CloseSendingSide() { ::shutdown(fd_, SHUT_WR); }

bool TestClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool TestClient::Fill() {
  char chunk[16384];
  const ssize_t got = ::recv(fd_, chunk, sizeof(chunk), 0);
  if (got <= 0) return false;
  buffer_.append(chunk, static_cast<size_t>(got));
  return true;
}

bool TestClient::ReadExactly(size_t bytes, std::string* out) {
  while (buffer_.size() < bytes) {
    if (!Fill()) return false;
  }
  out->append(buffer_, 0, bytes);
  buffer_.erase(0, bytes);
  return true;
}

bool TestClient::ReadLine(std::string* line) {
  size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!Fill()) return false;
  }
  *line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return true;
}

std::string TestClient::ReadSome() {
  if (buffer_.empty()) Fill();
  return std::exchange(buffer_, "");
}

std::optional<std::string> TestClient::ReadToEnd() {
  while (Fill()) {
  }
  char byte = 0;
  // A timeout leaves the connection open: then there is no end to see.
  if (::recv(fd_, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN) return std::nullopt;
  return std::exchange(buffer_, "");
}

ClientReply TestClient::ReadHead() {
  ClientReply reply;
  std::string line;
  if (!ReadLine(&line) || line.size() < 12) return reply;
  const int status = std::atoi(line.substr(9, 3).c_str());
  while (ReadLine(&line)) {
    if (line.empty()) {
      reply.status = status;
      return reply;
    }
    const size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    reply.headers[name] = colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return reply;
}

ClientReply TestClient::Read() {
  ClientReply reply = ReadHead();
  if (reply.status != 0) ReadBody(&reply);
  return reply;
}

void TestClient::ReadBody(ClientReply* reply) {
  bool whole = true;
  if (reply->status == 204) {
    // It has none.
  } else if (reply->headers.count("content-length") != 0) {
    whole = ReadExactly(std::stoul(reply->headers["content-length"]), &reply->body);
  } else if (reply->headers.count("transfer-encoding") != 0) {
    for (size_t size = 1; whole && size > 0;) {
      std::string line;
      whole = ReadLine(&line);
      if (!whole) break;
      size = std::stoul(line, nullptr, 16);
      whole = ReadExactly(size, &reply->body) && ReadLine(&line) && line.empty();
    }
  } else {
    std::optional<std::string> rest = ReadToEnd();
    whole = rest.has_value();
    reply->body = rest.value_or("");
  }
  if (!whole) reply->status = 0;
}

ClientReply TestClient::Get(const std::string& path) {
  if (!Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")) return {};
  return Read();
}

ClientReply TestClient::Post(const std::string& path, const std::string& body) {
  if (!Send(PostBytes(path, body))) return {};
  return Read();
}

std::string PostBytes(const std::string& path, const std::string& body,
                      const std::string& more_headers) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         more_headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace ropeway::server
