#include "gateway/http_backend.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/test_wire.h"
#include "gateway/test_http_backend.h"
#include "net/test_fake_server.h"
#include "net/test_http_pool.h"

namespace ropeway::gateway {
namespace {

using net::BecomesTrue;
using net::FakeReply;
using net::FakeRequest;
using net::FakeServer;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using FailKind = FailureKind;

const char kSomeText[] = R"({"id":"a","choices":[{"index":0,"text":" x","finish_reason":null}]})";
const char kSomeEnd[] = R"({"id":"a","choices":[{"index":0,"text":"","finish_reason":"stop"}]})";

FakeReply GoodReply() {
  return net::StreamReply(net::EventStream({kSomeText, kSomeText, kSomeEnd}));
}

// A chunked stream that begins so, and whose end the script adds or leaves out.
FakeReply BeginReply(const std::string& events, const char* type = "text/event-stream") {
  return net::Raw(
      {fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n",
                   type, events.size(), events)});
}

FakeReply PlainReply(int status, const std::string& type, const std::string& body,
                     const std::string& fields = "") {
  return net::Raw(
      {fmt::format("HTTP/1.1 {} X\r\nContent-Type: {}\r\n{}Content-Length: {}\r\n\r\n{}", status,
                   type, fields, body.size(), body)});
}

FakeServer::Script AlwaysReply(FakeReply reply) {
  return [reply = std::move(reply)](const FakeRequest&) { return reply; };
}

TEST(HttpBackend, AnswersAndLeavesItsConnectionToTheNextRequest) {
  const FakeServer server(AlwaysReply(net::Kept(net::Cut(GoodReply(), 11))));
  HttpBackendRunner backend(server.url());
  for (int i = 0; i < 3; ++i) {
    const HttpTold told = backend.Ask();
    ASSERT_TRUE(told.end.has_value()) << told.failure->status.message();
    EXPECT_EQ(told.text, " x x");
    EXPECT_EQ(told.deltas, 2);
    EXPECT_EQ(told.alive, 0) << "only a Ropeway says so";
    EXPECT_EQ(told.ends, 1);
    EXPECT_TRUE(BecomesTrue([&] { return backend->idle_connections() == 1; }));
  }
  EXPECT_EQ(server.connections(), 1);
  const FakeRequest request = server.requests().front();
  EXPECT_EQ(request.method + " " + request.path, "POST /v1/completions");
  EXPECT_THAT(request.headers, HasSubstr(std::string("Authorization: Bearer ") + kBackendKey));
  EXPECT_THAT(request.headers, HasSubstr("Content-Type: application/json"));
}

TEST(HttpBackend, UrlsMayNameTheApi) {
  const FakeServer server(AlwaysReply(GoodReply()));
  for (const char* end : {"", "/", "/v1", "/v1/"}) {
    HttpBackendRunner(server.url() + end).Ask();
    EXPECT_EQ(server.requests().back().path, "/v1/completions") << end;
  }
  using enum api::BackendKind;
  const std::tuple<api::BackendKind, const char*, const char*> cases[] = {
      {kOpenAi, "/behind/v1", "/behind/v1/completions"},
      {kOpenAi, "/v3", "/v3/completions"},
      {kOpenAi, "/v3/", "/v3/completions"},
      {kOpenAi, "/v1beta/openai", "/v1beta/openai/completions"},
      {kOpenAi, "/openai", "/openai/completions"},
      {kLlamaCpp, "", "/v1/completions"},
      {kLlamaCpp, "/v3", "/v3/completions"},
      {kLlamaCpp, "/prefix", "/prefix/v1/completions"},
      {kRopeway, "/prefix/v1", "/prefix/v1/completions"},
      {kOllama, "", "/api/generate"},
      {kOllama, "/api", "/api/generate"},
      {kOllama, "/v1", "/api/generate"},
      {kOllama, "/prefix/api", "/prefix/api/generate"},
  };
  HttpBackendOptions options;
  for (const auto& [kind, path, asked] : cases) {
    options = HttpBackendRunner::OptionsFor(server.url() + path);
    options.server.kind = api::BackendKindName(kind);
    HttpBackendRunner(options).Ask();
    EXPECT_EQ(server.requests().back().path, asked) << api::BackendKindName(kind) << path;
  }
  // What is not the API's is the server's.
  const FakeServer llama(AlwaysReply(net::JsonReply("{}")));
  options = HttpBackendRunner::OptionsFor(llama.url() + "/prefix/v1");
  options.server.kind = "llamacpp";
  EXPECT_FALSE(HttpBackendRunner(options).Ask().end.has_value());
  EXPECT_TRUE(HttpBackendRunner(options).Probe().ok());
  std::set<std::string> paths;
  for (const FakeRequest& request : llama.requests()) paths.insert(request.path);
  EXPECT_THAT(paths, ElementsAre("/prefix/health", "/prefix/props", "/prefix/slots",
                                 "/prefix/v1/completions", "/prefix/v1/models"));
  boost::asio::io_context io;
  options.server.url = "ftp://x";
  EXPECT_EQ(HttpBackend::Open(options, &io).status().code(), StatusCode::kInvalidArgument);
  for (const char* url : {"http://user:hush-hush@h:1", "http://h:1/v1?key=hush-hush"}) {
    options.server.url = url;
    const Status status = HttpBackend::Open(options, &io).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), Not(HasSubstr("hush-hush")));
  }
}

