// Priority classes, the queue and the limits of API keys, over real sockets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kPath[] = "/v1/completions";

class HttpPriorityTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.api_keys = {
        {"open", "key-open"}, {"low", "key-low-1"}, {"two", "key-two-1"}, {"slow", "key-slow-1"}};
    options.api_keys[1].priority = Priority::kLow;
    options.api_keys[1].priority_ceiling = Priority::kMedium;
    options.api_keys[1].weight = 2.5;
    options.api_keys[2].max_concurrent_requests = 2;
    options.api_keys[3].tokens_per_minute = 10;
    options.admin_key = "admin-key-3";
    StartServer(options);
  }

  ClientReply Post(const std::string& key, const std::string& fields) {
    TestClient client(port());
    client.Send(PostBytes(kPath, R"({"prompt":"abc")" + fields + "}", Bearer(key)));
    return client.Read();
  }

  ClientReply Get(const std::string& path, const std::string& key) {
    TestClient client(port());
    client.Send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, Bearer(key)));
    return client.Read();
  }

  // Whether the key "two" may have both its requests now.
  bool BothSlotsAreFree() { return Post("key-two-1", R"(,"n":2,"max_tokens":1)").status == 200; }
};

TEST_F(HttpPriorityTest, TheClassIsTheBodysElseTheKeys) {
  for (const auto& [key, fields, priority, weight] :
       {std::tuple("key-open", "", Priority::kMedium, 1.0),
        {"key-open", R"(,"priority":"high")", Priority::kHigh, 1.0},
        {"key-open", R"(,"service_tier":"flex")", Priority::kLow, 1.0},
        {"key-low-1", "", Priority::kLow, 2.5},
        {"key-low-1", R"(,"service_tier":"auto")", Priority::kLow, 2.5},
        {"key-low-1", R"(,"priority":1)", Priority::kMedium, 2.5}}) {
    ASSERT_EQ(Post(key, fields).status, 200) << fields;
    EXPECT_EQ(backend_.submitted().back().priority, priority) << key << fields;
    EXPECT_EQ(backend_.submitted().back().tenant_weight, weight);
  }
}

TEST_F(HttpPriorityTest, AboveTheKeysCeilingIsForbidden) {
  for (const auto& [fields, param] :
       {std::tuple(R"(,"priority":"high")", "priority"),
        {R"(,"priority":0)", "priority"},
        {R"(,"service_tier":"priority")", "service_tier"},
        {R"(,"service_tier":"priority","stream":true)", "service_tier"}}) {
    const ClientReply reply = Post("key-low-1", fields);
    EXPECT_EQ(reply.status, 403) << fields;
    const json error = json::parse(reply.body)["error"];
    EXPECT_EQ(error["param"], param);
    EXPECT_EQ(error["message"],
              fmt::format("'{}' asks for the class high, but this API key may ask for medium at "
                          "most.",
                          param));
  }
  EXPECT_TRUE(backend_.submitted().empty());
}

TEST_F(HttpPriorityTest, TheTierThatServedIsInTheAnswer) {
  EXPECT_EQ(json::parse(Post("key-low-1", R"(,"service_tier":"auto")").body)["service_tier"],
            "flex");
  EXPECT_EQ(json::parse(Post("key-open", R"(,"service_tier":"scale")").body)["service_tier"],
            "priority");
  const json answer = json::parse(Post("key-open", R"(,"priority":"high")").body);
  EXPECT_FALSE(answer.contains("service_tier"));
  EXPECT_FALSE(answer.contains("priority"));
  const ClientReply stream = Post("key-open", R"(,"service_tier":"default","stream":true)");
  EXPECT_EQ(json::parse(api::Events(stream.body)[0])["service_tier"], "default");
}

TEST_F(HttpPriorityTest, AnswersSayWhereTheyStoodInTheQueue) {
  backend_.set_script([](const Request& request) {
    FakeScript script;
    script.queue_position = 3 + static_cast<int32_t>(request.choice);
    return script;
  });
  for (const char* fields : {"", R"(,"stream":true)", R"(,"n":3)", R"(,"n":3,"stream":true)"}) {
    EXPECT_EQ(Post("key-open", fields).headers["x-ropeway-queue-position"], "3") << fields;
  }
}

