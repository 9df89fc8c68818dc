#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/api_server.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using HttpServerTest = ServerTest;

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
  EXPECT_EQ(client.Get("/v1/models/fake%2Dmode%6c").status, 200);
  EXPECT_EQ(client.Get("/v1/models/other").status, 404);
  for (const char* odd : {"fake-model%", "fake-model%2", "fake%-2dmodel", "%00", "%ff"}) {
    EXPECT_EQ(client.Get(std::string("/v1/models/") + odd).status, 404) << odd;
  }
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

TEST_F(HttpServerTest, EachOfSeveralModelsIsListedAndAnswersUnderItsName) {
  std::vector<service::ModelInfo> models(12);
  for (size_t i = 0; i < models.size(); ++i) models[i].id = fmt::format("m{}", i);
  models[1].max_model_len = 64;
  backend_.set_models(models);
  StartServer();
  TestClient client(port());
  const json listed = json::parse(client.Get("/v1/models").body)["data"];
  ASSERT_EQ(listed.size(), models.size());
  EXPECT_EQ(listed[1]["id"], "m1");
  EXPECT_EQ(listed[1]["max_model_len"], 64);
  EXPECT_FALSE(listed[2].contains("max_model_len")) << "it is not known";
  EXPECT_EQ(client.Get("/v1/models/m11").status, 200);
  const json first = json::parse(client.Post("/v1/completions", R"({"prompt":"a"})").body);
  EXPECT_EQ(first["model"], "m0");
  const json last =
      json::parse(client.Post("/v1/completions", R"({"prompt":"a","model":"m11"})").body);
  EXPECT_EQ(last["model"], "m11");
  EXPECT_EQ(backend_.submitted().back().model, "m11");
  const ClientReply unknown = client.Post("/v1/completions", R"({"prompt":"a","model":"m12"})");
  EXPECT_EQ(unknown.status, 404);
  const std::string message = ErrorOf(unknown)["message"].get<std::string>();
  EXPECT_THAT(message, HasSubstr("has 'm0', 'm1', "));
  EXPECT_THAT(message, HasSubstr("'m7' and 4 more."));
  // A gateway's backends have not said all names yet.
  backend_.set_unlisted("m12");
  const json soon =
      json::parse(client.Post("/v1/completions", R"({"prompt":"a","model":"m12"})").body);
  EXPECT_EQ(soon["model"], "m12");
  EXPECT_EQ(backend_.submitted().back().model, "m12");
  EXPECT_EQ(client.Post("/v1/completions", R"({"prompt":"a","model":"m13"})").status, 404);
  EXPECT_EQ(client.Get("/v1/models/m12").status, 404) << "nobody has said that it is there";
}

TEST_F(HttpServerTest, EveryAnswerHasAnIdTheClientsIfItIsPlain) {
  const std::string body = R"({"prompt":"a","max_tokens":1)";
  const auto send = [this](const std::string& bytes) {
    TestClient client(port());
    client.Send(bytes);
    return client.Read();
  };
  std::set<std::string> made;
  const std::string own = "X-Request-Id: my_request-1.a\r\n";
  for (const std::string& header : {own, std::string()}) {
    for (const std::string& bytes :
         {PostBytes("/v1/completions", body + "}", header),
          PostBytes("/v1/completions", body + R"(,"stream":true})", header),
          PostBytes("/v1/completions", body + R"(,"n":"x"})", header),
          "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n",
          "OPTIONS /livez HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n",
          "GET /health HTTP/1.0\r\n" + header + "\r\n"}) {
      ClientReply reply = send(bytes);
      const std::string id = reply.headers["x-request-id"];
      EXPECT_EQ(id == "my_request-1.a", !header.empty()) << bytes;
      if (header.empty()) made.insert(id);
      if (header.empty() && bytes.starts_with("POST") && reply.status == 200) {
        EXPECT_THAT(reply.body, HasSubstr("\"id\":\"cmpl-" + id + '"'));
      }
    }
  }
  made.insert(send("no request\r\n\r\n").headers["x-request-id"]);
  EXPECT_EQ(made.size(), 7U);
  for (const std::string& id : {std::string("a b"), std::string("a\"b"), std::string("\xc3\xa4"),
                                std::string(129, 'x'), std::string("a\r\nX-Request-Id: b")}) {
    ClientReply reply =
        send("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + id + "\r\n\r\n");
    EXPECT_EQ(reply.status, 200);
    EXPECT_THAT(reply.headers["x-request-id"], testing::MatchesRegex("[0-9a-f]{24}")) << id;
  }
}

TEST_F(HttpServerTest, HealthShowsBatching) {
  EngineStats stats;
  stats.enabled = true;
  stats.strategy = "dynamic";
  stats.max_batch_size = 8;
  stats.max_batch_wait_ms = 50;
  stats.total_batches = 4;
  stats.total_requests = 10;
  stats.avg_batch_size = 2.5;
  stats.avg_batch_duration_ms = 125.5;
  stats.queue_depth = 3;
  stats.total_steps = 40;
  stats.total_rows = 90;
  stats.avg_step_size = 2;
  stats.avg_step_rows = 2.25;
  stats.avg_step_duration_ms = 12.5;
  backend_.set_stats(stats);
  StartServer();
  TestClient client(port());
  const json expected = json::parse(
      R"({"status":"ok","batching":{"enabled":true,"strategy":"dynamic","total_batches":4,
          "total_requests":10,"avg_batch_size":2.5,"avg_batch_duration_ms":125.5,"queue_depth":3,
          "max_batch_size":8,"max_batch_wait_ms":50,"total_steps":40,"total_rows":90,
          "avg_step_size":2,"avg_step_rows":2.25,"avg_step_duration_ms":12.5}})");
  EXPECT_EQ(json::parse(client.Get("/health").body), expected);
  EXPECT_EQ(json::parse(client.Get("/v1/health").body), expected);
  for (const char* path : {"/livez", "/readyz"}) {
    EXPECT_EQ(client.Get(path).body, R"({"status":"ok"})") << path;
  }
  server_->StopAccepting();  // They are shown even when it is not healthy.
  const json stopping = json::parse(TestClient(port()).Get("/health").body);
  EXPECT_EQ(stopping["status"], "stopping");
  EXPECT_EQ(stopping["batching"], expected["batching"]);
}