struct Misbehaviour {
  const char* name;
  FakeReply reply;
  FailKind kind;
  const char* words;
};

std::vector<Misbehaviour> Misbehaviours() {
  const std::string two = net::EventStream({kSomeText, kSomeText}, "\n", false);
  FakeReply reset_before_head;
  reset_before_head.reset = true;
  FakeReply hang_before_head;
  hang_before_head.hang = true;
  FakeReply hang_before_token = BeginReply(":\n\n");
  hang_before_token.hang = true;
  FakeReply hang_after_tokens = BeginReply(two);
  hang_after_tokens.hang = true;
  FakeReply reset_after_tokens = BeginReply(two);
  reset_after_tokens.writes.emplace_back("1\r\n:\r\n");
  reset_after_tokens.pause = milliseconds(50);
  reset_after_tokens.reset = true;
  const std::vector<std::string> many(5000, kSomeText);
  return {
      {"reset before the head", reset_before_head, FailKind::kUnreachable, "did not answer"},
      {"end before the head", FakeReply{}, FailKind::kUnreachable, "did not answer"},
      {"hang before the head", hang_before_head, FailKind::kBroken, "did not answer"},
      {"hang before a token", hang_before_token, FailKind::kBroken, "broke off its answer"},
      {"hang after tokens", hang_after_tokens, FailKind::kBroken, "broke off its answer"},
      {"reset after tokens", reset_after_tokens, FailKind::kBroken, "broke off its answer"},
      {"end within the body", BeginReply(two), FailKind::kBroken, "broke off its answer"},
      {"half a JSON", net::StreamReply(net::EventStream({kSomeText, R"({"id":"a","cho)"})),
       FailKind::kBroken, "not valid JSON"},
      {"no end", net::StreamReply(two), FailKind::kBroken, "without a finish_reason"},
      {"a page", PlainReply(200, "text/html; charset=utf-8", "<html>Hello</html>"),
       FailKind::kBroken, "'text/html'"},
      {"an error with status 200", net::JsonReply(R"({"error":"Unexpected endpoint"})"),
       FailKind::kBroken, "Unexpected endpoint"},
      {"400", net::JsonReply(R"({"error":{"message":"too\nlong"}})", 400), FailKind::kRejected,
       "too long"},
      {"401", net::JsonReply(R"({"error":"no"})", 401), FailKind::kBroken, "API key"},
      {"404", net::JsonReply(R"({"error":"model 'x' not found"})", 404), FailKind::kBroken,
       "HTTP 404: model 'x' not found"},
      {"429", PlainReply(429, "application/json", "{}", "Retry-After: 7\r\n"), FailKind::kBusy,
       "HTTP 429"},
      {"500", net::JsonReply(R"({"detail":"CUDA"})", 500), FailKind::kBroken, "HTTP 500: CUDA"},
      {"503", net::JsonReply(R"({"error":{"message":"Loading model"}})", 503), FailKind::kBusy,
       "Loading model"},
      {"a redirect", PlainReply(302, "text/plain", ""), FailKind::kBroken, "HTTP 302"},
      {"no HTTP", net::Raw({"SSH-2.0-OpenSSH\r\n\r\n"}), FailKind::kBroken, "did not answer"},
      {"endless head", net::Raw({"HTTP/1.1 200 OK\r\nX: " + std::string(1 << 20, 'x')}),
       FailKind::kBroken, "did not answer"},
      {"endless stream", net::StreamReply(net::EventStream(many)), FailKind::kBroken,
       "more than the 8 tokens"},
      {"endless line", BeginReply("data: " + std::string(3 << 20, 'x')), FailKind::kBroken,
       "more than 1048576 bytes"},
      {"endless error", PlainReply(500, "text/plain", std::string(1 << 20, 'x')), FailKind::kBroken,
       "xxx..."},
      {"another choice",
       net::StreamReply(net::EventStream({R"({"choices":[{"text":"y"},{"text":"z"}]})"})),
       FailKind::kBroken, "not asked for"},
      {"the key in its error",
       net::JsonReply(fmt::format(R"({{"error":"no {} here"}})", kBackendKey), 500),
       FailKind::kBroken, "no *** here"},
  };
}

TEST(HttpBackend, EachMisbehaviourHasOneClearEndAndKeepsNoConnection) {
  for (const Misbehaviour& one : Misbehaviours()) {
    SCOPED_TRACE(one.name);
    const FakeServer server(AlwaysReply(one.reply));
    HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
    options.first_byte_timeout = options.idle_timeout = milliseconds(300);
    HttpBackendRunner backend(options);
    const auto sink = std::make_shared<HttpToldSink>();
    EXPECT_TRUE(backend->Submit(api::wire::CompletionRequest(), sink).ok());
    const HttpTold told = sink->AwaitEnd();
    ASSERT_TRUE(told.failure.has_value());
    EXPECT_EQ(told.failure->kind, one.kind) << told.failure->status.message();
    const std::string& message = told.failure->status.message();
    EXPECT_THAT(message, HasSubstr(one.words));
    EXPECT_THAT(message, Not(HasSubstr(kBackendKey)));
    EXPECT_LE(message.size(), 310u);
    if (one.kind == FailKind::kBusy && one.name == std::string("429")) {
      EXPECT_EQ(told.failure->status.retry_after_seconds(), 7);
      EXPECT_EQ(told.failure->status.code(), StatusCode::kResourceExhausted);
    }
    EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 0; }));
    EXPECT_TRUE(BecomesTrue([&] { return backend->busy_connections() == 0; }));
    EXPECT_EQ(sink->told().ends, 1);
  }
}

