#include "server/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "server/test_client.h"
#include "server/test_fake_backend.h"

namespace ropeway {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::HasSubstr;

class HttpServerTest : public testing::Test {
 protected:
  void StartServer(ServerLimits limits = {}, int io_threads = 1) {
    ServerOptions options;
    options.limits = limits;
    options.io_threads = io_threads;
    server_ = std::make_unique<HttpServer>(options, &backend_);
    Status status = server_->Start();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void SetUp() override { StartServer(); }

  // After every test, whatever it did: nothing is left in the backend.
  void TearDown() override {
    server_->Stop();
    EXPECT_TRUE(backend_.WaitIdle());
  }

  uint16_t port() const { return server_->port(); }

  FakeBackend backend_;
  std::unique_ptr<HttpServer> server_;
};

FakeScript Endless(const Request&) {
  FakeScript script;
  script.endless = true;
  return script;
}

json ErrorOf(const ClientReply& reply) {
  json body = json::parse(reply.body, nullptr, false);
  EXPECT_TRUE(body.is_object() && body.contains("error")) << reply.body;
  for (const char* key : {"message", "type", "param", "code"}) {
    EXPECT_TRUE(body["error"].contains(key)) << reply.body;
  }
  return body["error"];
}

TEST_F(HttpServerTest, CompletionIsSentWhole) {
  TestClient client(port());
  ClientReply reply =
      client.Post("/v1/completions", R"({"prompt":"hi","max_tokens":3,"model":"default"})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers["content-type"], "application/json");
  json body = json::parse(reply.body);
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "fake-model");
  EXPECT_EQ(body["choices"][0]["text"], "w0 w1 w2 ");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][0]["logprobs"], nullptr);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["usage"]["total_tokens"], 6);
}

TEST_F(HttpServerTest, ChatIsSentWhole) {
  TestClient client(port());
  ClientReply reply = client.Post(
      "/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  json body = json::parse(reply.body);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "w0 w1 ");
}

TEST_F(HttpServerTest, IdsDiffer) {
  TestClient client(port());
  json first = json::parse(client.Post("/v1/completions", R"({"prompt":"a"})").body);
  json second = json::parse(client.Post("/v1/completions", R"({"prompt":"a"})").body);
  EXPECT_NE(first["id"], second["id"]);
}

TEST_F(HttpServerTest, ModelsHealthAndMetrics) {
  TestClient client(port());
  json models = json::parse(client.Get("/v1/models").body);
  ASSERT_EQ(models["data"].size(), 1U);
  EXPECT_EQ(models["data"][0]["id"], "fake-model");
  EXPECT_EQ(client.Get("/v1/models/fake-model").status, 200);
  EXPECT_EQ(client.Get("/v1/models/other").status, 404);
  for (const char* path : {"/livez", "/readyz", "/health"}) {
    EXPECT_EQ(client.Get(path).status, 200) << path;
  }
  client.Get("/nowhere");
  ClientReply metrics = client.Get("/metrics");
  EXPECT_THAT(metrics.headers["content-type"], HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics.body, HasSubstr("fake_metric 1"));
  EXPECT_THAT(metrics.body,
              HasSubstr(R"(ropeway_http_requests_total{code="200",route="/livez"} 1)"));
  EXPECT_THAT(metrics.body,
              HasSubstr(R"(ropeway_http_requests_total{code="404",route="other"} 1)"));
  EXPECT_THAT(metrics.body, HasSubstr("ropeway_http_connections 1"));
}

TEST_F(HttpServerTest, HealthSaysWhyNot) {
  TestClient client(port());
  backend_.set_health({.live = true, .ready = false, .reason = "The queue is full."});
  EXPECT_EQ(client.Get("/livez").status, 200);
  ClientReply ready = client.Get("/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(json::parse(ready.body)["reason"], "The queue is full.");
  EXPECT_EQ(client.Get("/health").status, 503);
  backend_.set_health({.live = false, .ready = true, .reason = "No step for 10 s."});
  EXPECT_EQ(client.Get("/livez").status, 503);
  EXPECT_EQ(client.Get("/readyz").status, 200);
  EXPECT_EQ(client.Get("/health").status, 503);
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  TestClient client(port());
  ASSERT_TRUE(client.Send("HEAD /livez HTTP/1.1\r\nHost: t\r\n\r\n"));
  ClientReply head = client.ReadHead();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(client.Get("/livez").status, 200);  // Nothing of a body lay between.
}

TEST_F(HttpServerTest, RefusalsKeepTheConnection) {
  TestClient client(port());
  EXPECT_EQ(client.Get("/v2").status, 404);
  ClientReply wrong = client.Get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers["allow"], "POST");
  wrong = client.Post("/metrics", "{}");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers["allow"], "GET, HEAD");
  json error = ErrorOf(client.Post("/v1/completions", "{"));
  EXPECT_EQ(error["type"], "invalid_request_error");
  error = ErrorOf(client.Post("/v1/completions", R"({"prompt":"a","temperature":-1})"));
  EXPECT_EQ(error["param"], "temperature");
  ClientReply model = client.Post("/v1/completions", R"({"prompt":"a","model":"gpt-9"})");
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(ErrorOf(model)["code"], "model_not_found");
  EXPECT_EQ(client.Get("/livez").status, 200);
  EXPECT_TRUE(backend_.submitted().empty());
}

