// Bounds on the size and time of one connection's requests, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

using HttpConnectionTest = ServerTest;

TEST_F(HttpConnectionTest, LargeBodyIs413AndTheAnswerArrives) {
  TestClient client(port());
  // Sent whole although it is rejected after its headers: the rejection must still be readable.
  std::string body(size_t{9} << 20, ' ');
  std::thread sender([&] { client.Send(PostBytes("/v1/completions", body)); });
  ClientReply reply = client.Read();
  sender.join();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.headers["connection"], "close");
}

TEST_F(HttpConnectionTest, LargeChunkedBodyIs413) {
  server_->Stop();
  ServerLimits limits;
  limits.max_body_bytes = 1000;
  StartServer(limits);
  TestClient client(port());
  std::string chunk = "400\r\n" + std::string(0x400, ' ') + "\r\n";
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.Send(chunk);
  EXPECT_EQ(client.Read().status, 413);
}

TEST_F(HttpConnectionTest, BodyNearTheLimitIsTaken) {
  TestClient client(port());
  std::string text(size_t{7} << 20, 'x');
  ClientReply reply =
      client.Post("/v1/completions", R"({"max_tokens":1,"prompt":")" + text + "\"}");
  EXPECT_EQ(reply.status, 200);
  ASSERT_EQ(backend_.submitted().size(), 1U);
  EXPECT_EQ(std::get<std::string>(backend_.submitted()[0].prompt).size(), text.size());
}

TEST_F(HttpConnectionTest, ChunkedBodyIsTaken) {
  TestClient client(port());
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "6\r\n{\"prom\r\nb\r\npt\":\"hello\"\r\n1\r\n}\r\n0\r\n\r\n");
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(std::get<std::string>(backend_.submitted().at(0).prompt), "hello");
}

// The server is full exactly while the first body is on its way: not after its answer, and not
// after its client left.
TEST_F(HttpConnectionTest, BodiesTogetherAreBounded) {
  server_->Stop();
  const std::string body = R"({"prompt":")" + std::string(3000, 'x') + "\"}";
  ServerLimits limits;
  limits.max_bodies_bytes = body.size() + 5;
  limits.max_inline_body_bytes = 1000;
  StartServer(limits);
  const std::string bytes = PostBytes("/v1/completions", body);
  auto status_becomes = [&](int wanted) {
    return Eventually(
        [&] { return TestClient(port()).Post("/v1/completions", body).status == wanted; });
  };
  auto half = std::make_unique<TestClient>(port());
  half->Send(bytes.substr(0, bytes.size() - 10));
  EXPECT_TRUE(status_becomes(503));
  EXPECT_EQ(TestClient(port()).Post("/v1/completions", R"({"prompt":"small"})").status, 200);
  half->Send(bytes.substr(bytes.size() - 10));
  EXPECT_EQ(half->Read().status, 200);
  EXPECT_TRUE(status_becomes(200));
  half = std::make_unique<TestClient>(port());
  half->Send(bytes.substr(0, bytes.size() - 10));
  EXPECT_TRUE(status_becomes(503));
  half.reset();
  EXPECT_TRUE(status_becomes(200));
}