TEST(HttpBackend, ARejectionKeepsWhatItSaysOfTheRequest) {
  const auto ask = [](const std::string& param) {
    const FakeServer server(AlwaysReply(net::JsonReply(
        R"({"error":{"message":"no","param":")" + param + R"(","code":"invalid_value"}})", 400)));
    return HttpBackendRunner(server.url()).Ask().failure->status;
  };
  EXPECT_EQ(ask("messages[0].content").field(), "messages[0].content");
  EXPECT_STREQ(ask("n").api_code(), "invalid_value");
  EXPECT_EQ(ask(std::string(1000, 'x')).field(), "") << "no field is called so";
  EXPECT_THAT(ask(kBackendKey).field(), Not(HasSubstr(kBackendKey)));
}

TEST(HttpBackend, AServerThatIsNotThereIsUnreachable) {
  const net::ClosedPort closed;
  const HttpTold told = HttpBackendRunner(closed.url()).Ask();
  ASSERT_TRUE(told.failure.has_value());
  EXPECT_EQ(told.failure->kind, FailKind::kUnreachable);
  EXPECT_THAT(told.failure->status.message(), HasSubstr("cannot be reached: "));
}

TEST(HttpBackend, AServerWithoutATrustedCertificateIsNotAsked) {
  const FakeServer server(AlwaysReply(GoodReply()), /*tls=*/true);
  HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
  const HttpTold told = HttpBackendRunner(options).Ask();
  ASSERT_TRUE(told.failure.has_value());
  EXPECT_EQ(told.failure->kind, FailKind::kUnreachable);
  EXPECT_THAT(server.requests(), testing::IsEmpty());
  options.server.insecure = true;
  EXPECT_TRUE(HttpBackendRunner(options).Ask().end.has_value());
}

