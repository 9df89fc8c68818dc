// POST /tokenize and /detokenize, over real sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/test_failing_new.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;

// Blocks callers of Wait until it is opened.
class Gate {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool WaitForOne() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

class HttpTokenizeTest : public ServerTest {
 protected:
  json Good(const std::string& path, const std::string& body) {
    ClientReply reply = TestClient(port()).Post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body);
  }

  // With keys for the tenants a and b.
  void StartWithKeys() {
    server_->Stop();
    ServerOptions options;
    options.api_keys = {{.name = "a", .key = "key-aaaaaaaa"}, {.name = "b", .key = "key-bbbbbbbb"}};
    StartServer(options);
  }

  static ClientReply PostAs(TestClient* client, const std::string& tenant, const std::string& path,
                            const std::string& body) {
    const std::string key = tenant == "a" ? "key-aaaaaaaa" : "key-bbbbbbbb";
    client->Send(PostBytes(path, body, Bearer(key)));
    return client->Read();
  }

  // Clients of tenant a whose texts are tokenized without an end; returns once one of them is.
  std::vector<std::unique_ptr<TestClient>> EndlessClients(int count, const std::string& headers) {
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<TestClient>(port()));
      clients.back()->Send(PostBytes("/tokenize", kEndlessBody, headers));
    }
    EXPECT_TRUE(Eventually([this] { return backend_.tokenizations() > 0; }));
    return clients;
  }

  static constexpr const char* kEndlessBody = R"({"prompt":"ENDLESS"})";
};

TEST_F(HttpTokenizeTest, TheTokenizersTextsAndTemplateAreTold) {
  TestClient client(port());
  const ClientReply reply = client.Get("/tokenizer_info");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(json::parse(reply.body), json::parse(R"({"bos_token":null,"eos_token":"</s>",
      "pad_token":null,"chat_template":"{{ messages }}"})"));
  EXPECT_EQ(client.Post("/tokenizer_info", "{}").status, 405);
}

TEST_F(HttpTokenizeTest, Texts) {
  EXPECT_EQ(Good("/tokenize", R"({"prompt":"hi"})"),
            json::parse(R"({"count":3,"max_model_len":2048,"tokens":[1,104,105]})"));
  EXPECT_EQ(Good("/tokenize", R"({"prompt":"hi","add_special_tokens":false,"model":"fake-model"})"),
            json::parse(R"({"count":2,"max_model_len":2048,"tokens":[104,105]})"));
  EXPECT_EQ(Good("/tokenize", R"({"prompt":"a\u00e9","return_token_strs":true})")["token_strs"],
            (json{"<s>", "a", "bytes:\\xc3", "bytes:\\xa9"}));
  EXPECT_EQ(Good("/tokenize", R"({"prompt":"","add_special_tokens":false})")["tokens"],
            json::array());
}

TEST_F(HttpTokenizeTest, Chats) {
  const auto text = [this](const std::string& more) {
    const json tokens =
        Good("/tokenize", R"({"messages":[{"role":"user","content":"a"}])" + more + "}")["tokens"];
    return Good("/detokenize", json{{"tokens", tokens}}.dump())["prompt"].get<std::string>();
  };
  EXPECT_EQ(text(""), "user:a\nassistant:");
  EXPECT_EQ(text(R"(,"add_generation_prompt":false)"), "user:a\n");
  EXPECT_EQ(text(R"(,"add_special_tokens":true)"), "<s>user:a\nassistant:");
  EXPECT_EQ(text(R"(,"continue_final_message":true)"), "user:a\n");
  EXPECT_EQ(text(R"(,"tools":[{"function":{"name":"f","parameters":{"z":{},"a":1}}}],
                     "chat_template_kwargs":{"y":1,"b":2},"enable_thinking":false)"),
            "f{\"z\":{},\"a\":1}\n{\"y\":1,\"b\":2,\"enable_thinking\":false}\n"
            "user:a\nassistant:");
}

TEST_F(HttpTokenizeTest, Detokenizes) {
  EXPECT_EQ(Good("/detokenize", R"({"tokens":[1,104,105],"model":"default"})"),
            (json{{"prompt", "<s>hi"}, {"content", "<s>hi"}}));
  EXPECT_EQ(Good("/detokenize", R"({"tokens":[]})"), (json{{"prompt", ""}, {"content", ""}}));
  EXPECT_EQ(Good("/detokenize", R"({"tokens":[195]})"),
            (json{{"prompt", "\xef\xbf\xbd"}, {"content", "\xef\xbf\xbd"}}));
}

