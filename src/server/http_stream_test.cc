// Streams, and clients that go away or read slowly, over real sockets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class HttpStreamTest : public ServerTest {
 protected:
  void SetUp() override { StartServer({}, 2); }

  // The events of one streamed request.
  std::vector<std::string> Stream(const std::string& path, const std::string& body) {
    TestClient client(server_->port());
    ClientReply reply = client.Post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_THAT(reply.headers["content-type"], HasSubstr("text/event-stream"));
    return api::Events(reply.body);
  }
};

TEST_F(HttpStreamTest, CompletionChunksInOrder) {
  std::vector<std::string> events =
      Stream("/v1/completions", R"({"prompt":"a","max_tokens":50,"stream":true})");
  ASSERT_EQ(events.size(), 52U);
  EXPECT_EQ(events.back(), "[DONE]");
  const json first = json::parse(events[0]);
  for (int i = 0; i < 50; ++i) {
    json chunk = json::parse(events[i]);
    EXPECT_EQ(chunk["object"], "text_completion");
    EXPECT_EQ(chunk["id"], first["id"]);
    EXPECT_EQ(chunk["choices"][0]["text"], fmt::format("w{} ", i));
    EXPECT_EQ(chunk["choices"][0]["finish_reason"], nullptr);
    EXPECT_FALSE(chunk.contains("usage"));
  }
  EXPECT_EQ(json::parse(events[50])["choices"][0]["finish_reason"], "length");
}

TEST_F(HttpStreamTest, ChatChunksWithUsage) {
  std::vector<std::string> events =
      Stream("/v1/chat/completions",
             R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true,
                 "stream_options":{"include_usage":true}})");
  ASSERT_EQ(events.size(), 6U);
  json role = json::parse(events[0]);
  EXPECT_EQ(role["object"], "chat.completion.chunk");
  EXPECT_EQ(role["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(role["usage"], nullptr);
  EXPECT_EQ(json::parse(events[1])["choices"][0]["delta"], (json{{"content", "w0 "}}));
  EXPECT_EQ(json::parse(events[2])["choices"][0]["delta"], (json{{"content", "w1 "}}));
  json last = json::parse(events[3]);
  EXPECT_EQ(last["choices"][0]["delta"], json::object());
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
  json usage = json::parse(events[4]);
  EXPECT_EQ(usage["choices"], json::array());
  EXPECT_EQ(usage["usage"]["total_tokens"], 5);
  EXPECT_EQ(events[5], "[DONE]");
}

TEST_F(HttpStreamTest, HeadersLeaveAtAdmission) {
  backend_.set_script(EndlessTexts(0));  // Admitted, without any text.
  TestClient client(server_->port());
  client.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
  EXPECT_EQ(client.ReadHead().status, 200);
}

TEST_F(HttpStreamTest, EmptyDeltasAreNotSent) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.text = [](int i) { return i % 2 == 0 ? std::string() : fmt::format("w{} ", i); };
    return script;
  });
  std::vector<std::string> events =
      Stream("/v1/completions", R"({"prompt":"a","max_tokens":6,"stream":true})");
  EXPECT_EQ(events.size(), 3U + 2U);
  // With log-probabilities each token counts, with text or without.
  events = Stream("/v1/completions", R"({"prompt":"a","max_tokens":6,"stream":true,"logprobs":1})");
  EXPECT_EQ(events.size(), 6U + 2U);
}

TEST_F(HttpStreamTest, FailureAfterTheHeadersIsAnEvent) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 2;
    script.failure = Status(StatusCode::kInternal, "A kernel failed.");
    return script;
  });
  ClientReply reply = StreamThatFails("/v1/completions", R"({"prompt":"a","stream":true})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_THAT(reply.headers["content-type"], HasSubstr("text/event-stream"));
  const std::vector<std::string> events = api::Events(reply.body);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(json::parse(events[2])["error"]["message"], "A kernel failed.");
}

TEST_F(HttpStreamTest, Http10StreamEndsWithTheConnection) {
  TestClient client(server_->port());
  const std::string body = R"({"prompt":"a","max_tokens":2,"stream":true})";
  client.Send(fmt::format("POST /v1/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}",
                          body.size(), body));
  ClientReply reply = client.Read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(api::Events(reply.body).size(), 4U);
}

TEST_F(HttpStreamTest, VanishingMidStreamIsACancel) {
  for (bool reset : {false, true}) {
    backend_.set_script(EndlessScript);
    TestClient client(server_->port());
    client.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
    ASSERT_EQ(client.ReadHead().status, 200);
    EXPECT_NE(client.ReadSome(), "");
    client.Close(reset);
    EXPECT_TRUE(backend_.WaitIdle());
  }
}