TEST(HttpBackend, WhatCannotBeAskedIsRejectedAtOnce) {
  const FakeServer server(AlwaysReply(GoodReply()));
  HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
  options.server.kind = "ollama";
  HttpBackendRunner backend(options);
  Request request = api::wire::CompletionRequest();
  request.prompt = std::vector<TokenId>{1, 2};
  const HttpTold told = backend.Ask(request);
  ASSERT_TRUE(told.failure.has_value());
  EXPECT_EQ(told.failure->kind, FailKind::kRejected);
  EXPECT_THAT(told.failure->status.message(), HasSubstr("not token ids"));
  EXPECT_THAT(server.requests(), testing::IsEmpty());
}

TEST(HttpBackend, ARequestThatIsCancelledLeavesItsServerAtOnce) {
  FakeReply open = BeginReply(net::EventStream({kSomeText}, "\n", false));
  open.hang = true;
  const FakeServer server(AlwaysReply(open));
  HttpBackendRunner backend(server.url());
  const auto sink = std::make_shared<HttpToldSink>();
  const StatusOr<RequestId> id = backend->Submit(api::wire::CompletionRequest(), sink);
  ASSERT_TRUE(id.ok());
  sink->AwaitDelta();
  EXPECT_EQ(server.open_connections(), 1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(backend->Cancel(*id).ok());
  EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 0; }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(sink->AwaitEnd().failure->status.code(), StatusCode::kCancelled);
  EXPECT_EQ(backend->Cancel(*id).code(), StatusCode::kNotFound);
}

TEST(HttpBackend, ARequestMayBeCancelledByItsOwnSink) {
  // Several events come in one piece; the first one is the last that is told.
  const FakeServer server(AlwaysReply(GoodReply()));
  HttpBackendRunner backend(server.url());
  const auto sink = std::make_shared<HttpToldSink>([&] { EXPECT_TRUE(backend->Cancel(1).ok()); });
  const StatusOr<RequestId> id = backend->Submit(api::wire::CompletionRequest(), sink);
  EXPECT_TRUE(id.ok() && *id == 1);
  EXPECT_EQ(sink->AwaitEnd().failure->status.code(), StatusCode::kCancelled);
  EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 0; }));
  EXPECT_EQ(sink->told().deltas, 1);
  EXPECT_EQ(sink->told().ends, 1);
}

TEST(HttpBackend, AnAnswerEndsWithItsLastEventEvenIfItsBodyDoesNot) {
  FakeReply open = BeginReply(net::EventStream({kSomeText, kSomeEnd}));
  open.hang = true;
  const FakeServer server(AlwaysReply(open));
  HttpBackendRunner backend(server.url());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(backend.Ask().end.has_value());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(900));
  EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 0; })) << "it is not kept";
}

TEST(HttpBackend, ACommentOfARopewaySaysThatItIsAlive) {
  FakeReply reply = BeginReply(": keep-alive\n\n");
  reply.hang = true;
  const FakeServer server(AlwaysReply(reply));
  HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
  options.server.kind = "ropeway";
  HttpBackendRunner backend(options);
  const auto sink = std::make_shared<HttpToldSink>();
  EXPECT_TRUE(backend->Submit(api::wire::CompletionRequest(), sink).ok());
  EXPECT_TRUE(BecomesTrue([&] { return sink->told().alive > 0; }));
  EXPECT_EQ(sink->told().deltas, 0);
}