TEST_F(HttpPriorityTest, TheQueueShowsClassesAndTheCallersRequests) {
  server_->Stop();
  service::QueueInfo info;
  info.classes[0] = {.waiting = 1, .running = 2, .wait_seconds = 0.5};
  info.classes[2] = {.waiting = 3, .running = 0, .wait_seconds = 9.25};
  info.blocked_by = "sequences";
  backend_.set_queue(info);
  SetUp();
  backend_.set_script([](const Request& request) {
    FakeScript script;
    script.endless = true;
    script.admit = request.tenant == "low";
    script.queue_position = request.tenant == "open" ? 4 : 0;
    return script;
  });
  TestClient low(port());
  low.Send(PostBytes(kPath, R"({"prompt":"secret words","stream":true})", Bearer("key-low-1")));
  ASSERT_EQ(low.ReadHead().status, 200);
  TestClient open(port());
  open.Send(PostBytes(kPath, R"({"prompt":"secret words","priority":0})", Bearer("key-open")));
  ASSERT_TRUE(backend_.WaitActive(2));

  const ClientReply reply = Get("/v1/queue", "key-open");
  ASSERT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, testing::Not(HasSubstr("secret")));
  json queue = json::parse(reply.body);
  EXPECT_EQ(queue["object"], "queue");
  EXPECT_EQ(queue["blocked_by"], nullptr) << "another key's request is the first";
  EXPECT_EQ(queue["classes"]["high"],
            json::parse(R"({"waiting":1,"running":2,"wait_seconds":0.5})"));
  EXPECT_EQ(queue["classes"]["medium"]["waiting"], 0);
  EXPECT_EQ(queue["classes"]["low"]["wait_seconds"], 9.25);
  ASSERT_EQ(queue["requests"].size(), 1U);
  json request = queue["requests"][0];
  EXPECT_TRUE(request["id"].is_number_unsigned());
  EXPECT_GE(request["age_seconds"].get<double>(), 0.0);
  request.erase("id");
  request.erase("age_seconds");
  EXPECT_EQ(request, json::parse(R"({"priority":"high","state":"waiting","position":4})"));

  // Another key's waits are its own.
  queue = json::parse(Get("/v1/queue", "key-low-1").body);
  EXPECT_EQ(queue["classes"]["low"]["wait_seconds"], 2.5 * 9.25);
  EXPECT_EQ(queue["classes"]["low"]["waiting"], 3);
  request = queue["requests"][0];
  EXPECT_EQ(request["priority"], "low");
  EXPECT_EQ(request["state"], "running");
  EXPECT_EQ(request["position"], nullptr);
  EXPECT_EQ(json::parse(Get("/v1/queue", "key-two-1").body)["requests"].size(), 0U);

  queue = json::parse(Get("/v1/queue", "admin-key-3").body);
  ASSERT_EQ(queue["requests"].size(), 2U);
  EXPECT_EQ(queue["requests"][0]["tenant"], "low");
  EXPECT_EQ(queue["classes"]["low"]["wait_seconds"], 9.25) << "the longest";
  EXPECT_EQ(queue["blocked_by"], "sequences");
  EXPECT_EQ(Get("/v1/queue", "unknown-key").status, 401);

  TestClient two(port());
  two.Send(PostBytes(kPath, R"({"prompt":"a"})", Bearer("key-two-1")));
  ASSERT_TRUE(backend_.WaitActive(3));
  EXPECT_EQ(json::parse(Get("/v1/queue", "key-two-1").body)["blocked_by"], "sequences");
  EXPECT_EQ(json::parse(Get("/v1/queue", "key-open").body)["blocked_by"], nullptr);
}

TEST_F(HttpPriorityTest, AKeysUnfinishedRequestsAreBounded) {
  backend_.set_script(EndlessScript);
  TestClient first(port());
  first.Send(PostBytes(kPath, R"({"prompt":"abc","stream":true})", Bearer("key-two-1")));
  ASSERT_EQ(first.ReadHead().status, 200);
  ClientReply rejected = Post("key-two-1", R"(,"n":2)");
  EXPECT_EQ(rejected.status, 429);
  const json error = json::parse(rejected.body)["error"];
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
  EXPECT_EQ(error["type"], "requests");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("max_concurrent_requests"));
  EXPECT_EQ(rejected.headers["retry-after"], "9") << "until one of this key's own requests ends";
  EXPECT_EQ(Post("key-two-1", R"(,"n":3)").status, 400);  // Never.
  first.Close();
  ASSERT_TRUE(backend_.WaitIdle());
  backend_.set_script([](const Request&) { return FakeScript(); });
  EXPECT_TRUE(BothSlotsAreFree());
}