TEST_F(HttpServerTest, HealthShowsTheBackendsOfAGateway) {
  std::vector<BackendStatus> backends(2);
  backends[0] = {.model = "m",
                 .name = "one",
                 .state = "up",
                 .reason = "",
                 .in_flight = 3,
                 .concurrency = 8,
                 .learned = true,
                 .outstanding_tokens = 900,
                 .sent = 20,
                 .completed = 15,
                 .ejections = 1,
                 .unreachable = 2,
                 .busy = 3,
                 .broken = 4,
                 .rejected = 5,
                 .timeouts = 6,
                 .retries = 7,
                 .resumptions = 9,
                 .latency_p50_ms = 12.5,
                 .latency_p99_ms = 80};
  backends[1].name = "two";
  backends[1].state = "ejected";
  backends[1].reason = "no connection";
  backend_.set_backends(backends);
  StartServer();
  TestClient client(port());
  const json shown = json::parse(client.Get("/health").body)["backends"];
  const json first = json::parse(
      R"({"model":"m","name":"one","state":"up","reason":null,"in_flight":3,
          "outstanding_tokens":900,"concurrency":{"limit":8,"learned":true},
          "latency_ms":{"p50":12.5,"p99":80.0},"sent":20,"completed":15,"retries":7,
          "resumptions":9,"failures":{"unreachable":2,"busy":3,"broken":4,"rejected":5,
          "timeouts":6,"ejections":1}})");
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown[0], first);
  EXPECT_EQ(shown[1]["state"], "ejected");
  EXPECT_EQ(shown[1]["reason"], "no connection");
  EXPECT_EQ(shown[1]["latency_ms"]["p50"], nullptr) << "nothing was completed yet";
  EXPECT_EQ(client.Get("/readyz").body, R"({"status":"ok"})");
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
  ASSERT_TRUE(client.Send("HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  ClientReply head = client.ReadHead();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(client.Get("/livez").status, 200);  // No bytes of a body were in between.
}

// Metrics name it as the table does.
TEST_F(HttpServerTest, APathMayLackTheVersion) {
  TestClient client(port());
  EXPECT_EQ(json::parse(client.Post("/completions", R"({"prompt":"a"})").body)["object"],
            "text_completion");
  EXPECT_EQ(client.Get("/models/").status, 200);
  const std::string metrics = client.Get("/metrics").body;
  EXPECT_THAT(metrics,
              HasSubstr(R"(ropeway_http_requests_total{code="200",route="/v1/completions"} 1)"));
  EXPECT_THAT(metrics, HasSubstr(R"({code="200",route="/v1/models"} 1)"));
}

TEST_F(HttpServerTest, AnUnknownPathIsAnsweredWithTheOneThatIsNear) {
  TestClient client(port());
  const auto message = [&](const std::string& path) {
    const ClientReply reply = client.Post(path, "{}");
    EXPECT_EQ(reply.status, 404);
    return ErrorOf(reply)["message"].get<std::string>();
  };
  EXPECT_EQ(message("/v1/chat/completion"),
            "There is nothing at this path; did you mean /v1/chat/completions?");
  for (const char* path : {"/v1/edits", "/edits/"}) {
    const std::string said = message(path);
    EXPECT_THAT(said, testing::HasSubstr("not supported; use /v1/chat/completions.")) << path;
  }
  // What the client wrote is never shown.
  EXPECT_EQ(message("/<script>/nothing"), "There is nothing at this path.");
}

TEST_F(HttpServerTest, RejectionsKeepTheConnection) {
  TestClient client(port());
  EXPECT_EQ(client.Get("/v2").status, 404);
  ClientReply wrong = client.Get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers["allow"], "POST, OPTIONS");
  wrong = client.Post("/metrics", "{}");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers["allow"], "GET, HEAD, OPTIONS");
  json error = ErrorOf(client.Post("/v1/completions", "{"));
  EXPECT_EQ(error["type"], "invalid_request_error");
  error = ErrorOf(client.Post("/v1/completions", R"({"prompt":"a","temperature":-1})"));
  EXPECT_EQ(error["param"], "temperature");
  ClientReply model = client.Post("/v1/completions", R"({"prompt":"a","model":"gpt-9"})");
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(ErrorOf(model)["code"], "model_not_found");
  EXPECT_EQ(ErrorOf(model)["message"],
            "The model 'gpt-9' does not exist; this server has 'fake-model'.");
  EXPECT_EQ(client.Get("/livez").status, 200);
  EXPECT_TRUE(backend_.submitted().empty());
}

