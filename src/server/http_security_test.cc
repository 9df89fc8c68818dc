// API keys, the admin paths and the end of a server's life, over real sockets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "server/key_limits.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class HttpSecurityTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.api_keys = {{"team-a", "sk-team-a-1", "shared"}, {"team-b", "sk-team-b-2"}};
    options.admin_key = "admin-key-3";
    options.access_log = logs_requests_;
    StartServer(options);
  }

  ClientReply Request(const std::string& method, const std::string& path,
                      const std::string& headers = "", const std::string& body = "") {
    TestClient client(port());
    client.Send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}",
                            method, path, headers, body.size(), body));
    return client.Read();
  }

  bool logs_requests_ = false;
};

TEST_F(HttpSecurityTest, KeysOpenTheApiAndNameTheTenant) {
  const std::string body = R"({"prompt":"a"})";
  EXPECT_EQ(Request("POST", "/v1/completions", Bearer("sk-team-b-2"), body).status, 200);
  ASSERT_EQ(backend_.submitted().size(), 1U);
  EXPECT_EQ(backend_.submitted()[0].tenant, "team-b");
  for (const std::string& headers : {std::string(), Bearer("sk-team-b-3"), Bearer("admin-key-3")}) {
    ClientReply reply = Request("POST", "/v1/completions", headers, body);
    EXPECT_EQ(reply.status, 401);
    EXPECT_EQ(json::parse(reply.body)["error"]["code"], "invalid_api_key");
    EXPECT_THAT(reply.headers["www-authenticate"], HasSubstr("Bearer"));
  }
  EXPECT_EQ(backend_.submitted().size(), 1U);
  EXPECT_EQ(Request("POST", "/v1/completions", Bearer("sk-team-a-1") + Bearer("sk-team-b-2"), body)
                .status,
            400);
}

TEST_F(HttpSecurityTest, TheKeyMayStandInXApiKey) {
  const std::string b = "x-api-key: sk-team-b-2\r\n";
  EXPECT_EQ(Request("GET", "/v1/models", b).status, 200);
  EXPECT_EQ(Request("GET", "/v1/models", b + Bearer("sk-team-b-2")).status, 200);
  EXPECT_EQ(Request("GET", "/v1/models", b + Bearer("sk-team-a-1")).status, 400);
  EXPECT_EQ(Request("GET", "/v1/models", b + b).status, 400) << "given twice";
  EXPECT_EQ(Request("GET", "/v1/models", "x-api-key:\r\n").status, 401);
  EXPECT_EQ(Request("GET", "/admin/requests", "X-API-KEY: admin-key-3\r\n").status, 200);
  EXPECT_THAT(Request("GET", "/metrics", b).body, HasSubstr("tenant=\"team-b\""));
}

TEST_F(HttpSecurityTest, ReloadedKeysCountFromTheNextRequestOn) {
  const auto livez = [](TestClient* client, const std::string& key) {
    client->Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + Bearer(key) + "\r\n");
    return client->Read().status;
  };
  TestClient client(port());
  EXPECT_EQ(livez(&client, "sk-team-a-1"), 200);
  ServerOptions options;
  options.api_keys = {{"team-b", "sk-team-b-2"}, {"team-c", "sk-team-c-4"}};
  options.admin_key = "admin-key-3";
  ASSERT_TRUE(server_->Reload(options).ok());
  EXPECT_EQ(livez(&client, "sk-team-c-4"), 200) << "the connection stays";
  EXPECT_EQ(livez(&client, "sk-team-a-1"), 401);

  // What cannot be changes nothing.
  for (const std::vector<ApiKey>& keys :
       {std::vector<ApiKey>{}, {{"team-a", "short"}}, {{"team-a", "admin-key-3"}}}) {
    options.api_keys = keys;
    const Status status = server_->Reload(options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), Not(HasSubstr("admin-key-3")));
    TestClient other(port());
    EXPECT_EQ(livez(&other, "sk-team-b-2"), 200);
  }
}

