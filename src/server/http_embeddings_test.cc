// Embeddings over real sockets: thousands of inputs in one request, a window of them at a time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int kMostEmbedded = 2048;
constexpr int32_t kFakeSize = 4;

json EmbeddedInputs(int count) {
  json inputs = json::array();
  for (int i = 0; i < count; ++i) inputs.push_back("input " + std::to_string(i));
  return inputs;
}

class HttpEmbeddingsTest : public ServerTest {
 protected:
  void SetUp() override {
    service::ModelInfo model;
    model.id = "fake-model";
    model.max_model_len = 2048;
    model.embedding_size = kFakeSize;
    backend_.set_models({model});
    ServerTest::SetUp();
    backend_.set_step_pause(std::chrono::microseconds(10));
  }

  ClientReply Post(const std::string& path, const json& body) {
    TestClient client(port());
    return client.Post(path, body.dump());
  }
};

TEST_F(HttpEmbeddingsTest, MostInputsComeBackInOrder) {
  // The backend takes a whole window before it computes any.
  backend_.set_hold_steps(true);
  std::thread releases([&] {
    EXPECT_TRUE(backend_.WaitActive(128));
    backend_.set_hold_steps(false);
  });
  const ClientReply reply = Post("/v1/embeddings", {{"input", EmbeddedInputs(kMostEmbedded)}});
  releases.join();
  ASSERT_EQ(reply.status, 200) << reply.body.substr(0, 300);
  const json answer = json::parse(reply.body);
  ASSERT_EQ(answer["data"].size(), size_t{kMostEmbedded});
  for (int i = 0; i < kMostEmbedded; ++i) {
    const json& one = answer["data"][static_cast<size_t>(i)];
    ASSERT_EQ(one["index"], i);
    const std::vector<float> expected =
        FakeBackend::EmbeddingOf("input " + std::to_string(i), kFakeSize);
    ASSERT_EQ(one["embedding"].get<std::vector<float>>(), expected) << i;
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3 * kMostEmbedded);
  EXPECT_EQ(answer["model"], "fake-model");
  // The queue never had more than the window.
  const std::vector<size_t> submissions = backend_.submissions();
  EXPECT_LE(*std::max_element(submissions.begin(), submissions.end()), 128U);
  // The backend still counts the one that is being told its end.
  EXPECT_LE(backend_.most_active(), 128 + 1);
  EXPECT_GE(backend_.most_active(), 64) << "the machine is kept busy";
}

TEST_F(HttpEmbeddingsTest, AFaultSaysWhichInputItIsOf) {
  backend_.set_script([](const Request& request) {
    FakeScript script;
    script.failure = InvalidArgument("the prompt is empty", "prompt");
    script.fail_unadmitted = std::get<std::string>(request.prompt) == "input 300";
    return script;
  });
  ClientReply reply = Post("/v1/embeddings", {{"input", EmbeddedInputs(400)}});
  EXPECT_EQ(reply.status, 400);
  const json error = json::parse(reply.body)["error"];
  EXPECT_EQ(error["message"], "at index 300: the prompt is empty");
  EXPECT_EQ(error["param"], "input");
  reply = Post("/v1/embeddings", {{"input", "input 300"}});
  EXPECT_EQ(json::parse(reply.body)["error"]["message"], "the prompt is empty");
  // So do other requests of several prompts, whole and streamed.
  for (const bool stream : {false, true}) {
    reply = Post("/v1/completions", {{"prompt", {"a", "input 300"}}, {"n", 3}, {"stream", stream}});
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(json::parse(reply.body)["error"]["message"], "at index 1: the prompt is empty");
  }
}