TEST_F(HttpConnectionTest, ExpectContinueIsAnswered) {
  TestClient client(port());
  const std::string body = R"({"prompt":"a"})";
  std::string bytes = PostBytes("/v1/completions", body, "Expect: 100-continue\r\n");
  client.Send(bytes.substr(0, bytes.size() - body.size()));
  EXPECT_EQ(client.ReadHead().status, 100);
  client.Send(body);
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpConnectionTest, UnknownExpectationsAndEncodingsAreRejected) {
  TestClient first(port());
  first.Send(PostBytes("/v1/completions", "{}", "Expect: magic\r\n"));
  EXPECT_EQ(first.Read().status, 417);
  TestClient second(port());
  second.Send(PostBytes("/v1/completions", "{}", "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(second.Read().status, 415);
}

// Elements that the parser cannot take piece by piece are rejected at once, as reading would pause
// and miss even the client's end.
TEST_F(HttpConnectionTest, EndlessChunkHeadersAndTrailersAreRejected) {
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string trailers = "0\r\n";
  for (int i = 0; i < 20'000; ++i) trailers += "Name: value\r\n";
  for (const std::string& endless : {"1;" + std::string(200'000, 'a'), trailers}) {
    TestClient client(port());
    client.Send(head + endless);
    EXPECT_EQ(client.Read().status, 400);
  }
}

TEST_F(HttpConnectionTest, TransferEncodingsOtherThanChunkedAreRejected) {
  for (const char* encoding : {"gzip", "gzip, chunked", "identity"}) {
    TestClient client(port());
    client.Send(PostBytes("/v1/completions", R"({"prompt":"a"})",
                          std::string("Transfer-Encoding: ") + encoding + "\r\n"));
    ClientReply reply = client.Read();
    EXPECT_EQ(reply.status, 400) << encoding;
    EXPECT_EQ(reply.headers["connection"], "close") << encoding;
  }
  TestClient without_length(port());
  without_length.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n");
  EXPECT_EQ(without_length.Read().headers["connection"], "close");
}

TEST_F(HttpConnectionTest, LargeHeadersAre431) {
  TestClient client(port());
  client.Send("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Fill: " + std::string(40000, 'x') +
              "\r\n\r\n");
  EXPECT_EQ(client.Read().status, 431);
  TestClient endless(port());
  endless.Send("GET /" + std::string(60000, 'x'));
  EXPECT_EQ(endless.Read().status, 431);
}

TEST_F(HttpConnectionTest, GarbageIs400AndClosed) {
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8), std::string("hello\r\n\r\n"),
        std::string(3000, '\0'), std::string("GET / HTTP/9\r\n\r\n"),
        std::string(
            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"),
        std::string("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                    "99999999999999999999\r\n\r\n")}) {
    TestClient client(port());
    client.Send(garbage);
    client.CloseSendingSide();
    ClientReply reply = client.Read();
    EXPECT_TRUE(reply.status == 400 || reply.status == 413 || reply.status == 0) << reply.status;
    EXPECT_TRUE(client.ReadToEnd().has_value());
  }
  EXPECT_EQ(TestClient(port()).Get("/livez").status, 200);
}

TEST_F(HttpConnectionTest, KeepAliveServesManyRequests) {
  TestClient client(port());
  for (int i = 0; i < 20; ++i) {
    ClientReply reply =
        client.Post("/v1/completions", R"({"prompt":"a","max_tokens":1,"stream":)" +
                                           std::string(i % 2 == 0 ? "true}" : "false}"));
    ASSERT_EQ(reply.status, 200) << i;
    EXPECT_EQ(reply.headers["connection"], "keep-alive");
  }
}

TEST_F(HttpConnectionTest, ConnectionCloseIsObeyed) {
  TestClient client(port());
  client.Send(PostBytes("/v1/completions", R"({"prompt":"a"})", "Connection: close\r\n"));
  ClientReply reply = client.Read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers["connection"], "close");
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpConnectionTest, PipelinedRequestsAreAnsweredInOrder) {
  TestClient client(port());
  std::string all;
  for (int i = 1; i <= 5; ++i) {
    all += PostBytes("/v1/completions", R"({"prompt":"a","max_tokens":)" + std::to_string(i) + "}");
  }
  client.Send(all);
  for (int i = 1; i <= 5; ++i) {
    ClientReply reply = client.Read();
    ASSERT_EQ(reply.status, 200);
    EXPECT_EQ(json::parse(reply.body)["usage"]["completion_tokens"], i);
  }
}

TEST_F(HttpConnectionTest, TooMuchPipeliningIsCutOff) {
  backend_.set_script(EndlessScript);
  TestClient client(port());
  client.Send(PostBytes("/v1/completions", R"({"prompt":"a"})"));
  ASSERT_TRUE(backend_.WaitActive(1));
  client.Send(std::string(200'000, 'x'));
  EXPECT_TRUE(backend_.WaitIdle());
}

// One limit at a time: a busy machine may be slower than any of them.
TEST_F(HttpConnectionTest, SlowRequestsTimeOut) {
  const auto start = [&](milliseconds ServerLimits::*limit) {
    server_->Stop();
    ServerLimits limits;
    limits.*limit = milliseconds(100);
    StartServer(limits);
  };
  start(&ServerLimits::header_timeout);
  TestClient headers(port());
  headers.Send("GET /livez HT");
  EXPECT_EQ(headers.Read().status, 408);
  start(&ServerLimits::body_timeout);
  TestClient body(port());
  body.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_EQ(body.Read().status, 408);
  start(&ServerLimits::idle_timeout);
  TestClient idle(port());
  EXPECT_EQ(idle.ReadToEnd(), "");  // Closed without an answer.
}

// The timeouts hold even if there is always something to read.
TEST_F(HttpConnectionTest, ClientsThatNeverStopSendingAreCutOff) {
  server_->Stop();
  ServerLimits limits;
  limits.body_timeout = milliseconds(100);
  limits.max_body_bytes = size_t{1} << 40;
  limits.max_bodies_bytes = size_t{1} << 41;
  StartServer(limits);
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  // Rejected at once, and by the time for the body.
  for (const std::string& part :
       {std::string(1000, 'x'), "1;" + std::string(1000, 'x') + "\r\n \r\n"}) {
    TestClient client(port());
    client.Send(head);
    const auto most = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    bool open = true;
    while (open && std::chrono::steady_clock::now() < most) open = client.Send(part);
    EXPECT_FALSE(open);
  }
}

// For the thread sanitizer: the accepting thread hands each connection to another thread.
TEST_F(HttpConnectionTest, ManyComeAndGoOnSeveralThreads) {
  server_->Stop();
  StartServer({}, 4);
  for (int i = 0; i < 300; ++i) TestClient(port()).Close(i % 2 == 0);
  EXPECT_EQ(TestClient(port()).Get("/livez").status, 200);
}

}  // namespace
}  // namespace ropeway::server
