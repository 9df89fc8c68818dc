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
};

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
}

TEST_F(HttpTokenizeTest, Detokenizes) {
  EXPECT_EQ(Good("/detokenize", R"({"tokens":[1,104,105],"model":"default"})"),
            (json{{"prompt", "<s>hi"}}));
  EXPECT_EQ(Good("/detokenize", R"({"tokens":[]})"), (json{{"prompt", ""}}));
  EXPECT_EQ(Good("/detokenize", R"({"tokens":[195]})"), (json{{"prompt", "\xef\xbf\xbd"}}));
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
      {"/tokenize", R"({"prompt":"a","tools":[{}]})", "tools"},
      {"/tokenize", R"({"prompt":"a","chat_template":"x"})", "chat_template"},
      {"/tokenize", R"({"prompt":"a","continue_final_message":true})", "continue_final_message"},
      {"/tokenize", R"({"prompt":"a","colour":null})", "colour"},
      {"/tokenize", R"({"prompt":"a","model":1})", "model"},
      {"/detokenize", "{}", "tokens"},
      {"/detokenize", R"({"tokens":"a"})", "tokens"},
      {"/detokenize", R"({"tokens":[-1]})", "tokens"},
      {"/detokenize", R"({"tokens":[1.5]})", "tokens"},
      {"/detokenize", R"({"tokens":[999]})", "tokens"},
      {"/detokenize", R"({"tokens":[99999999999]})", "tokens"},
      {"/detokenize", R"({"tokens":[1],"prompt":"a"})", "prompt"},
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
  const std::string large = R"({"prompt":")" + std::string(7 << 20, 'x') + "\"}";
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
  EXPECT_EQ(Events(stream.body).size(), 52U);
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

}  // namespace
}  // namespace ropeway::server