// However a request ends, its slot is free afterwards.
TEST_F(HttpPriorityTest, EveryKindOfEndFreesTheSlot) {
  const auto script = [](const std::function<void(FakeScript*)>& change) {
    return [change](const Request& request) {
      FakeScript made;
      if (request.max_tokens != 1) change(&made);
      return made;
    };
  };
  const Status failure(StatusCode::kInternal, "It failed.");
  const std::string two = R"(,"n":2)";
  const std::string streamed = R"(,"n":2,"stream":true)";

  for (const std::string& fields : {two, streamed}) {
    backend_.set_script([](const Request&) { return FakeScript(); });
    EXPECT_EQ(Post("key-two-1", fields).status, 200);
    EXPECT_TRUE(BothSlotsAreFree()) << "an answer";

    backend_.set_script(script([&](FakeScript* made) {
      made->fail_after = 2;
      made->failure = failure;
    }));
    Post("key-two-1", fields);
    ASSERT_TRUE(backend_.WaitIdle());
    EXPECT_TRUE(BothSlotsAreFree()) << "a failure";

    backend_.set_script(script([&](FakeScript* made) {
      made->fail_unadmitted = true;
      made->failure = failure;
    }));
    EXPECT_EQ(Post("key-two-1", fields).status, 500);
    ASSERT_TRUE(backend_.WaitIdle());
    EXPECT_TRUE(BothSlotsAreFree()) << "a rejection after Submit";

    backend_.set_script(script([&](FakeScript* made) { made->rejection = failure; }));
    EXPECT_EQ(Post("key-two-1", fields).status, 500);
    EXPECT_TRUE(BothSlotsAreFree()) << "a rejection by Submit";

    // The second choice is rejected, the first is under way by then.
    backend_.set_script([&](const Request& request) {
      FakeScript made;
      made.endless = request.max_tokens != 1;
      if (made.endless && request.choice == 1) made.rejection = failure;
      return made;
    });
    EXPECT_EQ(Post("key-two-1", fields).status, 500);
    ASSERT_TRUE(backend_.WaitIdle());
    EXPECT_TRUE(BothSlotsAreFree()) << "a rejection of one choice";

    backend_.set_script(script([&](FakeScript* made) { made->endless = true; }));
    for (const bool reset : {false, true}) {
      TestClient client(port());
      client.Send(PostBytes(kPath, R"({"prompt":"abc")" + fields + "}", Bearer("key-two-1")));
      ASSERT_TRUE(backend_.WaitActive(2));
      client.Close(reset);
      ASSERT_TRUE(backend_.WaitIdle());
      EXPECT_TRUE(BothSlotsAreFree()) << "a client that left";
    }

    TestClient client(port());
    client.Send(PostBytes(kPath, R"({"prompt":"abc")" + fields + "}", Bearer("key-two-1")));
    ASSERT_TRUE(backend_.WaitActive(2));
    for (const service::RequestInfo& request : backend_.Requests())
      static_cast<void>(backend_.Cancel(request.id));
    ASSERT_TRUE(backend_.WaitIdle());
    EXPECT_TRUE(BothSlotsAreFree()) << "an admin's cancel";
  }
  // Rejected before a slot was taken.
  EXPECT_EQ(Post("key-two-1", R"(,"n":2,"temperature":9)").status, 400);
  EXPECT_EQ(Post("key-two-1", R"(,"n":2,"model":"unknown")").status, 404);
  EXPECT_TRUE(BothSlotsAreFree());
}

TEST_F(HttpPriorityTest, AKeysTokensPerMinuteAreBounded) {
  ClientReply answer = Post("key-slow-1", R"(,"max_tokens":2)");  // 3 + 2 of 10.
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers["x-ratelimit-limit-tokens"], "10");
  EXPECT_EQ(answer.headers["x-ratelimit-remaining-tokens"], "5");
  EXPECT_FALSE(answer.headers.contains("x-ratelimit-limit-requests"));  // OpenAI's are per minute.
  ClientReply stream = Post("key-slow-1", R"(,"max_tokens":20,"stream":true)");
  EXPECT_EQ(stream.status, 200);
  // Without what it will generate. A part of that may be generated already.
  EXPECT_LE(std::stoi(stream.headers["x-ratelimit-remaining-tokens"]), 2);
  // It ends where the key's tokens do: after 3 + 2 more, and what filled up meanwhile.
  const std::vector<std::string> events = api::Events(stream.body);
  ASSERT_GE(events.size(), 4U);
  EXPECT_LE(events.size(), 8U);
  const json last = json::parse(events[events.size() - 2]);
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(last["ropeway"]["cut_by"], "tokens_per_minute");
  ClientReply rejected = Post("key-slow-1", "");
  EXPECT_EQ(rejected.status, 429);
  const json error = json::parse(rejected.body)["error"];
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
  EXPECT_EQ(error["type"], "tokens");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("tokens_per_minute"));
  // Two are missing: a prompt of three bytes and one token. A token fills up in 6 s.
  const int seconds = std::stoi(rejected.headers["retry-after"]);
  EXPECT_LE(seconds, 12);
  EXPECT_GE(seconds, 1);
  EXPECT_EQ(rejected.headers["x-ratelimit-remaining-tokens"], "0");
  EXPECT_EQ(backend_.submitted().size(), 2U);
  EXPECT_EQ(Post("key-open", "").headers.count("x-ratelimit-limit-tokens"), 0U);
}