TEST(HttpBackend, ReadsLinesOfOllama) {
  const FakeServer server(AlwaysReply(net::Cut(
      PlainReply(200, "application/x-ndjson",
                 api::wire::Lines({R"({"model":"m","response":" a","done":false})",
                                   R"({"model":"m","response":"","done":true,"eval_count":1})"})),
      1)));
  HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
  options.server.kind = "ollama";
  const HttpTold told = HttpBackendRunner(options).Ask();
  ASSERT_TRUE(told.end.has_value());
  EXPECT_EQ(told.text, " a");
  EXPECT_EQ(told.end->usage.completion_tokens, 1);
}

TEST(HttpBackend, ProbesSayHowTheServerIs) {
  const FakeServer server([](const FakeRequest& request) {
    if (request.path == "/health") return net::JsonReply(R"({"status":"ok"})");
    if (request.path == "/props") return net::JsonReply(R"({"total_slots":4})");
    if (request.path == "/slots") return net::JsonReply(R"({"error":"no"})", 501);
    return net::JsonReply(R"({"object":"list","data":[{"id":"m"}]})");
  });
  HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
  options.server.kind = "llamacpp";
  HttpBackendRunner backend(options);
  const StatusOr<BackendFacts> facts = backend.Probe();
  ASSERT_TRUE(facts.ok()) << facts.status().message();
  EXPECT_TRUE((*facts).ready);
  EXPECT_EQ((*facts).places, 4);
  EXPECT_THAT((*facts).models, ElementsAre("m"));
  EXPECT_FALSE((*facts).running.has_value());
}