class ModelNamesHttpTest : public HttpServerTest {
 protected:
  static service::ModelInfo Named(const std::string& id, std::vector<std::string> aliases = {}) {
    service::ModelInfo model;
    model.id = id;
    model.aliases = std::move(aliases);
    return model;
  }
  json Got(const std::string& path) { return json::parse(TestClient(port()).Get(path).body); }
  ClientReply Ask(const std::string& model, const std::string& headers = "") {
    const json body = {{"prompt", "a"}, {"max_tokens", 1}, {"model", model}};
    TestClient client(port());
    client.Send(PostBytes("/v1/completions", body.dump(), headers));
    return client.Read();
  }
};

TEST_F(ModelNamesHttpTest, EachNameIsListedAndTheAnswerHasTheFirst) {
  backend_.set_models({Named("true-name", {"second", "org/third"})});
  std::vector<std::string> ids;
  const json listed = Got("/v1/models");
  for (const json& entry : listed["data"]) ids.push_back(entry["id"]);
  EXPECT_THAT(ids, testing::ElementsAre("true-name", "second", "org/third"));
  EXPECT_EQ(Got("/v1/models/second")["id"], "second");
  EXPECT_EQ(Got("/v1/models/org%2Fthird")["id"], "org/third");
  EXPECT_EQ(Got("/v1/models/default")["id"], "true-name");
  for (const char* name : {"true-name", "second", "org/third", "", "default"}) {
    EXPECT_EQ(json::parse(Ask(name).body)["model"], "true-name") << name;
    EXPECT_EQ(backend_.submitted().back().model, "true-name") << name;
  }
  const std::string stream =
      TestClient(port())
          .Post("/v1/completions", R"({"prompt":"a","model":"second","stream":true})")
          .body;
  EXPECT_THAT(stream, HasSubstr(R"("model":"true-name")"));
  EXPECT_THAT(stream, testing::Not(HasSubstr("second")));
  EXPECT_EQ(ErrorOf(Ask("gpt-9"))["message"],
            "The model 'gpt-9' does not exist; this server has 'true-name', 'second', "
            "'org/third'.");
}

TEST_F(ModelNamesHttpTest, A404ListsEightNames) {
  std::vector<std::string> aliases;
  for (int i = 1; i < 12; ++i) aliases.push_back("m" + std::to_string(i));
  backend_.set_models({Named("m0", aliases)});
  EXPECT_EQ(Got("/v1/models/gpt-9")["error"]["message"],
            "The model 'gpt-9' does not exist; this server has 'm0', 'm1', 'm2', 'm3', 'm4', 'm5', "
            "'m6', 'm7' and 4 more.");
}

