// What llama.cpp's clients ask of a server, over real sockets.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "api/test_events.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

class HttpLlamaCppTest : public ServerTest {
 protected:
  json Good(const std::string& path, const std::string& body) {
    ClientReply reply = TestClient(port()).Post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body);
  }
  json Got(const std::string& path, const std::string& headers = "") {
    TestClient client(port());
    client.Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    ClientReply reply = client.Read();
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body);
  }
  Ids SubmittedIds(size_t i) { return std::get<Ids>(backend_.submitted().at(i).prompt); }
};

TEST_F(HttpLlamaCppTest, Completes) {
  const json answer =
      Good("/completion", R"({"prompt":"hi","n_predict":3,"return_tokens":true,"seed":5})");
  EXPECT_EQ(answer["content"], "w0 w1 w2 ");
  EXPECT_EQ(answer["tokens"], json({0, 1, 2}));
  EXPECT_EQ(answer["prompt"], "hi");
  EXPECT_EQ(answer["tokens_predicted"], 3);
  EXPECT_EQ(answer["stop_type"], "limit");
  EXPECT_EQ(answer["generation_settings"]["seed"], 5);
  EXPECT_EQ(Good("/completion", R"({"prompt":"hi","n_predict":2})")["tokens"], json::array());
  const json list = Good("/completion", R"({"prompt":["a",[104,105]],"n_predict":1})");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[1]["prompt"], "hi");
}

TEST_F(HttpLlamaCppTest, Streams) {
  ClientReply reply =
      TestClient(port()).Post("/completion", R"({"prompt":"hi","n_predict":3,"stream":true})");
  const std::vector<std::string> events = api::Events(reply.body);
  ASSERT_GE(events.size(), 2U);
  std::string text;
  json tokens = json::array();
  for (const std::string& event : events) {
    const json part = json::parse(event);
    EXPECT_EQ(part["stop"], &event == &events.back());
    EXPECT_EQ(part["tokens_evaluated"], 3);
    text += part["content"].get<std::string>();
    tokens.insert(tokens.end(), part["tokens"].begin(), part["tokens"].end());
  }
  EXPECT_EQ(text, "w0 w1 w2 ");
  EXPECT_EQ(tokens, json({0, 1, 2}));
}

TEST_F(HttpLlamaCppTest, TextsAmongIdsAreEncoded) {
  const json answer = Good("/completion", R"({"prompt":[5,"hi",6],"n_predict":1})");
  EXPECT_EQ(SubmittedIds(0), (Ids{5, 104, 105, 6}));
  EXPECT_EQ(answer["prompt"], "\x05hi\x06");
  // The first part has what begins a text.
  Good("/completion", R"({"prompt":["a",5,"b"],"n_predict":1})");
  EXPECT_EQ(SubmittedIds(1), (Ids{1, 97, 5, 98}));
  // A large one, on a helper thread.
  const std::string text(100000, 'x');
  Good("/completion", R"({"prompt":[5,")" + text + R"("],"n_predict":1})");
  EXPECT_EQ(SubmittedIds(2).size(), text.size() + 1);
  Good("/completion", R"({"prompt":"a","logit_bias":[["ba",2],[98,-1],["",1]],"n_predict":1})");
  const std::vector<LogitBias> biases = backend_.submitted().at(3).sampling.logit_bias;
  ASSERT_EQ(biases.size(), 2U);
  EXPECT_EQ(biases[0].id, 97);
  EXPECT_EQ(biases[0].bias, 2);
  EXPECT_EQ(biases[1].id, 98);
  EXPECT_EQ(biases[1].bias, 1);
  // More entries than tokens that may have a bias, of few tokens.
  json many = json::array();
  for (int i = 0; i < 600; ++i) many.push_back({"ab", 0.125});
  Good("/completion", json{{"prompt", "a"}, {"n_predict", 1}, {"logit_bias", many}}.dump());
  const std::vector<LogitBias> merged = backend_.submitted().at(4).sampling.logit_bias;
  ASSERT_EQ(merged.size(), 2U);
  EXPECT_EQ(merged[1].bias, 75);
}

TEST_F(HttpLlamaCppTest, ErrorsAreLlamaCpps) {
  TestClient client(port());
  ClientReply reply = client.Post("/completion", R"({"prompt":"a","lora":[1]})");
  EXPECT_EQ(reply.status, 400);
  const json error = json::parse(reply.body)["error"];
  EXPECT_EQ(error["code"], 400);
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_NE(error["message"].get<std::string>().find("'lora'"), std::string::npos);
  EXPECT_EQ(error.size(), 3U);
  reply = client.Post("/completion", R"({"prompt":"a","model":"gpt-9"})");
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(json::parse(reply.body)["error"]["type"], "not_found_error");
  EXPECT_EQ(client.Get("/completion").status, 405);
  const auto code = [](const ClientReply& failed) {
    const json fault = json::parse(failed.body)["error"];
    EXPECT_EQ(fault.size(), 3U) << failed.body;
    EXPECT_EQ(fault["code"], failed.status) << failed.body;
    return failed.status;
  };
  EXPECT_EQ(code(client.Post("/embedding", R"({"content":1})")), 400);
  EXPECT_EQ(code(client.Post("/apply-template", R"({"messages":1})")), 400);
  EXPECT_EQ(code(client.Get("/props?model=gpt-9")), 404);
  EXPECT_EQ(code(client.Post("/slots", "{}")), 405);
}

