// What requests that are on their way cost, and which tenant pays, over real sockets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

class HttpBodyTest : public ServerTest {
 protected:
  static constexpr const char* kA = "key-of-team-a";
  static constexpr const char* kB = "key-of-team-b";

  void SetUp() override { Start(ServerLimits()); }

  void Start(const ServerLimits& limits) {
    ServerOptions options;
    options.limits = limits;
    options.api_keys = {{"team-a", kA}, {"team-b", kB}};
    options.admin_key = "key-of-the-admin";
    StartServer(options);
  }

  // A client that has sent `bytes`.
  TestClient* Sent(const std::string& bytes) {
    clients_.push_back(std::make_unique<TestClient>(port()));
    clients_.back()->Send(bytes);
    return clients_.back().get();
  }

  int Complete(const char* key, size_t prompt_bytes) {
    const std::string body = R"({"prompt":")" + std::string(prompt_bytes, 'x') + "\"}";
    return Sent(PostBytes("/v1/completions", body, Bearer(key)))->Read().status;
  }

  static std::string ChunkedHead(const std::string& line, const std::string& headers) {
    return line + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
           "Transfer-Encoding: chunked\r\n\r\n";
  }

  std::vector<std::unique_ptr<TestClient>> clients_;
};

TEST_F(HttpBodyTest, TrailersAuthenticateNobody) {
  const std::string body = R"({"prompt":"a","max_tokens":1})";
  const std::string rest = fmt::format("{:x}\r\n{}\r\n0\r\n{}\r\n", body.size(), body, Bearer(kA));
  EXPECT_EQ(Sent(ChunkedHead("POST /v1/completions", "") + rest)->Read().status, 401);
  EXPECT_EQ(
      Sent(ChunkedHead("POST /v1/completions", Bearer("key-of-nobody")) + rest)->Read().status,
      401);
  EXPECT_EQ(
      Sent(ChunkedHead("POST /admin/drain", "") + "0\r\n" + Bearer("key-of-the-admin") + "\r\n")
          ->Read()
          .status,
      401);
  EXPECT_EQ(TestClient(port()).Get("/readyz").status, 200);
  EXPECT_TRUE(backend_.submitted().empty());
  // They are read: the next request begins behind them.
  TestClient* const client = Sent(ChunkedHead("POST /v1/completions", Bearer(kA)) + rest +
                                  "GET /livez HTTP/1.1\r\n" + "Host: localhost\r\n\r\n");
  EXPECT_EQ(client->Read().status, 200);
  EXPECT_EQ(client->Read().status, 200);
}

// Strangers, and requests that need no body, take nothing of what bodies may take.
TEST_F(HttpBodyTest, WhoNeedsNoBodyReservesNothing) {
  for (int i = 0; i < 40; ++i) {
    Sent(ChunkedHead("GET /livez", ""));
    Sent(ChunkedHead("GET /v1/models", Bearer(kA)));
    Sent("GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n" +
         std::string(50'000, 'x'));
  }
  EXPECT_EQ(Complete(kB, 40'000), 200);
  const std::string small = R"({"prompt":"Hi"})";
  EXPECT_EQ(Sent(ChunkedHead("POST /v1/completions", Bearer(kB)) +
                 fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", small.size(), small))
                ->Read()
                .status,
            200);
  // Their bodies are read all the same.
  TestClient* const client =
      Sent("GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" +
           std::string(100'000, 'x') + "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client->Read().status, 200);
  EXPECT_EQ(client->Read().status, 200);
}

TEST_F(HttpBodyTest, WhatIsAnnouncedCostsNothing) {
  for (int i = 0; i < 100; ++i) {
    Sent(ChunkedHead("POST /v1/completions", Bearer(kA)));
    Sent(fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: 8000000\r\n\r\n{{",
        Bearer(kA)));
  }
  EXPECT_EQ(Complete(kA, 40'000), 200);
  EXPECT_EQ(Complete(kB, 40'000), 200);
}

TEST_F(HttpBodyTest, OneTenantsBodiesLeaveRoomForAnothers) {
  server_->Stop();
  ServerLimits limits;
  limits.max_bodies_bytes = 2'000'000;
  Start(limits);
  const std::string body(100'000, ' ');
  // One byte short of its end: about ten of them are the half that one tenant gets.
  const std::string bytes = PostBytes("/v1/completions", body, Bearer(kA));
  for (int i = 0; i < 20; ++i) Sent(bytes.substr(0, bytes.size() - 1));
  EXPECT_TRUE(Eventually([&] { return Complete(kA, 100'000) == 503; }));
  EXPECT_EQ(Complete(kA, 1000), 200) << "small bodies are not counted";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Complete(kB, 100'000), 200);
  // A client that leaves gives its bytes back.
  clients_.clear();
  EXPECT_TRUE(Eventually([&] { return Complete(kA, 100'000) == 200; }));
}

// Each line in a packet of its own, so that the parser always waits for the next.
TEST_F(HttpBodyTest, AHeadThatComesLineByLineIsBoundedToo) {
  TestClient client(port());
  client.Send("GET /livez HTTP/1.1\r\nHost: localhost\r\n");
  bool open = true;
  const std::string line = "X-Name: " + std::string(500, 'v') + "\r\n";
  for (int i = 0; open && i < 20'000; ++i) {
    open = client.Send(line);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_FALSE(open) << "10 MB of headers were taken";
}

}  // namespace
}  // namespace ropeway::server