TEST_F(HttpServerTest, BackendRefusalsBecomeStatusCodes) {
  TestClient client(port());
  const std::string body = R"({"prompt":"a"})";
  backend_.set_refusal({StatusCode::kResourceExhausted, "The queue is full."});
  ClientReply full = client.Post("/v1/completions", body);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.headers["retry-after"], "7");
  EXPECT_EQ(ErrorOf(full)["message"], "The queue is full.");
  backend_.set_refusal({StatusCode::kUnavailable, "Stopping."});
  EXPECT_EQ(client.Post("/v1/completions", body).status, 503);
  backend_.set_refusal({StatusCode::kInvalidArgument, "Too long.", "prompt"});
  ClientReply bad = client.Post("/v1/completions", body);
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(ErrorOf(bad)["param"], "prompt");
  backend_.set_refusal({StatusCode::kNotFound, "No such model."});
  EXPECT_EQ(client.Post("/v1/completions", body).status, 404);
}

TEST_F(HttpServerTest, LateRefusalIsAStatusCodeAlsoForStreams) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_unadmitted = true;
    script.failure = InvalidArgument("The prompt has 9999 tokens.", "prompt");
    return script;
  });
  TestClient client(port());
  for (const char* body : {R"({"prompt":"a"})", R"({"prompt":"a","stream":true})"}) {
    ClientReply reply = client.Post("/v1/completions", body);
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(ErrorOf(reply)["message"], "The prompt has 9999 tokens.");
  }
}

TEST_F(HttpServerTest, LateFailureIs500WhenSentWhole) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 2;
    script.failure = Status(StatusCode::kInternal, "A kernel failed.");
    return script;
  });
  TestClient client(port());
  ClientReply reply = client.Post("/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(ErrorOf(reply)["type"], "server_error");
}

TEST_F(HttpServerTest, LargeBodyIs413AndTheAnswerArrives) {
  TestClient client(port());
  // Sent whole although it is refused after its headers: the refusal must still be readable.
  std::string body(size_t{9} << 20, ' ');
  std::thread sender([&] { client.Send(PostBytes("/v1/completions", body)); });
  ClientReply reply = client.Read();
  sender.join();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.headers["connection"], "close");
}

TEST_F(HttpServerTest, LargeChunkedBodyIs413) {
  server_->Stop();
  ServerLimits limits;
  limits.max_body_bytes = 1000;
  StartServer(limits);
  TestClient client(port());
  std::string chunk = "400\r\n" + std::string(0x400, ' ') + "\r\n";
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.Send(chunk);
  EXPECT_EQ(client.Read().status, 413);
}

TEST_F(HttpServerTest, BodyNearTheLimitIsTaken) {
  TestClient client(port());
  std::string text(size_t{7} << 20, 'x');
  ClientReply reply =
      client.Post("/v1/completions", R"({"max_tokens":1,"prompt":")" + text + "\"}");
  EXPECT_EQ(reply.status, 200);
  ASSERT_EQ(backend_.submitted().size(), 1U);
  EXPECT_EQ(std::get<std::string>(backend_.submitted()[0].prompt).size(), text.size());
}

TEST_F(HttpServerTest, ChunkedBodyIsTaken) {
  TestClient client(port());
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
      "6\r\n{\"prom\r\nb\r\npt\":\"hello\"\r\n1\r\n}\r\n0\r\n\r\n");
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(std::get<std::string>(backend_.submitted().at(0).prompt), "hello");
}