TEST(HttpBackend, AProbeTellsANotReadyServerFromABrokenOne) {
  const auto probe = [](const FakeReply& reply) {
    const FakeServer server(AlwaysReply(reply));
    HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
    options.server.kind = "llamacpp";
    options.probe_timeout = milliseconds(300);
    return HttpBackendRunner(options).Probe();
  };
  const StatusOr<BackendFacts> loading =
      probe(net::JsonReply(R"({"error":{"code":503,"message":"Loading model"}})", 503));
  ASSERT_TRUE(loading.ok()) << loading.status().message();
  EXPECT_FALSE((*loading).ready);
  EXPECT_THAT((*loading).reason, HasSubstr("Loading model"));

  EXPECT_THAT(probe(PlainReply(200, "text/html", "<html>")).status().message(),
              HasSubstr("not a llama-server"));
  EXPECT_THAT(probe(net::JsonReply(R"({"error":"x"})", 401)).status().message(),
              HasSubstr("API key"));
  EXPECT_EQ(probe(net::Silence()).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(probe(PlainReply(200, "application/json", std::string(5 << 20, ' '))).ok());
  const net::ClosedPort closed;
  EXPECT_THAT(HttpBackendRunner(closed.url()).Probe().status().message(),
              HasSubstr("cannot be reached"));
}

// Where the model has a name, the list of models says nothing that is needed.
TEST(HttpBackend, AnyAnswerToAProbeIsASignOfLifeWhereTheModelIsNamed) {
  const auto probe = [](const FakeReply& reply, const char* model) {
    const FakeServer server(AlwaysReply(reply));
    HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
    options.server.upstream_model = model;
    return HttpBackendRunner(options).Probe();
  };
  const FakeReply alive[] = {
      net::JsonReply(R"({"detail":"Not Found"})", 404),
      PlainReply(404, "text/html", "<html>"),
      PlainReply(405, "text/plain", ""),
      PlainReply(429, "text/plain", ""),
      PlainReply(302, "text/plain", ""),
      PlainReply(501, "text/html", "<html>"),
      PlainReply(500, "text/plain", "no such path"),
      PlainReply(204, "text/plain", ""),
      net::JsonReply(R"({"error":"no"})", 401),
      net::JsonReply(R"({"error":"no"})", 403),
      net::JsonReply(""),
      net::JsonReply("{}"),
      net::JsonReply(R"({"data":"m"})"),
      PlainReply(200, "text/html", "<html>"),
  };
  for (const FakeReply& reply : alive) {
    const StatusOr<BackendFacts> facts = probe(reply, "m");
    EXPECT_TRUE(facts.ok()) << reply.writes.front() << ": " << facts.status().message();
    EXPECT_TRUE(!facts.ok() || facts->ready) << reply.writes.front();
    const StatusOr<BackendFacts> unnamed = probe(reply, "");
    ASSERT_FALSE(unnamed.ok()) << reply.writes.front();
    EXPECT_THAT(unnamed.status().message(), HasSubstr("model=NAME")) << reply.writes.front();
  }
  // Not what a proxy says in place of a server that is not there.
  for (const int status : {502, 504, 521}) {
    EXPECT_FALSE(probe(PlainReply(status, "text/html", "<html>"), "m").ok()) << status;
  }
  const StatusOr<BackendFacts> loading = probe(PlainReply(503, "text/plain", "loading"), "m");
  ASSERT_TRUE(loading.ok());
  EXPECT_FALSE(loading->ready);
  const net::ClosedPort closed;
  HttpBackendOptions options = HttpBackendRunner::OptionsFor(closed.url());
  options.server.upstream_model = "m";
  EXPECT_FALSE(HttpBackendRunner(options).Probe().ok());
}

TEST(HttpBackend, ListsOfModelsHaveSeveralShapes) {
  for (const char* list :
       {R"({"object":"list","data":[{"id":"m"},{"id":"m"}]})", R"([{"id":"m","object":"model"}])",
        R"({"models":[{"name":"m"}]})", R"(["m"])", R"({"data":[{"id":null,"model":"m"}]})",
        R"({"data":[{"id":"m","owned_by":null,"created":null}],"object":null})"}) {
    const FakeServer server(AlwaysReply(net::JsonReply(list)));
    const StatusOr<BackendFacts> facts = HttpBackendRunner(server.url()).Probe();
    ASSERT_TRUE(facts.ok()) << list << facts.status().message();
    EXPECT_THAT(facts->models, ElementsAre("m")) << list;
  }
  for (const char* list :
       {"7", "\"m\"", R"({"data":7})", R"([7])", R"([{"id":7}])", R"({"models":{"m":1}})"}) {
    const FakeServer server(AlwaysReply(net::JsonReply(list)));
    EXPECT_FALSE(HttpBackendRunner(server.url()).Probe().ok()) << list;
  }
}

// A key without the right to the list may have that to answers.
TEST(HttpBackend, ARefusedKeyIsToldOnceARequestWasRefused) {
  std::atomic<bool> refuses = true;
  const FakeServer server([&](const FakeRequest& request) {
    if (request.method == "GET" || refuses) return net::JsonReply(R"({"error":"no"})", 403);
    return GoodReply();
  });
  HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
  options.server.upstream_model = "m";
  HttpBackendRunner backend(options);
  EXPECT_TRUE(backend.Probe().ok());
  const HttpTold told = backend.Ask();
  ASSERT_TRUE(told.failure.has_value());
  EXPECT_EQ(told.failure->kind, FailKind::kBroken);
  EXPECT_THAT(backend.Probe().status().message(), HasSubstr("HTTP 403"));
  refuses = false;
  EXPECT_TRUE(backend.Ask().end.has_value());
  EXPECT_TRUE(backend.Probe().ok());
}

TEST(HttpBackend, AProbeDoesNotWaitForABodyThatComesByteByByte) {
  const std::string body = R"({"object":"list","data":[{"id":"m"}]})";
  FakeReply slow = net::Raw({fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
      body.size())});
  for (const char c : body) slow.writes.emplace_back(1, c);
  slow.pause = milliseconds(30);
  const FakeServer server(AlwaysReply(slow));
  HttpBackendOptions options = HttpBackendRunner::OptionsFor(server.url());
  options.probe_timeout = milliseconds(300);
  EXPECT_THAT(HttpBackendRunner(options).Probe().status().message(), HasSubstr("too slowly"));
}

TEST(HttpBackend, AProbeOfADestroyedBackendFails) {
  const FakeServer server(AlwaysReply(net::Silence()));
  Status answer;
  {
    HttpBackendRunner backend(server.url());
    backend->Probe([&](const StatusOr<BackendFacts>& facts) { answer = facts.status(); });
    EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 1; }));
  }
  EXPECT_FALSE(answer.ok());
  EXPECT_TRUE(BecomesTrue([&] { return server.open_connections() == 0; }));
}

}  // namespace
}  // namespace ropeway::gateway