// A 64th of 640,000 tokens is 10,000, but no context has room for them.
TEST_F(HttpPriorityTest, NoMoreIsPutAsideThanTheContextHolds) {
  ServerOptions options;
  options.api_keys = {{"large", "key-large"}};
  options.api_keys[0].tokens_per_minute = 640'000;
  StartServer(options);
  backend_.set_script(EndlessScript);
  TestClient client(port());
  client.Send(PostBytes(kPath, R"({"prompt":"abcd","stream":true})", Bearer("key-large")));
  ClientReply reply = client.ReadHead();
  EXPECT_GE(std::stoi(reply.headers["x-ratelimit-remaining-tokens"]), 640'000 - 2048 - 3 - 100);
}

TEST_F(HttpPriorityTest, AnAnswerSaysThatItsKeysTokensEndedIt) {
  const json cut = json::parse(Post("key-slow-1", R"(,"n":2,"max_tokens":20)").body);
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(cut["ropeway"]["cut_by"], "tokens_per_minute");
  const json whole = json::parse(Post("key-open", R"(,"max_tokens":2)").body);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
  EXPECT_FALSE(whole["ropeway"].contains("cut_by"));
}

// A prompt that takes all tokens that a key has is encoded. Further ones are rejected before that,
// until it ends.
TEST_F(HttpPriorityTest, WhatAKeyCannotPayIsNotEncoded) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.admit = false;  // It is being encoded.
    return script;
  });
  const std::string body = R"({"prompt":")" + std::string(66'000, 'x') + "\"}";
  TestClient first(port());
  first.Send(PostBytes(kPath, body, Bearer("key-slow-1")));
  ASSERT_TRUE(backend_.WaitActive(1));
  for (int i = 0; i < 20; ++i) {
    TestClient client(port());
    client.Send(PostBytes(kPath, body, Bearer("key-slow-1")));
    const ClientReply rejected = client.Read();
    EXPECT_EQ(rejected.status, 429);
    EXPECT_EQ(json::parse(rejected.body)["error"]["type"], "tokens");
  }
  EXPECT_EQ(backend_.submitted().size(), 1U);
  first.Close();
  EXPECT_TRUE(backend_.WaitIdle());
}

// Known only once it is encoded: the fake says three tokens of any prompt.
TEST_F(HttpPriorityTest, APromptThatTheKeyCannotPayEnds) {
  const std::string twelve = R"({"prompt":")" + std::string(12, 'x') + R"(","max_tokens":4})";
  TestClient client(port());
  client.Send(PostBytes(kPath, twelve, Bearer("key-slow-1")));
  EXPECT_EQ(client.Read().status, 200);
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.prompt_tokens = 11;
    return script;
  });
  for (const char* fields : {"", R"(,"stream":true)"}) {
    ClientReply never = Post("key-slow-1", R"(,"max_tokens":1)" + std::string(fields));
    EXPECT_EQ(never.status, 400);
    EXPECT_EQ(json::parse(never.body)["error"]["param"], "prompt");
    EXPECT_TRUE(backend_.WaitIdle()) << "the backend was told to cancel it";
  }
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.prompt_tokens = 9;
    return script;
  });
  ClientReply later = Post("key-slow-1", R"(,"max_tokens":1)");
  EXPECT_EQ(later.status, 429);
  EXPECT_GE(std::stoi(later.headers["retry-after"]), 1);
  EXPECT_EQ(later.headers["x-ratelimit-limit-tokens"], "10");
  EXPECT_TRUE(backend_.WaitIdle());
}

// The tokens of a request that failed or was cancelled count: they were computed.
TEST_F(HttpPriorityTest, TokensCountWhateverTheEnd) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 6;
    script.failure = {StatusCode::kInternal, "It failed."};
    return script;
  });
  EXPECT_EQ(Post("key-slow-1", "").status, 500);
  EXPECT_EQ(Post("key-slow-1", "").status, 429) << "9 of 10 are used";
}

}  // namespace
}  // namespace ropeway::server
