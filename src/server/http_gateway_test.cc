// API keys of gateways: the tenants that their requests count for, and what gateways are told, over
// real sockets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class HttpGatewayTest : public ServerTest {
 protected:
  void SetUp() override {
    service::ModelInfo model;
    model.id = "fake-model";
    model.max_model_len = 2048;
    model.digest = "d1";
    model.numerics = "1";
    model.limits = "max_model_len 2048";
    model.vocabulary = 49152;
    backend_.set_models({model});
    service::QueueInfo queue;
    queue.classes[0] = {.waiting = 3, .running = 2, .wait_seconds = 0.5};
    queue.blocked_by = "max_num_seqs";
    backend_.set_queue(queue);
    ServerOptions options;
    options.api_keys = {{"gate", "key-gate-1"}, {"team", "key-team-1", "shared"}};
    options.api_keys[0].gateway = true;
    options.api_keys[0].weight = 3.0;
    options.api_keys[0].max_concurrent_requests = 2;
    options.api_keys[1].max_concurrent_requests = 1;
    options.admin_key = "admin-key-3";
    StartServer(options);
  }

  ClientReply Post(const std::string& key, const std::string& fields) {
    TestClient client(port());
    client.Send(PostBytes("/v1/completions", R"({"prompt":"abc")" + fields + "}", Bearer(key)));
    return client.Read();
  }

  ClientReply Get(const std::string& path, const std::string& key) {
    TestClient client(port());
    client.Send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, Bearer(key)));
    return client.Read();
  }

  static std::string For(const std::string& tenant) {
    return R"(,"ropeway_gateway":{"tenant":")" + tenant + "\"}";
  }
};

TEST_F(HttpGatewayTest, WithoutTheRightItIsForbidden) {
  for (const char* fields : {"{}", R"({"tenant":"team"})", R"({"ids":true})"}) {
    for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
      const std::string body = fmt::format(
          R"({{"{}":{},"stream":true,"ropeway_gateway":{}}})",
          std::string(path).ends_with("chat/completions") ? "messages" : "prompt",
          std::string(path).ends_with("chat/completions") ? R"([{"role":"user","content":"c"}])"
                                                          : "\"p\"",
          fields);
      TestClient client(port());
      client.Send(PostBytes(path, body, Bearer("key-team-1")));
      const ClientReply reply = client.Read();
      EXPECT_EQ(reply.status, 403) << body;
      const json error = json::parse(reply.body)["error"];
      EXPECT_EQ(error["param"], "ropeway_gateway");
      EXPECT_EQ(error["code"], "forbidden");
      EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("'gateway = true'"));
    }
  }
  EXPECT_TRUE(backend_.submitted().empty());
}

TEST_F(HttpGatewayTest, WithoutKeysNobodyHasTheRight) {
  StartServer();
  TestClient client(port());
  EXPECT_EQ(client.Post("/v1/completions", R"({"prompt":"p","ropeway_gateway":{}})").status, 403);
  EXPECT_FALSE(json::parse(client.Get("/v1/models").body)["data"][0].contains("ropeway"));
}

TEST_F(HttpGatewayTest, TheRequestIsItsTenants) {
  ASSERT_EQ(Post("key-gate-1",
                 R"(,"cache_salt":"salt","stream":true,"seed":4,"ropeway_gateway":{"tenant":"team",
                     "cache_scope":"s","weight":0.5,"choice":3,"resume_ids":[1,2]})")
                .status,
            200);
  Request request = backend_.submitted().back();
  EXPECT_EQ(request.tenant, "team");
  EXPECT_EQ(request.cache_scope, "s");
  EXPECT_EQ(request.cache_salt, "salt");
  EXPECT_EQ(request.tenant_weight, 0.5);
  EXPECT_EQ(request.choice, 3U);
  EXPECT_EQ(request.resume_ids, (std::vector<TokenId>{1, 2}));
  // Without a named scope it is the tenant alone, not the scope of a key of this name.
  ASSERT_EQ(Post("key-gate-1", For("team")).status, 200);
  request = backend_.submitted().back();
  EXPECT_EQ(request.cache_scope, "");
  EXPECT_EQ(request.tenant_weight, 3.0);
  // The gateway's own.
  ASSERT_EQ(Post("key-gate-1", "").status, 200);
  EXPECT_EQ(backend_.submitted().back().tenant, "gate");
  ASSERT_EQ(Post("key-team-1", "").status, 200);
  EXPECT_EQ(backend_.submitted().back().cache_scope, "shared");
}