TEST_F(ModelNamesHttpTest, AnyNameMayMeanTheOnlyModelButAGatewaysDoesNot) {
  backend_.set_models({Named("true-name")});
  ServerOptions options;
  options.any_model = true;
  options.other_names = {"short"};
  options.api_keys = {{.name = "user", .key = "key-of-a-user"},
                      {.name = "gateway", .key = "key-of-a-gateway", .gateway = true}};
  StartServer(options);
  const std::string user = Bearer("key-of-a-user");
  const std::string gateway = Bearer("key-of-a-gateway");
  const ClientReply answer = Ask("gpt-4o-mini", user);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body)["model"], "true-name");
  EXPECT_EQ(backend_.submitted().back().model, "true-name");
  EXPECT_EQ(Ask("gpt-4o-mini", gateway).status, 404);
  EXPECT_EQ(Ask("short", gateway).status, 200);
  backend_.set_models({Named("one"), Named("two")});
  EXPECT_EQ(Ask("gpt-4o-mini", user).status, 404) << "which of them?";
  EXPECT_EQ(Ask("short", user).status, 404);
}

TEST_F(HttpServerTest, BackendRejectionsBecomeStatusCodes) {
  TestClient client(port());
  const std::string body = R"({"prompt":"a"})";
  backend_.set_rejection({StatusCode::kResourceExhausted, "The queue is full."});
  ClientReply full = client.Post("/v1/completions", body);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.headers["retry-after"], "7");
  EXPECT_EQ(ErrorOf(full)["message"], "The queue is full.");
  backend_.set_rejection({StatusCode::kUnavailable, "Stopping."});
  EXPECT_EQ(client.Post("/v1/completions", body).status, 503);
  backend_.set_rejection({StatusCode::kInvalidArgument, "Too long.", "prompt"});
  ClientReply bad = client.Post("/v1/completions", body);
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(ErrorOf(bad)["param"], "prompt");
  backend_.set_rejection({StatusCode::kNotFound, "No such model."});
  EXPECT_EQ(client.Post("/v1/completions", body).status, 404);
}

TEST_F(HttpServerTest, LateRejectionIsAStatusCodeAlsoForStreams) {
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

// A request that fails between its admission and the headers can still get a status of its own.
TEST_F(HttpServerTest, FailureBeforeTheHeadersLeaveIsAStatusCode) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_in_submit = true;
    script.failure = Status(StatusCode::kInternal, "A kernel failed.");
    return script;
  });
  TestClient client(port());
  for (const char* body : {R"({"prompt":"a"})", R"({"prompt":"a","stream":true})"}) {
    ClientReply reply = client.Post("/v1/completions", body);
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(ErrorOf(reply)["message"], "A kernel failed.");
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
          for (const std::string& event : api::Events(reply.body)) {
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
  ApiServer second(options, &backend_);
  Status taken = second.Start();
  EXPECT_EQ(taken.code(), StatusCode::kUnavailable);
  EXPECT_EQ(taken.field(), "port");
  EXPECT_THAT(taken.message(), HasSubstr(std::to_string(port())));
  options.port = 0;
  options.host = "no such host";
  ApiServer third(options, &backend_);
  Status bad = third.Start();
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(bad.field(), "host");
}

TEST_F(HttpServerTest, StopAcceptingRejectsNewAndFinishesOld) {
  TestClient old(port());
  TestClient other(port());
  backend_.set_step_pause(std::chrono::milliseconds(5));
  old.Send(PostBytes("/v1/completions", R"({"prompt":"a","max_tokens":20,"stream":true})"));
  ASSERT_EQ(old.ReadHead().status, 200);
  server_->StopAccepting();
  ClientReply rejected = other.Post("/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(rejected.status, 503);
  EXPECT_EQ(rejected.headers["connection"], "close");
  TestClient health(port());
  EXPECT_EQ(health.Get("/readyz").status, 503);
  EXPECT_EQ(TestClient(port()).Get("/livez").status, 200);
  server_->Stop(std::chrono::seconds(60));
  EXPECT_THAT(old.ReadToEnd().value_or("?"), HasSubstr("[DONE]"));
}

TEST_F(HttpServerTest, StopCancelsWhatRuns) {
  backend_.set_script(EndlessScript);
  TestClient stream(port());
  TestClient whole(port());
  TestClient idle(port());
  stream.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
  whole.Send(PostBytes("/v1/completions", R"({"prompt":"a"})"));
  ASSERT_TRUE(backend_.WaitActive(2));
  server_->Stop();
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_EQ(backend_.cancelled(), 2);
  EXPECT_EQ(idle.ReadToEnd(), "");
}

}  // namespace
}  // namespace ropeway::server
