// A blocking HTTP/1.1 client for the server's tests, which can misbehave as real clients do.
#ifndef ROPEWAY_SERVER_TEST_CLIENT_H_
#define ROPEWAY_SERVER_TEST_CLIENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/test_events.h"

namespace ropeway::server {

struct ClientReply {
  int status = 0;                              // 0: the connection ended before a whole reply came.
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;                            // Without the framing of chunks.
};

class TestClient {
 public:
  // Connects to the loopback address; a read that waits longer than a minute fails.
  // `receive_buffer`: the kernel's, 0 for its default.
  explicit TestClient(uint16_t port, int receive_buffer = 0);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool Send(std::string_view bytes);
  // Reads one whole reply.
  ClientReply Read();
  // Reads status and headers only; the body comes by ReadBody, or its bytes by ReadSome.
  ClientReply ReadHead();
  // Reads the body that follows `reply`'s headers into it.
  void ReadBody(ClientReply* reply);
  // The next bytes to arrive, "" at the end.
  std::string ReadSome();
  // Everything until the server closes; nullopt if it does not within a minute.
  std::optional<std::string> ReadToEnd();
  // Closes the connection, with a reset or in the ordinary way.
  void Close(bool reset = false);
  void CloseSendingSide();

  ClientReply Get(const std::string& path);
  ClientReply Post(const std::string& path, const std::string& body);

 private:
  bool Fill();  // Receives more into buffer_.
  bool ReadExactly(size_t bytes, std::string* out);
  bool ReadLine(std::string* line);

  int fd_ = -1;
  std::string buffer_;
};

// The bytes of a POST request with a JSON body.
std::string PostBytes(const std::string& path, const std::string& body,
                      const std::string& more_headers = "");

// The header that presents an API key or the admin key.
inline std::string Bearer(const std::string& key) {
  return "Authorization: Bearer " + key + "\r\n";
}

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TEST_CLIENT_H_