TEST_F(HttpSecurityTest, AFirstGatewaysKeyNeedsARestart) {
  const std::vector<ApiKey> two = {{"team-b", "sk-team-b-2"}, {"gate", "sk-gate-5"}};
  ServerOptions options;
  options.admin_key = "admin-key-3";
  options.api_keys = two;
  options.api_keys[1].gateway = true;
  const Status status = server_->Reload(options);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.field(), "api_keys");
  EXPECT_THAT(status.message(), HasSubstr("The first API key with gateway = true cannot be added"));
  // Nothing has changed: neither is there the new key, nor is an old one gone or a gateway's.
  EXPECT_EQ(Request("GET", "/v1/models", Bearer("sk-team-a-1")).status, 200);
  EXPECT_EQ(Request("GET", "/v1/models", Bearer("sk-gate-5")).status, 401);
  options.api_keys = {{"team-a", "sk-team-a-1"}, {"team-b", "sk-team-b-2"}};
  options.api_keys[0].gateway = true;
  EXPECT_FALSE(server_->Reload(options).ok());

  // What started with one may change it, and lose and get it back.
  StartServer(options);
  for (const bool gateway : {false, true}) {
    options.api_keys = two;
    options.api_keys[1].gateway = gateway;
    EXPECT_TRUE(server_->Reload(options).ok()) << gateway;
    EXPECT_EQ(Request("GET", "/v1/models", Bearer("sk-gate-5")).status, 200);
  }
}

TEST_F(HttpSecurityTest, MetricsForgetTheLongestWithoutAKey) {
  const auto shown = [this](const std::string& text) {
    const std::string metrics = Request("GET", "/metrics", Bearer("admin-key-3")).body;
    return metrics.find(text) != std::string::npos;
  };
  EXPECT_EQ(Request("GET", "/v1/models", Bearer("sk-team-a-1")).status, 200);
  EXPECT_EQ(Request("GET", "/v1/models", Bearer("sk-team-b-2")).status, 200);
  ServerOptions options;
  options.admin_key = "admin-key-3";
  options.api_keys = {{"team-b", "sk-team-b-2"}, {}};
  for (size_t i = 0; i <= KeyLimits::kMostWithoutKey; ++i) {
    if (i % 100 == 0) {
      EXPECT_TRUE(shown("tenant=\"team-a\"")) << i;
    }
    options.api_keys[1] = {fmt::format("once-{}", i), fmt::format("sk-once-{}", i)};
    ASSERT_TRUE(server_->Reload(options).ok());
  }
  EXPECT_FALSE(shown("tenant=\"team-a\""));
  EXPECT_TRUE(shown("tenant=\"once-0\""));
  EXPECT_TRUE(shown("ropeway_tenant_http_requests_total{code=\"200\",tenant=\"team-b\"} 1"));
}

TEST_F(HttpSecurityTest, AnOpenServerStaysOpen) {
  StartServer(ServerOptions());
  ServerOptions options;
  options.api_keys = {{"team-a", "sk-team-a-1"}};
  EXPECT_EQ(server_->Reload(options).field(), "api_keys");
  EXPECT_TRUE(server_->Reload(ServerOptions()).ok());
  EXPECT_EQ(Request("GET", "/v1/models").status, 200);
}

// Every choice of every prompt has the key's scope and the body's salt.
TEST_F(HttpSecurityTest, TheKeyAndTheBodyDecideWhatSharesTheCache) {
  const std::string body =
      R"({"prompt":["a","b"],"n":2,"cache_salt":"salt","prompt_cache_retention":"24h"})";
  ASSERT_EQ(Request("POST", "/v1/completions", Bearer("sk-team-a-1"), body).status, 200);
  const auto shared = backend_.submitted();
  ASSERT_EQ(shared.size(), 4U);
  for (const auto& request : shared) {
    EXPECT_EQ(request.tenant, "team-a");
    EXPECT_EQ(request.cache_scope, "shared");
    EXPECT_EQ(request.cache_salt, "salt");
    EXPECT_EQ(request.cache_retention, CacheRetention::kLong);
  }
  const std::string chat = R"({"messages":[{"role":"user","content":"a"}],"cache_salt":"other"})";
  ASSERT_EQ(Request("POST", "/v1/chat/completions", Bearer("sk-team-b-2"), chat).status, 200);
  const auto own = backend_.submitted().back();
  EXPECT_EQ(own.tenant, "team-b");
  EXPECT_EQ(own.cache_scope, "");
  EXPECT_EQ(own.cache_salt, "other");
  EXPECT_EQ(own.cache_retention, CacheRetention::kNormal);
  // No field of a body can name a scope.
  EXPECT_EQ(Request("POST", "/v1/completions", Bearer("sk-team-b-2"),
                    R"({"prompt":"a","cache_scope":"shared"})")
                .status,
            400);
}