TEST_F(HttpGatewayTest, TheLimitsAreTheTenantsElseTheGateways) {
  backend_.set_script([](const Request& request) {
    return request.max_tokens == 1 ? FakeScript() : EndlessScript(request);
  });
  std::vector<std::unique_ptr<TestClient>> streams;
  const auto open = [&](const std::string& tenant) {
    streams.push_back(std::make_unique<TestClient>(port()));
    streams.back()->Send(PostBytes("/v1/completions",
                                   R"({"prompt":"p","stream":true)" + For(tenant) + "}",
                                   Bearer("key-gate-1")));
    return streams.back()->ReadHead().status;
  };
  EXPECT_EQ(open("team"), 200);
  EXPECT_EQ(Post("key-gate-1", R"(,"max_tokens":1)" + For("team")).status, 429);
  EXPECT_EQ(Post("key-team-1", R"(,"max_tokens":1)").status, 429) << "it is one account";
  // Tenants without a key here share the gateway's account.
  EXPECT_EQ(open("one"), 200);
  EXPECT_EQ(open("two"), 200);
  EXPECT_EQ(Post("key-gate-1", R"(,"max_tokens":1)" + For("three")).status, 429);
  streams.clear();
  ASSERT_TRUE(backend_.WaitIdle());
  EXPECT_TRUE(Eventually(
      [&] { return Post("key-gate-1", R"(,"max_tokens":1)" + For("team")).status == 200; }));
}

// What another server generated, and the prompt, were charged there.
TEST_F(HttpGatewayTest, WhatIsGoneOnWithIsChargedForTheRest) {
  ASSERT_EQ(Post("key-gate-1",
                 R"(,"max_tokens":5,"stream":true,"seed":1,
                     "ropeway_gateway":{"tenant":"team","resume_ids":[1,2,3]})")
                .status,
            200);
  const std::string metrics = Get("/metrics", "admin-key-3").body;
  EXPECT_THAT(metrics, HasSubstr("ropeway_tenant_prompt_tokens_total{tenant=\"team\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("ropeway_tenant_generation_tokens_total{tenant=\"team\"} 2\n"));
  // The HTTP request was the gateway's.
  EXPECT_TRUE(Eventually([&] {
    return Get("/metrics", "admin-key-3")
               .body.find("ropeway_tenant_http_requests_total{code=\"200\",tenant=\"gate\"} 1\n") !=
           std::string::npos;
  }));
}

TEST_F(HttpGatewayTest, OnlyAGatewayIsToldWhatDecidesTheBits) {
  const json facts = json::parse(
      R"({"digest":"d1","numerics":"1","limits":"max_model_len 2048","vocabulary":49152})");
  EXPECT_EQ(json::parse(Get("/v1/models", "key-gate-1").body)["data"][0]["ropeway"], facts);
  EXPECT_EQ(json::parse(Get("/v1/models/fake-model", "key-gate-1").body)["ropeway"], facts);
  EXPECT_FALSE(json::parse(Get("/v1/models", "key-team-1").body)["data"][0].contains("ropeway"));
}

// It decides by the load of all where to send a request.
TEST_F(HttpGatewayTest, AGatewaySeesTheNumbersOfAll) {
  const json queue = json::parse(Get("/v1/queue", "key-gate-1").body);
  EXPECT_EQ(queue["classes"]["high"],
            json::parse(R"({"waiting":3,"running":2,"wait_seconds":0.5})"));
  EXPECT_EQ(queue["blocked_by"], "max_num_seqs");
  EXPECT_EQ(json::parse(Get("/v1/queue", "key-team-1").body)["blocked_by"], nullptr);
  EXPECT_TRUE(json::parse(Get("/health", "key-gate-1").body).contains("batching"));
  EXPECT_FALSE(json::parse(Get("/health", "key-team-1").body).contains("batching"));
  EXPECT_THAT(Get("/metrics", "key-gate-1").body, HasSubstr("fake_metric 1"));
  EXPECT_EQ(Get("/admin/requests", "key-gate-1").status, 403);
}

}  // namespace
}  // namespace ropeway::server