// Nothing is written to these clients, so only the outstanding read can see that they left.
TEST_F(HttpStreamTest, VanishingWhileWaitingIsACancel) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.admit = false;
    return script;
  });
  for (const char* body : {R"({"prompt":"a","stream":true})", R"({"prompt":"a"})"}) {
    for (bool reset : {false, true}) {
      const int before = backend_.cancelled();
      TestClient client(server_->port());
      client.Send(PostBytes("/v1/completions", body));
      ASSERT_TRUE(backend_.WaitActive(1));
      client.Close(reset);
      EXPECT_TRUE(backend_.WaitIdle());
      EXPECT_EQ(backend_.cancelled(), before + 1);
    }
  }
  // The backend is cancelled before the connection counts the request.
  const std::string counted =
      R"(ropeway_http_requests_total{code="499",route="/v1/completions"} 4)";
  TestClient other(server_->port());
  EXPECT_TRUE(
      Eventually([&] { return other.Get("/metrics").body.find(counted) != std::string::npos; }));
}

TEST_F(HttpStreamTest, VanishingDuringAWholeAnswerIsACancel) {
  backend_.set_script(EndlessScript);
  TestClient client(server_->port());
  client.Send(PostBytes("/v1/completions", R"({"prompt":"a"})"));
  ASSERT_TRUE(backend_.WaitDeltas(3));
  client.Close();
  EXPECT_TRUE(backend_.WaitIdle());
}

TEST_F(HttpStreamTest, SlowReaderIsCancelledWithinItsBounds) {
  server_->Stop();
  ServerLimits limits;
  limits.max_stream_bytes = 64 << 10;
  limits.send_buffer_bytes = 16 << 10;
  StartServer(limits);
  backend_.set_script(EndlessTexts(1024));
  TestClient slow(server_->port(), 8 << 10);
  slow.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
  ASSERT_TRUE(backend_.WaitDeltas(1));
  // A fast reader is not delayed.
  backend_.set_script([](const Request&) { return FakeScript(); });
  EXPECT_EQ(Stream("/v1/completions", R"({"prompt":"a","stream":true})").back(), "[DONE]");
  EXPECT_TRUE(backend_.WaitIdle());
  // The server's buffer and both kernels' buffers: far below an unbounded one.
  EXPECT_LT(backend_.deltas(), 1000);
  EXPECT_THAT(TestClient(server_->port()).Get("/metrics").body,
              HasSubstr("ropeway_http_slow_readers_total 1"));
}

TEST_F(HttpStreamTest, ClientThatTakesNothingIsClosedAfterTheWriteTimeout) {
  server_->Stop();
  ServerLimits limits;
  limits.max_stream_bytes = size_t{1} << 40;
  limits.max_stream_events = size_t{1} << 40;
  limits.send_buffer_bytes = 16 << 10;
  limits.write_timeout = std::chrono::milliseconds(200);
  StartServer(limits);
  backend_.set_script(EndlessTexts(1024));
  TestClient slow(server_->port(), 8 << 10);
  slow.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
  ASSERT_TRUE(backend_.WaitDeltas(1));
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_TRUE(Eventually([&] {
    return TestClient(port()).Get("/metrics").body.find("ropeway_http_slow_readers_total 1\n") !=
           std::string::npos;
  }));
}

TEST_F(HttpStreamTest, LogprobsInBothShapes) {
  TestClient client(server_->port());
  json whole = json::parse(
      client.Post("/v1/completions", R"({"prompt":"a","max_tokens":2,"logprobs":2})").body);
  json logprobs = whole["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], (json{"w0 ", "w1 "}));
  EXPECT_EQ(logprobs["token_logprobs"], (json{-0.5, -0.5}));
  EXPECT_EQ(logprobs["top_logprobs"][1], (json{{"w1 ", -0.5}, {"t1", -1.5}}));
  json chat = json::parse(client
                              .Post("/v1/chat/completions",
                                    R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1,
                                        "logprobs":true,"top_logprobs":2})")
                              .body);
  json token = chat["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["token"], "w0 ");
  EXPECT_EQ(token["bytes"], (json{'w', '0', ' '}));
  EXPECT_EQ(token["top_logprobs"].size(), 2U);
}

TEST_F(HttpStreamTest, ManyClientsComeAndGo) {
  backend_.set_script(EndlessScript);
  std::vector<std::thread> threads;
  for (int c = 0; c < 8; ++c) {
    threads.emplace_back([this, c] {
      for (int i = 0; i < 10; ++i) {
        TestClient client(server_->port());
        client.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
        if ((c + i) % 3 > 0) client.ReadSome();
        client.Close((c + i) % 2 == 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(backend_.WaitIdle());
}

}  // namespace
}  // namespace ropeway::server