TEST_F(HttpSecurityTest, EachPathNeedsItsKey) {
  for (const char* path : {"/livez", "/readyz", "/health"}) {
    EXPECT_EQ(Request("GET", path).status, 200) << path;
  }
  for (const char* path : {"/metrics", "/version", "/v1/models"}) {
    EXPECT_EQ(Request("GET", path).status, 401) << path;
    EXPECT_EQ(Request("GET", path, Bearer("sk-team-a-1")).status, 200) << path;
  }
  EXPECT_EQ(Request("GET", "/metrics", Bearer("admin-key-3")).status, 200);
  EXPECT_EQ(json::parse(Request("GET", "/version", Bearer("admin-key-3")).body)["version"]
                .get<std::string>()
                .empty(),
            false);
  EXPECT_EQ(Request("GET", "/nowhere").status, 401);
  EXPECT_EQ(Request("OPTIONS", "/nowhere").status, 401);
  for (const char* path : {"/v1/models", "/version", "/admin/drain"}) {
    EXPECT_EQ(Request("OPTIONS", path).status, 204) << path;
    EXPECT_EQ(Request("BREW", path).status, 401) << path;
  }
  EXPECT_EQ(Request("GET", "/nowhere", Bearer("sk-team-a-1")).status, 404);
  EXPECT_THAT(Request("GET", "/metrics", Bearer("admin-key-3")).body,
              HasSubstr(R"(ropeway_http_requests_total{code="401",route="/metrics"} 1)"));
}

TEST_F(HttpSecurityTest, AKeyForMetricsComesWithAReloadAndSeesAllNumbers) {
  ServerOptions options;
  options.api_keys = {
      {"team-a", "sk-team-a-1"}, {"team-b", "sk-team-b-2"}, {"scraper", "sk-scrape"}};
  options.api_keys[2].metrics_only = true;
  options.admin_key = "admin-key-3";
  ASSERT_EQ(Request("GET", "/metrics", Bearer("sk-scrape")).status, 401);
  ASSERT_TRUE(server_->Reload(options).ok());
  Request("POST", "/v1/completions", Bearer("sk-team-a-1"), R"({"prompt":"a","max_tokens":4})");
  const ClientReply metrics = Request("GET", "/metrics", Bearer("sk-scrape"));
  EXPECT_EQ(metrics.status, 200);
  for (const char* series :
       {"fake_metric 1", "ropeway_http_requests_total{", "process_resident_memory_bytes ",
        "ropeway_tenant_generation_tokens_total{tenant=\"team-a\"} 4"}) {
    EXPECT_THAT(metrics.body, HasSubstr(series));
  }
  for (const char* path : {"/v1/models", "/v1/queue", "/version", "/nowhere", "/admin/requests"}) {
    const ClientReply reply = Request("GET", path, Bearer("sk-scrape"));
    EXPECT_EQ(reply.status, 403) << path;
    EXPECT_EQ(json::parse(reply.body)["error"]["code"], "forbidden");
  }
  EXPECT_THAT(Request("POST", "/v1/completions", Bearer("sk-scrape"), R"({"prompt":"a"})").body,
              HasSubstr("This API key is only for /metrics."));
}