// The server is full while the first body is on its way, and not for longer: neither after it was
// answered nor after its client left.
TEST_F(HttpServerTest, BodiesTogetherAreBounded) {
  server_->Stop();
  ServerLimits limits;
  limits.max_bodies_bytes = 5000;
  StartServer(limits);
  const std::string body = R"({"prompt":")" + std::string(3000, 'x') + "\"}";
  const std::string bytes = PostBytes("/v1/completions", body);
  auto status_becomes = [&](int wanted) {
    for (int i = 0; i < 500; ++i) {
      if (TestClient(port()).Post("/v1/completions", body).status == wanted) return true;
    }
    return false;
  };
  auto half = std::make_unique<TestClient>(port());
  half->Send(bytes.substr(0, bytes.size() - 10));
  EXPECT_TRUE(status_becomes(503));
  half->Send(bytes.substr(bytes.size() - 10));
  EXPECT_EQ(half->Read().status, 200);
  EXPECT_TRUE(status_becomes(200));
  half = std::make_unique<TestClient>(port());
  half->Send(bytes.substr(0, bytes.size() - 10));
  EXPECT_TRUE(status_becomes(503));
  half.reset();
  EXPECT_TRUE(status_becomes(200));
}

TEST_F(HttpServerTest, ExpectContinueIsAnswered) {
  TestClient client(port());
  const std::string body = R"({"prompt":"a"})";
  std::string bytes = PostBytes("/v1/completions", body, "Expect: 100-continue\r\n");
  client.Send(bytes.substr(0, bytes.size() - body.size()));
  EXPECT_EQ(client.ReadHead().status, 100);
  client.Send(body);
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpServerTest, UnknownExpectationsAndEncodingsAreRefused) {
  TestClient first(port());
  first.Send(PostBytes("/v1/completions", "{}", "Expect: magic\r\n"));
  EXPECT_EQ(first.Read().status, 417);
  TestClient second(port());
  second.Send(PostBytes("/v1/completions", "{}", "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(second.Read().status, 415);
}

TEST_F(HttpServerTest, LargeHeadersAre431) {
  TestClient client(port());
  client.Send("GET /livez HTTP/1.1\r\nHost: t\r\nX-Fill: " + std::string(40000, 'x') + "\r\n\r\n");
  EXPECT_EQ(client.Read().status, 431);
  TestClient endless(port());
  endless.Send("GET /" + std::string(60000, 'x'));
  EXPECT_EQ(endless.Read().status, 431);
}

TEST_F(HttpServerTest, GarbageIs400AndClosed) {
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8), std::string("hello\r\n\r\n"),
        std::string(3000, '\0'), std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string(
            "POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n")}) {
    TestClient client(port());
    client.Send(garbage);
    client.CloseSendingSide();
    ClientReply reply = client.Read();
    EXPECT_TRUE(reply.status == 400 || reply.status == 413 || reply.status == 0) << reply.status;
    EXPECT_TRUE(client.ReadToEnd().has_value());
  }
  EXPECT_EQ(TestClient(port()).Get("/livez").status, 200);
}

TEST_F(HttpServerTest, KeepAliveServesManyRequests) {
  TestClient client(port());
  for (int i = 0; i < 20; ++i) {
    ClientReply reply =
        client.Post("/v1/completions", R"({"prompt":"a","max_tokens":1,"stream":)" +
                                           std::string(i % 2 == 0 ? "true}" : "false}"));
    ASSERT_EQ(reply.status, 200) << i;
    EXPECT_EQ(reply.headers["connection"], "keep-alive");
  }
}

TEST_F(HttpServerTest, ConnectionCloseIsObeyed) {
  TestClient client(port());
  client.Send(PostBytes("/v1/completions", R"({"prompt":"a"})", "Connection: close\r\n"));
  ClientReply reply = client.Read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers["connection"], "close");
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
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

