// Ollama's API over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kAsks[] =
    R"("messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":3})";

class HttpOllamaTest : public ServerTest {
 protected:
  ClientReply Ask(const std::string& members = "", const std::string& path = "/api/chat") {
    return TestClient(port()).Post(path, std::string("{") + kAsks + members + "}");
  }
  ClientReply Post(const std::string& path, const std::string& body) {
    return TestClient(port()).Post(path, body);
  }
  json Got(const std::string& path) {
    const ClientReply reply = TestClient(port()).Get(path);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body);
  }
  static std::vector<json> JsonLines(const std::string& body) {
    std::vector<json> lines;
    std::istringstream in(body);
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }
  static std::string ErrorOf(const ClientReply& reply) {
    const json body = json::parse(reply.body);
    EXPECT_EQ(body.size(), 1U) << reply.body;
    return body["error"].get<std::string>();
  }
};

TEST_F(HttpOllamaTest, AChatIsStreamed) {
  ClientReply reply = Ask();
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers["content-type"], "application/x-ndjson");
  const std::vector<json> lines = JsonLines(reply.body);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1]["message"]["content"], "w1 ");
  EXPECT_EQ(lines[1]["done"], false);
  EXPECT_EQ(lines[3]["done_reason"], "length");
  EXPECT_EQ(lines[3]["eval_count"], 3);
  EXPECT_EQ(lines[3]["model"], "fake-model");
}

TEST_F(HttpOllamaTest, OrWhole) {
  ClientReply reply = Ask(R"(,"stream":false,"x":1)");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers["content-type"], "application/json");
  EXPECT_EQ(reply.headers["x-ropeway-ignored"], "x");
  EXPECT_EQ(json::parse(reply.body)["message"]["content"], "w0 w1 w2 ");
  reply = Post("/api/generate", R"({"prompt":"Hi","stream":false,"options":{"num_predict":2}})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(json::parse(reply.body)["response"], "w0 w1 ");
  EXPECT_TRUE(std::holds_alternative<Chat>(backend_.submitted().back().prompt));
}

TEST_F(HttpOllamaTest, ANameMayHaveItsTag) {
  for (const char* name : {"fake-model", "fake-model:latest"}) {
    const ClientReply reply = Ask(std::string(R"(,"stream":false,"model":")") + name + "\"");
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(Post("/api/show", std::string(R"({"model":")") + name + "\"}").status, 200);
  }
  for (const char* name : {"other", "fake-model:8b"}) {
    const ClientReply reply = Ask(std::string(R"(,"model":")") + name + "\"");
    EXPECT_EQ(reply.status, 404);
    EXPECT_THAT(ErrorOf(reply), HasSubstr(name));
  }
}

// A gateway before an Ollama lists names with tags.
TEST_F(HttpOllamaTest, ANameMayLackItsTag) {
  service::ModelInfo model;
  model.id = "sea:latest";
  backend_.set_models({model, {.id = "river", .aliases = {"brook"}}});
  StartServer();
  EXPECT_EQ(Ask(R"(,"model":"sea","stream":false)").status, 200);
  std::vector<std::string> names;
  const json tags = Got("/api/tags");
  for (const json& entry : tags["models"]) names.push_back(entry["model"]);
  EXPECT_EQ(names, (std::vector<std::string>{"sea:latest", "river:latest", "brook:latest"}));
}

TEST_F(HttpOllamaTest, WhatAsksForNoOutputReachesNoEngine) {
  const ClientReply chat = Post("/api/chat", R"({"model":"fake-model"})");
  EXPECT_EQ(chat.status, 200);
  EXPECT_EQ(json::parse(chat.body)["done_reason"], "load");
  const ClientReply text = Post("/api/generate", R"({"model":"fake-model","prompt":""})");
  EXPECT_EQ(text.status, 200);
  EXPECT_EQ(json::parse(text.body)["done_reason"], "load");
  EXPECT_EQ(Post("/api/chat", R"({"model":"none"})").status, 404);
  EXPECT_TRUE(backend_.submitted().empty());
}

TEST_F(HttpOllamaTest, ErrorsAreTexts) {
  ClientReply reply = Ask(R"(,"think":"much")");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(ErrorOf(reply), HasSubstr("'think'"));
  reply = Post("/api/chat", "{");
  EXPECT_EQ(reply.status, 400);
  ErrorOf(reply);
  backend_.set_rejection({StatusCode::kResourceExhausted, "The queue is full."});
  reply = Ask();
  EXPECT_EQ(reply.status, 429);
  EXPECT_THAT(ErrorOf(reply), HasSubstr("The queue is full."));
  backend_.set_rejection({});
}

TEST_F(HttpOllamaTest, ALateFailureIsALine) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 1;
    script.failure = {StatusCode::kInternal, "It broke."};
    return script;
  });
  const ClientReply reply = StreamThatFails("/api/chat", std::string("{") + kAsks + "}");
  EXPECT_EQ(reply.status, 200);
  const std::vector<json> lines = JsonLines(reply.body);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[1]["error"].get<std::string>(), HasSubstr("It broke."));
}