TEST_F(HttpEmbeddingsTest, AFaultOfAFieldIsOfNoInput) {
  backend_.set_script([](const Request& request) {
    FakeScript script;
    script.failure = InvalidArgument("'dimensions' is too large", "dimensions");
    script.fail_unadmitted = std::get<std::string>(request.prompt) == "input 1";
    return script;
  });
  ClientReply reply = Post("/v1/embeddings", {{"input", EmbeddedInputs(3)}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json::parse(reply.body)["error"]["message"], "'dimensions' is too large");
  for (const bool stream : {false, true}) {
    reply = Post("/v1/completions", {{"prompt", {"a", "input 1"}}, {"stream", stream}});
    EXPECT_EQ(json::parse(reply.body)["error"]["message"], "'dimensions' is too large");
  }
}

TEST_F(HttpEmbeddingsTest, AChatWaitsBehindAWindowAtMost) {
  backend_.set_step_pause(std::chrono::milliseconds(2));
  std::thread embeds([&] {
    EXPECT_EQ(Post("/v1/embeddings", {{"input", EmbeddedInputs(kMostEmbedded)}}).status, 200);
  });
  ASSERT_TRUE(Eventually([&] { return backend_.submitted().size() > 300; }));
  const ClientReply chat =
      Post("/v1/chat/completions",
           json::parse(R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":1})"));
  const size_t before = backend_.submitted().size();
  EXPECT_EQ(chat.status, 200);
  EXPECT_LT(before, size_t{kMostEmbedded}) << "it ended before the inputs did";
  embeds.join();
}

TEST_F(HttpEmbeddingsTest, LongInputsHaveANarrowWindow) {
  json inputs = json::array();
  for (int i = 0; i < 40; ++i) inputs.push_back(std::string(4096, 'x'));  // About 1,024 tokens.
  backend_.set_hold_steps(true);
  std::thread embeds([&] { EXPECT_EQ(Post("/v1/embeddings", {{"input", inputs}}).status, 200); });
  EXPECT_TRUE(backend_.WaitActive(4));
  backend_.set_hold_steps(false);
  embeds.join();
  EXPECT_LE(backend_.most_active(), 4 + 1);
}

TEST_F(HttpEmbeddingsTest, WhatIsRejectedBeforeAnyIsAcceptedIsRejectedAsAWhole) {
  backend_.set_rejection({StatusCode::kResourceExhausted, "the queue is full"});
  const ClientReply reply = Post("/v1/embeddings", {{"input", EmbeddedInputs(300)}});
  EXPECT_EQ(reply.status, 429);
  EXPECT_NE(reply.headers.at("retry-after"), "");
  EXPECT_TRUE(backend_.submitted().empty());
}

TEST_F(HttpEmbeddingsTest, WhatIsRejectedLaterIsTriedAgain) {
  for (const bool in_submit : {true, false}) {
    std::atomic<int> rejected{0};
    backend_.set_script([&](const Request& request) {
      FakeScript script;
      const std::string& text = std::get<std::string>(request.prompt);
      if (text != "input 200" || rejected.exchange(1) != 0) return script;
      const Status full(StatusCode::kResourceExhausted, "the queue is full");
      if (in_submit) {
        script.rejection = full;
      } else {
        script.fail_unadmitted = true;
        script.failure = full;
      }
      return script;
    });
    const ClientReply reply = Post("/v1/embeddings", {{"input", EmbeddedInputs(300)}});
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(rejected, 1);
    const json answer = json::parse(reply.body);
    for (int i = 0; i < 300; ++i) {
      const json& one = answer["data"][static_cast<size_t>(i)];
      ASSERT_EQ(one["embedding"].get<std::vector<float>>(),
                FakeBackend::EmbeddingOf("input " + std::to_string(i), kFakeSize));
    }
  }
}

TEST_F(HttpEmbeddingsTest, OneThatFailsFailsTheRequest) {
  backend_.set_script([](const Request& request) {
    FakeScript script;
    if (std::get<std::string>(request.prompt) == "input 200") {
      script.fail_unadmitted = true;
      script.failure = InvalidArgument("the prompt is too long", "prompt");
    }
    return script;
  });
  const ClientReply reply = Post("/v1/embeddings", {{"input", EmbeddedInputs(kMostEmbedded)}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json::parse(reply.body)["error"]["param"], "input");
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_LT(backend_.submitted().size(), 600U) << "the rest is not computed";
}

TEST_F(HttpEmbeddingsTest, AClientThatLeavesCancelsWhatItAskedFor) {
  backend_.set_hold_steps(true);
  {
    TestClient client(port());
    client.Send(
        PostBytes("/v1/embeddings", json({{"input", EmbeddedInputs(kMostEmbedded)}}).dump()));
    ASSERT_TRUE(backend_.WaitActive(128));
  }
  backend_.set_hold_steps(false);
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_LT(backend_.submitted().size(), 600U);
}

TEST_F(HttpEmbeddingsTest, MoreDimensionsThanThereAreAreAnError) {
  ClientReply reply = Post("/v1/embeddings", {{"input", "a"}, {"dimensions", kFakeSize + 1}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json::parse(reply.body)["error"]["param"], "dimensions");
  EXPECT_TRUE(backend_.submitted().empty());
  EXPECT_EQ(Post("/v1/embeddings", {{"input", "a"}, {"dimensions", kFakeSize}}).status, 200);
  // A gateway knows the size once the answer is there.
  service::ModelInfo unknown;
  unknown.id = "fake-model";
  backend_.set_models({unknown});
  StartServer();
  reply = Post("/v1/embeddings", {{"input", "a"}, {"dimensions", kFakeSize + 1}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json::parse(reply.body)["error"]["param"], "dimensions");
}

TEST_F(HttpEmbeddingsTest, EachPathSpeaksItsDialect) {
  const json ollama =
      json::parse(Post("/api/embed", {{"model", "fake-model"}, {"input", "a"}}).body);
  EXPECT_EQ(ollama["embeddings"].size(), 1U);
  const json old =
      json::parse(Post("/api/embeddings", {{"model", "fake-model"}, {"prompt", "a"}}).body);
  EXPECT_EQ(old["embedding"].size(), size_t{kFakeSize});
  EXPECT_EQ(json::parse(Post("/embedding", {{"content", "a"}}).body)[0]["index"], 0);
  EXPECT_EQ(json::parse(Post("/embeddings", {{"input", "a"}}).body)["object"], "list")
      << "OpenAI's without /v1";
  const size_t submitted = backend_.submitted().size();
  ClientReply none = Post("/api/embed", {{"model", "fake-model"}, {"input", json::array()}});
  EXPECT_EQ(none.status, 200) << none.body;
  EXPECT_EQ(json::parse(none.body)["embeddings"], json::array());
  none = Post("/api/embeddings", {{"model", "fake-model"}, {"prompt", ""}});
  EXPECT_EQ(none.status, 200) << none.body;
  EXPECT_EQ(none.body, R"({"embedding":[]})");
  EXPECT_EQ(backend_.submitted().size(), submitted);
  const ClientReply wrong = Post("/api/embed", {{"model", "no-model"}, {"input", "a"}});
  EXPECT_EQ(wrong.status, 404);
  EXPECT_THAT(json::parse(wrong.body)["error"].get<std::string>(), HasSubstr("no-model"));
}

TEST_F(HttpEmbeddingsTest, AKeyPaysForItsPromptsAndCountsOneRequest) {
  ServerOptions options;
  options.api_keys = {{.name = "k",
                       .key = "secret-key",
                       .max_concurrent_requests = 1,
                       .tokens_per_minute = 100'000}};
  StartServer(options);
  const std::string headers = "Authorization: Bearer secret-key\r\n";
  TestClient client(port());
  client.Send(PostBytes("/v1/embeddings", json({{"input", EmbeddedInputs(kMostEmbedded)}}).dump(),
                        headers));
  const ClientReply reply = client.Read();
  ASSERT_EQ(reply.status, 200) << reply.body.substr(0, 200);
  EXPECT_EQ(reply.headers.at("x-ratelimit-limit-tokens"), "100000");
  client.Send(PostBytes("/v1/embeddings", json({{"input", "a"}}).dump(), headers));
  EXPECT_EQ(client.Read().status, 200) << "the key has none under way";
  client.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  EXPECT_THAT(client.Read().body,
              HasSubstr(fmt::format("ropeway_tenant_prompt_tokens_total{{tenant=\"k\"}} {}\n",
                                    3 * (kMostEmbedded + 1))));
}

TEST_F(HttpEmbeddingsTest, AKeyReservesNoMoreThanATextIsCutTo) {
  ServerOptions options;
  options.api_keys = {{.name = "k", .key = "secret-key", .tokens_per_minute = 4200}};
  StartServer(options);
  backend_.set_hold_steps(true);
  const json body = {{"input", std::string(100'000, 'x')}, {"truncate", true}};
  TestClient first(port());
  TestClient second(port());
  for (TestClient* client : {&first, &second}) {
    client->Send(PostBytes("/v1/embeddings", body.dump(), Bearer("secret-key")));
  }
  EXPECT_TRUE(backend_.WaitActive(2)) << "twice the context's 2,048 tokens";
  backend_.set_hold_steps(false);
  EXPECT_EQ(first.Read().status, 200);
  EXPECT_EQ(second.Read().status, 200);
}

// As a chat that was cancelled in the queue costs nothing.
TEST_F(HttpEmbeddingsTest, AKeyPaysOnlyForWhatWasComputedBeforeItsClientLeft) {
  ServerOptions options;
  options.api_keys = {{.name = "k", .key = "secret-key", .tokens_per_minute = 100'000}};
  StartServer(options);
  backend_.set_script([](const Request& request) {
    FakeScript script;
    script.starts = std::get<std::string>(request.prompt) != "queued";
    script.ends = std::get<std::string>(request.prompt) != "begun";
    return script;
  });
  {
    TestClient client(port());
    client.Send(PostBytes("/v1/embeddings",
                          json({{"input", {"queued", "begun", "done", "queued", "queued"}}}).dump(),
                          Bearer("secret-key")));
    ASSERT_TRUE(backend_.WaitDeltas(2));
    ASSERT_TRUE(backend_.WaitActive(4));
  }
  ASSERT_TRUE(backend_.WaitIdle());
  TestClient client(port());
  client.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + Bearer("secret-key") + "\r\n");
  const std::string metrics = client.Read().body;
  const std::string prompts = "ropeway_tenant_prompt_tokens_total{tenant=\"k\"} ";
  EXPECT_EQ(metrics.substr(metrics.find(prompts) + prompts.size(), 2), "6\n");
}

TEST_F(HttpEmbeddingsTest, TheAnswersMemoryIsBounded) {
  ServerLimits limits;
  limits.max_answers_bytes = size_t{64} << 10;
  StartServer(limits);
  const ClientReply reply = Post("/v1/embeddings", {{"input", EmbeddedInputs(kMostEmbedded)}});
  EXPECT_EQ(reply.status, 503) << reply.body.substr(0, 200);
  EXPECT_EQ(reply.headers.at("x-should-retry"), "false");
  EXPECT_EQ(json::parse(reply.body)["error"]["param"], "input");
  EXPECT_TRUE(backend_.submitted().empty());
  EXPECT_EQ(Post("/v1/embeddings", {{"input", EmbeddedInputs(16)}}).status, 200);
}

// A gateway's: its vectors are charged as they come, whatever their size.
TEST_F(HttpEmbeddingsTest, TheMemoryOfVectorsOfAnUnknownSizeIsBounded) {
  service::ModelInfo unknown;
  unknown.id = "fake-model";
  backend_.set_models({unknown});
  ServerLimits limits;
  limits.max_answers_bytes = size_t{1} << 20;
  StartServer(limits);
  const auto embed = [&](int32_t size, int inputs) {
    backend_.set_script([size](const Request&) {
      FakeScript script;
      script.embedding_size = size;
      return script;
    });
    return Post("/v1/embeddings", {{"input", EmbeddedInputs(inputs)}});
  };
  EXPECT_EQ(embed(4, kMostEmbedded).status, 200) << "a guess would forbid it";
  for (const auto& [size, inputs] :
       {std::pair(500, 200), std::pair(5'000, 20), std::pair(100'000, 1), std::pair(200'000, 1)}) {
    const ClientReply reply = embed(size, inputs);
    EXPECT_EQ(reply.status, 503) << size << ": " << reply.body.substr(0, 200);
    EXPECT_THAT(reply.body, HasSubstr("fewer inputs at a time"));
    EXPECT_EQ(reply.headers.at("x-should-retry"), "false");
    EXPECT_TRUE(backend_.WaitIdle());
  }
  EXPECT_EQ(embed(1'000, 40).status, 200) << "nothing of them is held";
  EXPECT_EQ(embed(1'000, 40).status, 200);
}

TEST_F(HttpEmbeddingsTest, AKeyPaysForWhatWasComputedAndIsTooMuch) {
  service::ModelInfo unknown;
  unknown.id = "fake-model";
  backend_.set_models({unknown});
  ServerOptions options;
  options.limits.max_answers_bytes = size_t{1} << 20;
  options.api_keys = {{.name = "k", .key = "secret-key", .tokens_per_minute = 100'000}};
  StartServer(options);
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.embedding_size = 200'000;
    return script;
  });
  TestClient client(port());
  client.Send(PostBytes("/v1/embeddings", json({{"input", "a"}}).dump(), Bearer("secret-key")));
  EXPECT_EQ(client.Read().status, 503);
  EXPECT_TRUE(backend_.WaitIdle());
  client.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + Bearer("secret-key") + "\r\n");
  EXPECT_THAT(client.Read().body,
              HasSubstr("ropeway_tenant_prompt_tokens_total{tenant=\"k\"} 3\n"));
}

}  // namespace
}  // namespace ropeway::server