// From the sum of all tenants' numbers and its own, a tenant would know the others'.
TEST_F(HttpSecurityTest, NumbersOfOtherTenantsAreForTheAdmin) {
  const std::string body = R"({"prompt":"a","max_tokens":4})";
  for (const char* key : {"sk-team-a-1", "sk-team-a-1", "sk-team-b-2"}) {
    ASSERT_EQ(Request("POST", "/v1/completions", Bearer(key), body).status, 200);
  }
  const std::string own = Request("GET", "/metrics", Bearer("sk-team-b-2")).body;
  EXPECT_THAT(own, HasSubstr("ropeway_tenant_http_requests_total{code=\"200\",tenant=\"team-b\"}"));
  EXPECT_THAT(own, HasSubstr("ropeway_tenant_prompt_tokens_total{tenant=\"team-b\"} 3"));
  EXPECT_THAT(own, HasSubstr("ropeway_tenant_generation_tokens_total{tenant=\"team-b\"} 4"));
  EXPECT_THAT(own, HasSubstr("ropeway_tenant_requests_unfinished{tenant=\"team-b\"} 0"));
  EXPECT_THAT(own, Not(HasSubstr("team-a")));
  EXPECT_THAT(own, Not(HasSubstr("fake_metric"))) << "the engine's are sums over all tenants";
  EXPECT_THAT(own, Not(HasSubstr("ropeway_http_")));
  const std::string all = Request("GET", "/metrics", Bearer("admin-key-3")).body;
  EXPECT_THAT(all, HasSubstr("fake_metric 1"));
  EXPECT_THAT(all, HasSubstr("ropeway_tenant_generation_tokens_total{tenant=\"team-a\"} 8"));
  EXPECT_THAT(all, HasSubstr("ropeway_tenant_generation_tokens_total{tenant=\"team-b\"} 4"));
  // /health needs no key, and shows the batching to the admin alone.
  for (const std::string& headers : {std::string(), Bearer("sk-team-b-2")}) {
    EXPECT_THAT(Request("GET", "/health", headers).body, Not(HasSubstr("batching")));
  }
  EXPECT_THAT(Request("GET", "/health", Bearer("admin-key-3")).body, HasSubstr("batching"));
}

TEST_F(HttpSecurityTest, AKeyAloneSeesAllNumbers) {
  ServerOptions options;
  options.api_keys = {{"only", "sk-only-1"}};
  StartServer(options);
  EXPECT_THAT(Request("GET", "/metrics", Bearer("sk-only-1")).body, HasSubstr("fake_metric 1"));
  EXPECT_THAT(Request("GET", "/health").body, HasSubstr("batching"));
}