TEST_F(HttpTokenizeTest, RejectsByName) {
  const std::vector<std::vector<std::string>> bad = {
      {"/tokenize", "{}", "prompt"},
      {"/tokenize", R"({"prompt":"a","messages":[{"role":"user","content":"a"}]})", "prompt"},
      {"/tokenize", R"({"prompt":null})", "prompt"},
      {"/tokenize", R"({"prompt":1})", "prompt"},
      {"/tokenize", R"({"prompt":["a"]})", "prompt"},
      {"/tokenize", R"({"messages":[]})", "messages"},
      {"/tokenize", R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {"/tokenize", R"({"prompt":"a","add_special_tokens":1})", "add_special_tokens"},
      {"/tokenize", R"({"prompt":"a","add_generation_prompt":"x"})", "add_generation_prompt"},
      {"/tokenize", R"({"prompt":"a","return_token_strs":[]})", "return_token_strs"},
      {"/tokenize", R"({"prompt":"a","tools":[{}]})", "tools[0].function"},
      {"/tokenize", R"({"messages":[{"role":"tool","content":"a","tool_call_id":"b"}]})",
       "messages[0].tool_call_id"},
      {"/tokenize",
       R"({"messages":[{"role":"user","content":"a"}],"tools":[{"function":{"name":"f g"}}]})",
       "tools[0].function.name"},
      {"/tokenize",
       R"({"messages":[{"role":"user","content":"a"}],"continue_final_message":true,
           "add_generation_prompt":true})",
       "continue_final_message"},
      {"/tokenize", R"({"prompt":"a","chat_template":"x"})", "chat_template"},
      {"/tokenize", R"({"prompt":"a","promt":"b"})", "promt"},
      {"/tokenize", R"({"prompt":"a","model":1})", "model"},
      {"/detokenize", "{}", "tokens"},
      {"/detokenize", R"({"tokens":"a"})", "tokens"},
      {"/detokenize", R"({"tokens":[-1]})", "tokens"},
      {"/detokenize", R"({"tokens":[1.5]})", "tokens"},
      {"/detokenize", R"({"tokens":[999]})", "tokens"},
      {"/detokenize", R"({"tokens":[99999999999]})", "tokens"},
      {"/detokenize", R"({"tokens":[1],"token":[1]})", "token"},
  };
  TestClient client(port());
  for (const auto& test : bad) {
    ClientReply reply = client.Post(test[0], test[1]);
    EXPECT_EQ(reply.status, 400) << test[1];
    EXPECT_EQ(json::parse(reply.body)["error"]["param"], test[2]) << test[1];
  }
  for (const char* body : {"", "[]", "{", "null", "{\"prompt\":\"\xff\"}"}) {
    EXPECT_EQ(client.Post("/tokenize", body).status, 400) << body;
  }
  EXPECT_EQ(client.Post("/tokenize", R"({"prompt":"a","model":"gpt-9"})").status, 404);
  EXPECT_EQ(client.Post("/detokenize", R"({"tokens":[1],"model":"gpt-9"})").status, 404);
  EXPECT_EQ(client.Get("/tokenize").status, 405);
}

// The only I/O thread serves streams while the helper thread is busy with one request and another
// waits.
TEST_F(HttpTokenizeTest, NeverStallsStreams) {
  Gate gate;
  backend_.set_tokenize_hook([&] { gate.Wait(); });
  const std::string large = R"({"prompt":")" + std::string(1 << 20, 'x') + "\"}";
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      if (TestClient(port()).Post("/tokenize", large).status == 200) ++good;
    });
  }
  ASSERT_TRUE(gate.WaitForOne());
  ClientReply stream =
      TestClient(port()).Post("/v1/completions", R"({"prompt":"a","max_tokens":50,"stream":true})");
  EXPECT_EQ(api::Events(stream.body).size(), 52U);
  gate.Open();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 2);
}

TEST_F(HttpTokenizeTest, FullIs429) {
  server_->Stop();
  ServerLimits limits;
  limits.max_helper_jobs = 1;
  StartServer(limits);
  Gate gate;
  backend_.set_tokenize_hook([&] { gate.Wait(); });
  std::thread busy(
      [&] { EXPECT_EQ(TestClient(port()).Post("/tokenize", R"({"prompt":"a"})").status, 200); });
  ASSERT_TRUE(gate.WaitForOne());
  ClientReply full = TestClient(port()).Post("/detokenize", R"({"tokens":[104]})");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.headers["retry-after"], "7");
  // A small body needs no helper.
  EXPECT_EQ(TestClient(port()).Post("/v1/completions", R"({"prompt":"a"})").status, 200);
  gate.Open();
  busy.join();
  EXPECT_EQ(TestClient(port()).Post("/detokenize", R"({"tokens":[104]})").status, 200);
}