TEST_F(HttpOllamaTest, TellsWhatTheModelsAre) {
  service::ModelInfo model;
  model.id = "sea";
  model.max_model_len = 2048;
  model.created = 1'700'000'000;
  model.sampling.temperature = 0.25F;
  model.sampling.repetition_penalty = 1.5F;
  model.details = {.architecture = "llama",
                   .quantization = "Q4_1",
                   .parameters = 134'515'008,
                   .bytes = 99,
                   .hidden_size = 576,
                   .layers = 30,
                   .calls_tools = true,
                   .thinks = true};
  backend_.set_models({model});
  StartServer();
  const json details = json::parse(R"({"parent_model":"","format":"gguf","family":"llama",
      "families":["llama"],"parameter_size":"134.52M","quantization_level":"Q4_1"})");
  const json entry = Got("/api/tags")["models"].at(0);
  EXPECT_EQ(entry["name"], "sea:latest");
  EXPECT_EQ(entry["modified_at"], "2023-11-14T22:13:20.000000000Z");
  EXPECT_EQ(entry["size"], 99);
  EXPECT_EQ(entry["digest"], std::string(64, '0'));
  EXPECT_EQ(entry["details"], details);
  json loaded = Got("/api/ps")["models"].at(0);
  EXPECT_EQ(loaded["context_length"], 2048);
  EXPECT_EQ(loaded["expires_at"], "9999-12-31T23:59:59Z");
  EXPECT_EQ(loaded["size_vram"], 0);
  model.details.on_gpu = true;
  backend_.set_models({model});
  loaded = Got("/api/ps")["models"].at(0);
  EXPECT_EQ(loaded["size_vram"], loaded["size"]) << "all of it is in a GPU's memory";
  ClientReply reply = Post("/api/show", R"({"name":"sea","verbose":false,"x":1})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers["x-ropeway-ignored"], "x");
  const json shown = json::parse(reply.body);
  EXPECT_EQ(shown["details"], details);
  EXPECT_EQ(shown["template"], "{{ messages }}");
  EXPECT_EQ(shown["capabilities"], (json{"completion", "tools", "thinking"}));
  EXPECT_EQ(shown["model_info"]["llama.context_length"], 2048);
  EXPECT_EQ(shown["model_info"]["general.parameter_count"], 134'515'008);
  EXPECT_THAT(shown["parameters"].get<std::string>(),
              testing::AllOf(HasSubstr("temperature"), HasSubstr("0.25"),
                             HasSubstr("repeat_penalty"), HasSubstr("1.5")));
}

TEST_F(HttpOllamaTest, AnEncoderOnlyEmbeds) {
  service::ModelInfo model;
  model.id = "sea";
  model.embeds_only = true;
  model.details = {.architecture = "bert", .calls_tools = true, .thinks = true};
  backend_.set_models({model});
  StartServer();
  EXPECT_EQ(Got("/api/tags")["models"].at(0)["capabilities"], json{"embedding"});
  const ClientReply reply = Post("/api/show", R"({"model":"sea"})");
  EXPECT_EQ(json::parse(reply.body)["capabilities"], json{"embedding"});
}

TEST_F(HttpOllamaTest, ShowNamesWhatIsWrong) {
  for (const auto& [body, status, word] : std::vector<std::tuple<std::string, int, std::string>>{
           {"{}", 400, "'model' is required"},
           {R"({"model":1})", 400, "'model'"},
           {R"({"model":"a","name":"b"})", 400, "differ"},
           {R"({"model":"none"})", 404, "none"},
           {"[]", 400, "object"},
           {R"({"model":")" + std::string(100'000, 'x') + "\"}", 413, "too large"}}) {
    const ClientReply reply = Post("/api/show", body);
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_THAT(ErrorOf(reply), HasSubstr(word));
  }
}

TEST_F(HttpOllamaTest, TheRestOfTheApi) {
  EXPECT_THAT(Got("/api/version")["version"].get<std::string>(),
              testing::MatchesRegex("[0-9]+.[0-9]+.[0-9]+"));
  for (const char* path : {"/api/create", "/api/copy", "/api/push"}) {
    const ClientReply reply = Post(path, R"({"model":"fake-model"})");
    EXPECT_EQ(reply.status, 501) << path;
    EXPECT_THAT(ErrorOf(reply), HasSubstr("models"));
  }
  TestClient client(port());
  client.Send("HEAD /api/tags HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.ReadHead().status, 200);
}

TEST_F(HttpOllamaTest, KeysOpenIt) {
  ServerOptions options;
  options.api_keys = {{"one", "the-key-of-one"}};
  StartServer(options);
  for (const char* path : {"/api/tags", "/api/ps", "/api/version"}) {
    const ClientReply reply = TestClient(port()).Get(path);
    EXPECT_EQ(reply.status, 401) << path;
    ErrorOf(reply);
  }
  EXPECT_EQ(Ask().status, 401);
}

}  // namespace
}  // namespace ropeway::server