// Not even in a log for debugging, nor to the admin.
TEST_F(HttpSecurityTest, NoKeyAndNoTextIsLoggedOrShown) {
  server_->Stop();  // No thread may use the logger meanwhile.
  std::ostringstream lines;
  const auto before = spdlog::default_logger();
  const auto logger = std::make_shared<spdlog::logger>(
      "security", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
  logger->set_level(spdlog::level::debug);
  spdlog::set_default_logger(logger);
  logs_requests_ = true;
  SetUp();
  backend_.set_script([](const ropeway::Request& request) {
    FakeScript script;
    script.endless = !request.max_tokens;
    script.text = [](int) { return std::string("secret answer "); };
    return script;
  });
  for (const char* key : {"sk-team-a-1", "a-wrong-secret"}) {
    for (const char* max_tokens : {"2", "-2"}) {
      Request("POST", "/v1/completions", Bearer(key),
              fmt::format(R"({{"prompt":"secret prompt","max_tokens":{}}})", max_tokens));
    }
  }
  TestClient running(port());
  running.Send(PostBytes("/v1/completions", R"({"prompt":"secret prompt","stream":true})",
                         Bearer("sk-team-b-2")));
  EXPECT_EQ(running.ReadHead().status, 200);
  std::string shown;
  for (const char* path : {"/metrics", "/admin/requests", "/v1/queue", "/health", "/version"}) {
    ClientReply reply = Request("GET", path, Bearer("admin-key-3"));
    EXPECT_EQ(reply.status, 200) << path;
    shown += reply.body;
  }
  running.Close();
  server_->Stop();
  spdlog::set_default_logger(before);
  StartServer();  // The server before it has ended, and its log with it.
  EXPECT_THAT(lines.str(), HasSubstr("route=/v1/completions status=200"));
  EXPECT_THAT(lines.str(), HasSubstr("route=/v1/completions status=401"));
  EXPECT_THAT(shown, HasSubstr("team-b"));
  shown += lines.str();
  for (const char* secret : {"sk-team", "admin-key", "secret"}) {
    EXPECT_THAT(shown, Not(HasSubstr(secret)));
  }
}

// No byte of the body was sent when the rejection is there.
TEST_F(HttpSecurityTest, KeysAreCheckedBeforeTheBodyIsRead) {
  TestClient client(port());
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  EXPECT_EQ(client.Read().status, 401);
  TestClient polite(port());
  polite.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 1000\r\n\r\n");
  EXPECT_EQ(polite.Read().status, 401);
}

TEST_F(HttpSecurityTest, AdminSeesAndCancelsRequests) {
  backend_.set_script(EndlessScript);
  TestClient client(port());
  client.Send(
      PostBytes("/v1/completions", R"({"prompt":"a","stream":true})", Bearer("sk-team-a-1")));
  ASSERT_EQ(client.ReadHead().status, 200);
  EXPECT_EQ(Request("GET", "/admin/requests").status, 401);
  EXPECT_EQ(Request("GET", "/admin/requests", Bearer("sk-team-a-1")).status, 403);
  const json list = json::parse(Request("GET", "/admin/requests", Bearer("admin-key-3")).body);
  ASSERT_EQ(list["data"].size(), 1U);
  const json& request = list["data"][0];
  EXPECT_EQ(request["tenant"], "team-a");
  EXPECT_EQ(request["started"], true);
  EXPECT_EQ(request["priority"], "medium");
  EXPECT_GE(request["age_seconds"].get<double>(), 0.0);
  const std::string id = std::to_string(request["id"].get<uint64_t>());
  for (const char* wrong : {"0", "999", "abc", "-1", "18446744073709551616", "1x"}) {
    EXPECT_EQ(
        Request("POST", fmt::format("/admin/requests/{}/cancel", wrong), Bearer("admin-key-3"))
            .status,
        404)
        << wrong;
  }
  const ClientReply reply =
      Request("POST", "/admin/requests/" + id + "/cancel", Bearer("admin-key-3"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(json::parse(reply.body)["cancelled"], true);
  EXPECT_TRUE(backend_.WaitIdle());
  std::string rest;
  for (std::string some; !(some = client.ReadSome()).empty();) {
    rest += some;
    if (rest.find("\"error\"") != std::string::npos) break;
  }
  EXPECT_THAT(rest, HasSubstr("\"error\""));
}

TEST_F(HttpSecurityTest, WhatTheAdminCancelsIsNotTriedAgain) {
  backend_.set_script(EndlessScript);
  TestClient client(port());
  client.Send(PostBytes("/v1/completions", R"({"prompt":"a"})", Bearer("sk-team-a-1")));
  json list = json::array();
  Eventually([&] {
    list = json::parse(Request("GET", "/admin/requests", Bearer("admin-key-3")).body)["data"];
    return !list.empty();
  });
  ASSERT_EQ(list.size(), 1U);
  const std::string id = std::to_string(list[0]["id"].get<uint64_t>());
  EXPECT_EQ(Request("POST", "/admin/requests/" + id + "/cancel", Bearer("admin-key-3")).status,
            200);
  ClientReply reply = client.Read();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers["x-should-retry"], "false");
}

TEST_F(HttpSecurityTest, AdminDrains) {
  EXPECT_EQ(Request("POST", "/admin/drain", Bearer("sk-team-a-1")).status, 403);
  EXPECT_EQ(Request("GET", "/readyz").status, 200);
  for (int i = 0; i < 2; ++i) {  // Again is no other.
    EXPECT_EQ(Request("POST", "/admin/drain", Bearer("admin-key-3")).status, 200);
    for (const char* path : {"/readyz", "/health"}) {
      const ClientReply reply = Request("GET", path);
      EXPECT_EQ(reply.status, 503);
      EXPECT_THAT(reply.body,
                  HasSubstr(R"("status":"draining","reason":"The server is draining.")"));
    }
    EXPECT_EQ(Request("GET", "/livez").body, R"({"status":"ok"})");
    ClientReply rejected =
        Request("POST", "/v1/completions", Bearer("sk-team-a-1"), R"({"prompt":"a"})");
    EXPECT_EQ(rejected.status, 503);
    EXPECT_THAT(rejected.body, HasSubstr("The server is draining."));
    EXPECT_EQ(rejected.headers["retry-after"], "7");
  }
}

TEST_F(HttpSecurityTest, ADrainSaysWhatGoesOnAndCanBeUndone) {
  backend_.set_script(EndlessScript);
  TestClient running(port());
  running.Send(
      PostBytes("/v1/completions", R"({"prompt":"a","stream":true})", Bearer("sk-team-a-1")));
  ASSERT_EQ(running.ReadHead().status, 200);
  backend_.set_script([](const ropeway::Request&) {
    FakeScript script;
    script.admit = false;
    return script;
  });
  TestClient waiting(port());
  waiting.Send(PostBytes("/v1/completions", R"({"prompt":"a"})", Bearer("sk-team-a-1")));
  ASSERT_TRUE(backend_.WaitActive(2));
  const std::string admin = Bearer("admin-key-3");
  json drained = json::parse(Request("POST", "/admin/drain", admin).body);
  EXPECT_EQ(drained["draining"], true);
  EXPECT_EQ(drained["running"], 1);
  EXPECT_EQ(drained["waiting"], 1);
  EXPECT_THAT(drained["message"], HasSubstr("DELETE /admin/drain"));
  EXPECT_NE(running.ReadSome(), "") << "what runs goes on";

  EXPECT_EQ(Request("DELETE", "/admin/drain", Bearer("sk-team-a-1")).status, 403);
  EXPECT_EQ(Request("GET", "/readyz").status, 503);
  for (int i = 0; i < 2; ++i) {
    drained = json::parse(Request("DELETE", "/admin/drain", admin).body);
    EXPECT_EQ(drained["draining"], false);
    EXPECT_EQ(Request("GET", "/readyz").status, 200);
  }
  backend_.set_script([](const ropeway::Request&) { return FakeScript(); });
  EXPECT_EQ(Request("POST", "/v1/completions", Bearer("sk-team-a-1"), R"({"prompt":"a"})").status,
            200);

  Request("POST", "/admin/drain", admin);
  server_->StopAccepting();  // As SIGTERM, which no admin undoes.
  EXPECT_THAT(Request("GET", "/readyz").body, HasSubstr(R"("status":"stopping")"));
  EXPECT_EQ(Request("DELETE", "/admin/drain", admin).status, 409);
  EXPECT_EQ(json::parse(Request("POST", "/admin/drain", admin).body)["draining"], true);
  EXPECT_THAT(Request("GET", "/readyz").body, HasSubstr(R"("status":"stopping")"));
}

TEST_F(HttpSecurityTest, WithoutAnAdminKeyTheAdminPathsAreClosed) {
  server_->Stop();
  StartServer(ServerLimits());
  ClientReply reply = Request("POST", "/admin/drain", Bearer("admin-key-3"));
  EXPECT_EQ(reply.status, 403);
  EXPECT_THAT(reply.body, HasSubstr("--admin-key"));
  EXPECT_EQ(Request("GET", "/readyz").status, 200);
}

TEST_F(HttpSecurityTest, KeysThatCannotBeUsedAreRejectedAtStart) {
  ServerOptions options;
  options.api_keys = {{"a", "short"}};
  ApiServer server(options, &backend_);
  EXPECT_EQ(server.Start().field(), "api_keys");
  options.api_keys = {{"scraper", "sk-scrape"}};
  options.api_keys[0].metrics_only = true;
  EXPECT_THAT(ApiServer(options, &backend_).Start().message(), HasSubstr("metrics_only"));
}

// As at SIGTERM, when the time to drain is over: each stream gets an event before its connection
// ends.
TEST_F(HttpSecurityTest, StreamsThatAreEndedAreToldSo) {
  backend_.set_script(EndlessScript);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<TestClient>(port()));
    clients.back()->Send(
        PostBytes("/v1/completions", R"({"prompt":"a","stream":true})", Bearer("sk-team-a-1")));
    ASSERT_EQ(clients.back()->ReadHead().status, 200);
  }
  server_->StopAccepting();
  for (const service::RequestInfo& request : backend_.Requests())
    static_cast<void>(backend_.Cancel(request.id));
  server_->Stop(std::chrono::seconds(60));
  for (auto& client : clients) {
    const std::string rest = client->ReadToEnd().value_or("timeout");
    EXPECT_THAT(rest, HasSubstr("data: {\"error\""));
    EXPECT_THAT(rest, testing::EndsWith("\r\n0\r\n\r\n"));
  }
}

}  // namespace
}  // namespace ropeway::server