TEST_F(HttpTokenizeTest, AnExceptionIsThatRequestsAlone) {
  TestClient client(port());
  backend_.set_tokenize_hook([] { throw std::bad_alloc(); });
  EXPECT_EQ(client.Post("/tokenize", R"({"prompt":"a"})").status, 503);
  backend_.set_tokenize_hook([] { throw 7; });
  EXPECT_EQ(client.Post("/tokenize", R"({"prompt":"a"})").status, 500);
  backend_.set_tokenize_hook(nullptr);
  EXPECT_EQ(client.Post("/tokenize", R"({"prompt":"a"})").status, 200);
}

TEST_F(HttpTokenizeTest, VanishedClientsLeaveNothing) {
  Gate gate;
  backend_.set_tokenize_hook([&] { gate.Wait(); });
  TestClient client(port());
  client.Send(PostBytes("/tokenize", R"({"prompt":"a"})"));
  ASSERT_TRUE(gate.WaitForOne());
  client.Close();
  gate.Open();
  backend_.set_tokenize_hook(nullptr);
  EXPECT_EQ(TestClient(port()).Post("/tokenize", R"({"prompt":"a"})").status, 200);
}

// Texts are tokenized in pieces and in fair shares: however many of one key's wait, another's is
// next.
TEST_F(HttpTokenizeTest, OneTenantHoldsUpNoOther) {
  StartWithKeys();
  const auto busy = EndlessClients(36, Bearer("key-aaaaaaaa"));
  TestClient client(port());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(PostAs(&client, "b", "/tokenize", R"({"prompt":"hi"})").status, 200);
    EXPECT_EQ(PostAs(&client, "b", "/detokenize", R"({"tokens":[104]})").status, 200);
  }
  const std::string large = R"({"prompt":")" + std::string(40 << 10, 'x') + R"(","max_tokens":2})";
  EXPECT_EQ(PostAs(&client, "b", "/v1/completions", large).status, 200);
}

// A piece that cannot be cut, such as one JSON text, does not hold up other tenants either.
TEST_F(HttpTokenizeTest, OneLongPieceHoldsUpNoOtherTenant) {
  StartWithKeys();
  Gate gate;
  backend_.set_tokenize_hook([&] { gate.Wait(); });
  std::thread busy([&] {
    TestClient client(port());
    EXPECT_EQ(PostAs(&client, "a", "/tokenize", R"({"prompt":"a"})").status, 200);
  });
  ASSERT_TRUE(gate.WaitForOne());
  TestClient client(port());
  EXPECT_EQ(PostAs(&client, "b", "/detokenize", R"({"tokens":[104]})").status, 200);
  gate.Open();
  busy.join();
}

TEST_F(HttpTokenizeTest, PlacesAreEachTenantsOwn) {
  server_->Stop();
  ServerOptions options;
  options.api_keys = {{.name = "a", .key = "key-aaaaaaaa"}, {.name = "b", .key = "key-bbbbbbbb"}};
  options.limits.max_helper_jobs = 4;
  StartServer(options);
  std::atomic<int> rejected{0};
  std::vector<std::thread> busy;
  for (int i = 0; i < 5; ++i) {
    busy.emplace_back([&] {
      TestClient client(port());
      if (PostAs(&client, "a", "/tokenize", kEndlessBody).status == 429) ++rejected;
    });
  }
  EXPECT_TRUE(Eventually([&] { return rejected == 1; }));
  TestClient client(port());
  EXPECT_EQ(PostAs(&client, "b", "/detokenize", R"({"tokens":[104]})").status, 200);
  server_->Stop();
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(rejected, 1);
}

TEST_F(HttpTokenizeTest, NothingIsComputedForAClientThatLeft) {
  auto busy = EndlessClients(5, "");
  for (const auto& client : busy) client->Close();
  EXPECT_TRUE(Eventually([this] { return backend_.tokenizations() == 0; }));
  EXPECT_EQ(Good("/tokenize", R"({"prompt":"hi"})")["count"], 3);
}

// A server without keys has one tenant: what takes long gives way to what may be shorter.
TEST_F(HttpTokenizeTest, LongTextsHoldUpNoShortOneOfTheirTenant) {
  const auto busy = EndlessClients(8, "");
  TestClient client(port());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.Post("/tokenize", R"({"prompt":"hi"})").status, 200);
  }
  const std::string large = R"({"prompt":")" + std::string(40 << 10, 'x') + R"(","max_tokens":2})";
  EXPECT_EQ(client.Post("/v1/completions", large).status, 200);
}

TEST_F(HttpTokenizeTest, AStopEndsInTimeWhateverWaits) {
  const auto busy = EndlessClients(36, "");
  const auto begin = std::chrono::steady_clock::now();
  server_->Stop(std::chrono::milliseconds(100));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(backend_.tokenizations(), 0);
}

