// Requests with seeded damage, over real sockets: whatever arrives, the server answers the next
// client.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "server/api_server.h"
#include "server/test_client.h"
#include "server/test_fake_backend.h"

namespace ropeway::server {
namespace {

std::vector<std::string> GoodRequests() {
  return {
      PostBytes("/v1/completions", R"({"prompt":"a","max_tokens":2,"logprobs":1})"),
      PostBytes("/v1/completions", R"({"prompt":[1,2],"max_tokens":2,"stream":true})"),
      PostBytes("/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"\u00e9"}],"max_tokens":2})"),
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "6\r\n{\"prom\r\nb\r\npt\":\"hello\"\r\n1\r\n}\r\n0\r\n\r\n",
      PostBytes("/v1/completions", R"({"prompt":["a","b"],"n":2,"max_tokens":1,"echo":true,
                "logprobs":1,"logit_bias":{"5":-1},"stop_token_ids":[3],"timeout":5})"),
      PostBytes("/tokenize", R"({"prompt":"a<s>","add_special_tokens":false})"),
      PostBytes("/detokenize", R"({"tokens":[1,104,105]})"),
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
  };
}

// Replaces, drops, repeats or inserts a few bytes.
std::string Damage(std::string bytes, std::mt19937* random) {
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(*random); };
  const size_t times = 1 + below(4);
  for (size_t i = 0; i < times && !bytes.empty(); ++i) {
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(8);
    switch (below(4)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      default:
        bytes.insert(at, length, static_cast<char>(below(256)));
        break;
    }
  }
  return bytes;
}

TEST(HttpMutation, DamagedRequestsHurtNoOtherClient) {
  FakeBackend backend;
  ApiServer server(ServerOptions{}, &backend);
  ASSERT_TRUE(server.Start().ok());
  std::mt19937 random(20240501);
  const std::vector<std::string> good = GoodRequests();
  int rejected = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string bytes = Damage(good[i % good.size()], &random);
    TestClient client(server.port());
    client.Send(bytes);
    client.CloseSendingSide();
    const int status = client.Read().status;
    EXPECT_NE(status, 500) << bytes;
    if (status >= 400) ++rejected;
  }
  EXPECT_GT(rejected, 50);
  EXPECT_TRUE(backend.WaitIdle());
  TestClient client(server.port());
  EXPECT_EQ(client.Post("/v1/completions", R"({"prompt":"a"})").status, 200);
}

}  // namespace
}  // namespace ropeway::server