// Clients read it as llama-server's type: 32 bits.
TEST_F(HttpLlamaCppTest, ADrawnSeedIsShortAndTheOneThatWasUsed) {
  for (int i = 0; i < 8; ++i) {
    const json answer = Good("/completion", R"({"prompt":"hi","n_predict":1})");
    const uint64_t seed = backend_.submitted().at(static_cast<size_t>(i)).sampling.seed.value_or(0);
    EXPECT_EQ(answer["generation_settings"]["seed"], seed);
    EXPECT_LT(seed, uint64_t{1} << 31U);
  }
}

TEST_F(HttpLlamaCppTest, AppliesTheTemplate) {
  EXPECT_EQ(Good("/apply-template", R"({"messages":[{"role":"user","content":"a\u00e9\n\""}]})"),
            (json{{"prompt", "user:a\u00e9\n\"\nassistant:"}}));
  EXPECT_EQ(Good("/apply-template",
                 R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})"),
            (json{{"prompt", "user:a\n"}}));
  const std::string large(600000, 'x');
  EXPECT_EQ(Good("/apply-template",
                 R"({"messages":[{"role":"user","content":")" + large + R"("}]})")["prompt"],
            "user:" + large + "\nassistant:");
  for (const char* bad : {"{}", R"({"messages":[]})", R"({"messages":"a"})"}) {
    EXPECT_EQ(TestClient(port()).Post("/apply-template", bad).status, 400) << bad;
  }
}

TEST_F(HttpLlamaCppTest, TokenizesAsLlamaCppsClientsAsk) {
  EXPECT_EQ(Good("/tokenize", R"({"content":"hi"})")["tokens"], json({104, 105}));
  EXPECT_EQ(Good("/tokenize", R"({"content":"hi","add_special":true})")["tokens"],
            json({1, 104, 105}));
  EXPECT_EQ(Good("/tokenize", R"({"content":"a\u00e9","with_pieces":true})")["tokens"],
            json::parse(R"([{"id":97,"piece":"a"},{"id":195,"piece":[195]},
                            {"id":169,"piece":[169]}])"));
  EXPECT_EQ(Good("/detokenize", R"({"tokens":[104,105]})")["content"], "hi");
  TestClient client(port());
  EXPECT_EQ(client.Post("/tokenize", R"({"content":"a","prompt":"b"})").status, 400);
  EXPECT_EQ(client.Post("/tokenize", R"({"content":["a"]})").status, 400);
  EXPECT_EQ(client.Post("/tokenize", R"({"content":"a","parse_special":false})").status, 400);
}

TEST_F(HttpLlamaCppTest, Properties) {
  EngineStats stats;
  stats.max_batch_size = 4;
  backend_.set_stats(stats);
  StartServer();
  const json props = Got("/props");
  EXPECT_EQ(props["total_slots"], 4);
  EXPECT_EQ(props["model_alias"], "fake-model");
  EXPECT_EQ(props["eos_token"], "</s>");
  EXPECT_EQ(props["chat_template"], "{{ messages }}");
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 2048);
  EXPECT_EQ(props["default_generation_settings"]["params"]["n_predict"], -1);
  EXPECT_EQ(TestClient(port()).Get("/props?model=gpt-9").status, 404);
}

TEST_F(HttpLlamaCppTest, SlotsShowTheCallersOwnRequestsAlone) {
  EngineStats stats;
  stats.max_batch_size = 3;
  backend_.set_stats(stats);
  server_->Stop();
  ServerOptions options;
  options.api_keys = {{.name = "a", .key = "key-aaaaaaaa"}, {.name = "b", .key = "key-bbbbbbbb"}};
  StartServer(options);
  const std::string as_a = Bearer("key-aaaaaaaa");
  const std::string as_b = Bearer("key-bbbbbbbb");
  const auto busy = [](const json& slots) {
    int count = 0;
    for (const json& slot : slots) count += slot["is_processing"].get<bool>() ? 1 : 0;
    return count;
  };
  EXPECT_EQ(Got("/slots", as_a), json::parse(R"([
      {"id":0,"n_ctx":2048,"speculative":false,"is_processing":false},
      {"id":1,"n_ctx":2048,"speculative":false,"is_processing":false},
      {"id":2,"n_ctx":2048,"speculative":false,"is_processing":false}])"));
  backend_.set_script(EndlessScript);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestClient>(port()));
    clients.back()->Send(
        PostBytes("/completion", R"({"prompt":"a secret","stream":true})", i == 0 ? as_a : as_b));
    EXPECT_EQ(clients.back()->ReadHead().status, 200);
  }
  const json slots = Got("/slots", as_a);
  EXPECT_EQ(busy(slots), 3);
  EXPECT_TRUE(slots[0].contains("id_task"));
  EXPECT_EQ(slots[1],
            json::parse(R"({"id":1,"n_ctx":2048,"speculative":false,"is_processing":true})"));
  EXPECT_EQ(slots.dump().find("secret"), std::string::npos);
  TestClient client(port());
  client.Send("GET /slots?fail_on_no_slot=1 HTTP/1.1\r\nHost: localhost\r\n" + as_b + "\r\n");
  const ClientReply none = client.Read();
  EXPECT_EQ(none.status, 503);
  EXPECT_EQ(json::parse(none.body)["error"]["type"], "unavailable_error");
}

}  // namespace
}  // namespace ropeway::server