// Longer than any piece of it, and cut between characters.
TEST_F(HttpTokenizeTest, LongAnswersAreWhole) {
  std::string text;
  while (text.size() < 300'000) text += "a\u00e9\u20ac\xF0\x9F\x98\x80";
  const json body = Good("/tokenize", json{{"prompt", text}, {"return_token_strs", true}}.dump());
  EXPECT_EQ(body["count"], text.size() + 1);
  EXPECT_EQ(body["tokens"].size(), text.size() + 1);
  EXPECT_EQ(body["token_strs"].size(), text.size() + 1);
  EXPECT_EQ(body["token_strs"].back(), "bytes:\\x80");
  std::vector<int> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  EXPECT_EQ(Good("/detokenize", json{{"tokens", ids}}.dump())["prompt"], text);
}

// What an answer takes is charged to its tenant while it is made.
TEST_F(HttpTokenizeTest, AnswersThatTakeTooMuchMemoryAreRejected) {
  server_->Stop();
  ServerLimits limits;
  limits.max_answers_bytes = 100'000;
  StartServer(limits);
  const std::string body = R"({"return_token_strs":true,"prompt":")" + std::string(30'000, 'x');
  ClientReply large = TestClient(port()).Post("/tokenize", body + "\"}");
  EXPECT_EQ(large.status, 503);
  EXPECT_NE(large.body.find("too much memory"), std::string::npos);
  EXPECT_EQ(Good("/tokenize", R"({"prompt":"hi"})")["count"], 3);
}

// The text comes twice in the answer, and is not copied as a whole for that.
TEST_F(HttpTokenizeTest, ADecodedTextIsCopiedInParts) {
  constexpr char kHelpers[] = "ropeway-helper";
  constexpr int kNone = 1 << 30;
  constexpr size_t kLength = 300'017;  // No string that doubles is so long.
  const std::string body = json{{"tokens", std::vector<int>(kLength, 'x')}}.dump();
  const auto allocations = [&](size_t least_bytes) {
    FailAllocation(kHelpers, kNone, least_bytes);
    const json answer = Good("/detokenize", body);
    EXPECT_EQ(answer["prompt"], std::string(kLength, 'x'));
    EXPECT_EQ(answer["content"], answer["prompt"]);
    return FailAllocation(kHelpers, 0);
  };
  EXPECT_EQ(allocations(kLength) - allocations(kLength + 64), 0);
}

// A gateway's.
TEST_F(HttpTokenizeTest, WithoutATokenizerTheServerSaysSo) {
  Status none(StatusCode::kUnimplemented, "This gateway has no tokenizer.");
  none.set_api_code("no_tokenizer");
  backend_.set_no_tokenizer(none);
  const std::string chat = R"({"messages":[{"role":"user","content":"a"}]})";
  TestClient client(port());
  for (const auto& [path, body] :
       std::vector<std::pair<std::string, std::string>>{{"/tokenize", R"({"prompt":"a"})"},
                                                        {"/tokenize", chat},
                                                        {"/detokenize", R"({"tokens":[97]})"},
                                                        {"/apply-template", chat},
                                                        {"/v1/messages/count_tokens", chat},
                                                        {"/tokenizer_info", ""}}) {
    ClientReply reply = body.empty() ? client.Get(path) : client.Post(path, body);
    EXPECT_EQ(reply.status, 501) << path;
    const json error = json::parse(reply.body)["error"];
    EXPECT_EQ(error["message"], "This gateway has no tokenizer.") << path;
    if (path == "/apply-template") {  // llama.cpp's errors have no such name.
      EXPECT_EQ(error["type"], "not_supported_error");
    } else {
      const bool anthropics = error.contains("details");
      EXPECT_EQ(anthropics ? error["details"]["error_code"] : error["code"], "no_tokenizer")
          << path;
    }
    EXPECT_EQ(reply.headers["x-should-retry"], "false") << path;
  }
}

// So is what encoding takes before there is an answer.
TEST_F(HttpTokenizeTest, WhatEncodingTakesIsCharged) {
  server_->Stop();
  ServerLimits limits;
  limits.max_answers_bytes = size_t{20} << 20;
  StartServer(limits);
  ClientReply growing = TestClient(port()).Post("/tokenize", R"({"prompt":"GROWING"})");
  EXPECT_EQ(growing.status, 503);
  EXPECT_NE(growing.headers["retry-after"], "");
  EXPECT_NE(growing.body.find("too much memory"), std::string::npos);
  EXPECT_TRUE(Eventually([this] { return backend_.tokenizations() == 0; }));
  EXPECT_EQ(Good("/tokenize", R"({"prompt":"hi"})")["count"], 3);
}

}  // namespace
}  // namespace ropeway::server