TEST_F(HttpServerTest, TooMuchPipeliningIsCutOff) {
  backend_.set_script(Endless);
  TestClient client(port());
  client.Send(PostBytes("/v1/completions", R"({"prompt":"a"})"));
  ASSERT_TRUE(backend_.WaitActive(1));
  client.Send(std::string(200'000, 'x'));
  EXPECT_TRUE(backend_.WaitIdle());
}

TEST_F(HttpServerTest, SlowRequestsTimeOut) {
  server_->Stop();
  ServerLimits limits;
  limits.header_timeout = milliseconds(100);
  limits.body_timeout = milliseconds(100);
  limits.idle_timeout = milliseconds(100);
  StartServer(limits);
  TestClient headers(port());
  headers.Send("GET /livez HT");
  EXPECT_EQ(headers.Read().status, 408);
  TestClient body(port());
  body.Send("POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_EQ(body.Read().status, 408);
  TestClient idle(port());
  EXPECT_EQ(idle.ReadToEnd(), "");  // Closed without a word.
}

TEST_F(HttpServerTest, ConnectionsAreCapped) {
  server_->Stop();
  ServerLimits limits;
  limits.max_connections = 2;
  StartServer(limits);
  TestClient a(port());
  auto b = std::make_unique<TestClient>(port());
  EXPECT_EQ(a.Get("/livez").status, 200);
  EXPECT_EQ(b->Get("/livez").status, 200);
  TestClient c(port());
  EXPECT_EQ(c.Get("/livez").status, 503);
  b.reset();
  bool served = false;  // The place is free as soon as the server saw the end.
  for (int i = 0; i < 500 && !served; ++i) {
    served = TestClient(port()).Get("/livez").status == 200;
    if (!served) std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(served);
}

TEST_F(HttpServerTest, SixteenClientsAtOnce) {
  server_->Stop();
  StartServer({}, 2);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int c = 0; c < 16; ++c) {
    threads.emplace_back([this, c, &good] {
      TestClient client(port());
      for (int i = 0; i < 5; ++i) {
        const bool stream = (c + i) % 2 == 0;
        const int tokens = 1 + (c * 7 + i) % 40;
        ClientReply reply =
            client.Post("/v1/completions",
                        json{{"prompt", "p"}, {"max_tokens", tokens}, {"stream", stream}}.dump());
        std::string text;
        if (stream) {
          for (const std::string& event : Events(reply.body)) {
            if (event != "[DONE]")
              text += json::parse(event)["choices"][0]["text"].get<std::string>();
          }
        } else if (reply.status == 200) {
          text = json::parse(reply.body)["choices"][0]["text"];
        }
        std::string expected;
        for (int t = 0; t < tokens; ++t) expected += fmt::format("w{} ", t);
        if (text == expected) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 16 * 5);
}

TEST_F(HttpServerTest, TakenPortAndBadHostAreNamed) {
  ServerOptions options;
  options.port = port();
  HttpServer second(options, &backend_);
  Status taken = second.Start();
  EXPECT_EQ(taken.code(), StatusCode::kUnavailable);
  EXPECT_EQ(taken.field(), "port");
  EXPECT_THAT(taken.message(), HasSubstr(std::to_string(port())));
  options.port = 0;
  options.host = "no such host";
  HttpServer third(options, &backend_);
  Status bad = third.Start();
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(bad.field(), "host");
}

TEST_F(HttpServerTest, StopAcceptingRefusesNewAndFinishesOld) {
  TestClient old(port());
  TestClient other(port());
  backend_.set_step_pause(std::chrono::milliseconds(5));
  old.Send(PostBytes("/v1/completions", R"({"prompt":"a","max_tokens":20,"stream":true})"));
  ASSERT_EQ(old.ReadHead().status, 200);
  server_->StopAccepting();
  ClientReply refused = other.Post("/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers["connection"], "close");
  TestClient health(port());
  EXPECT_EQ(health.Get("/readyz").status, 503);
  EXPECT_EQ(TestClient(port()).Get("/livez").status, 200);
  server_->Stop(std::chrono::seconds(10));
  EXPECT_THAT(old.ReadToEnd().value_or("?"), HasSubstr("[DONE]"));
}

TEST_F(HttpServerTest, StopCancelsWhatRuns) {
  backend_.set_script(Endless);
  TestClient stream(port());
  TestClient whole(port());
  TestClient idle(port());
  stream.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
  whole.Send(PostBytes("/v1/completions", R"({"prompt":"a"})"));
  ASSERT_TRUE(backend_.WaitActive(2));
  server_->Stop();
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_EQ(backend_.cancels(), 2);
  EXPECT_EQ(idle.ReadToEnd(), "");
}

}  // namespace
}  // namespace ropeway
