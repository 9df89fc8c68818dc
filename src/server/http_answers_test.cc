// What answers cost that their clients do not read, over real sockets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <string>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;

class HttpAnswersTest : public ServerTest {
 protected:
  static constexpr const char* kA = "key-of-team-a";
  static constexpr const char* kB = "key-of-team-b";

  void Start(const ServerLimits& limits, int io_threads = 1) {
    server_->Stop();
    ServerOptions options;
    options.limits = limits;
    options.io_threads = io_threads;
    options.limits.send_buffer_bytes = 16 << 10;
    options.api_keys = {{"team-a", kA}, {"team-b", kB}};
    options.admin_key = "key-of-the-admin";
    StartServer(options);
  }

  // The body of a request whose answer takes four times as many bytes.
  static std::string Tokenize(size_t bytes) {
    return R"({"prompt":")" + std::string(bytes, 'x') + "\"}";
  }

  int TokenizeAndRead(const char* key, size_t bytes) {
    TestClient client(port());
    client.Send(PostBytes("/tokenize", Tokenize(bytes), Bearer(key)));
    return client.Read().status;
  }

  std::string Metrics() {
    TestClient client(port());
    client.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + Bearer("key-of-the-admin") +
                "\r\n");
    return client.Read().body;
  }
};

TEST_F(HttpAnswersTest, WhatOneTenantDoesNotReadLeavesRoomForAnothers) {
  ServerLimits limits;
  // One tenant gets half of this: 10 MiB. An answer takes about 5 MB while it is made (ids, and a
  // text that grows by doubling) and 3 MB from then on: the second one fits, and no third.
  limits.max_answers_bytes = size_t{20} << 20;
  Start(limits);
  std::vector<std::unique_ptr<TestClient>> silent;
  int sent = 0;
  int rejected = 0;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(std::make_unique<TestClient>(port(), 8 << 10));
    silent.back()->Send(PostBytes("/tokenize", Tokenize(500'000), Bearer(kA)));
    ClientReply head = silent.back()->ReadHead();  // And no byte of the body.
    if (head.status == 200) ++sent;
    if (head.status == 503) {
      ++rejected;
      EXPECT_NE(head.headers["retry-after"], "");
    }
  }
  EXPECT_GE(sent, 2);
  EXPECT_GE(rejected, 3) << "of 10 MiB each takes at least 2 MB";
  EXPECT_EQ(sent + rejected, 8);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(TokenizeAndRead(kB, 200'000), 200);
  EXPECT_EQ(TokenizeAndRead(kA, 1000), 200) << "small answers are free";
  EXPECT_THAT(Metrics(),
              testing::HasSubstr(fmt::format("ropeway_http_cut_answers_total {}\n", rejected)));
  silent.clear();
  EXPECT_TRUE(Eventually([&] { return TokenizeAndRead(kA, 500'000) == 200; }));
}

// From the helper that made it until its I/O thread, which is busy, has sent it.
TEST_F(HttpAnswersTest, WhatWaitsForItsIoThreadIsCharged) {
  ServerLimits limits;
  limits.max_answers_bytes = 2'000'000;
  limits.helper_threads = 1;
  Start(limits, 2);
  std::atomic<bool> helper_works{false};
  std::atomic<bool> thread_works{false};
  std::binary_semaphore helper_goes_on(0);
  std::binary_semaphore thread_goes_on(0);
  backend_.set_tokenize_hook([&] {
    helper_works = true;
    helper_goes_on.acquire();
  });
  backend_.set_script([&](const Request&) {
    thread_works = true;
    thread_goes_on.acquire();
    return FakeScript();
  });
  // The two threads get connections in turn.
  TestClient waiting(port());
  TestClient other(port());
  TestClient busy(port());
  for (TestClient* client : {&waiting, &other, &busy}) EXPECT_EQ(client->Get("/livez").status, 200);
  waiting.Send(PostBytes("/tokenize", Tokenize(100'000), Bearer(kA)));
  EXPECT_TRUE(Eventually([&] { return helper_works.load(); }));
  busy.Send(PostBytes("/v1/completions", R"({"prompt":"x"})", Bearer(kA)));
  EXPECT_TRUE(Eventually([&] { return thread_works.load(); }));
  helper_goes_on.release();
  const auto detokenize = [&other](int count) {
    std::string ids = "104";
    for (int i = 1; i < count; ++i) ids += ",104";
    other.Send(PostBytes("/detokenize", R"({"tokens":[)" + ids + "]}", Bearer(kA)));
    return other.Read().status;
  };
  EXPECT_EQ(detokenize(1), 200) << "after the tenant's job that came before it";
  EXPECT_EQ(detokenize(100'000), 503) << "the answer that waits takes more than a megabyte";
  thread_goes_on.release();
  EXPECT_EQ(waiting.Read().status, 200);
  EXPECT_EQ(busy.Read().status, 200);
  EXPECT_TRUE(Eventually([&] { return detokenize(100'000) == 200; }));
}

// Streams whose clients read nothing while much is gathered.
TEST_F(HttpAnswersTest, StreamsThatAreNotReadAreCut) {
  ServerLimits limits;
  limits.max_answers_bytes = size_t{1} << 20;
  limits.max_stream_bytes = size_t{1} << 30;
  limits.max_stream_events = size_t{1} << 30;
  Start(limits);
  backend_.set_script(EndlessTexts(4096));
  TestClient slow(port(), 8 << 10);
  slow.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})", Bearer(kA)));
  ASSERT_TRUE(backend_.WaitDeltas(1));
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_LT(backend_.deltas(), 1000) << "1 MiB holds 256 of them, and the kernels have some";
  EXPECT_THAT(Metrics(), testing::Not(testing::HasSubstr("ropeway_http_cut_answers_total 0\n")));
}

// What a whole answer gathers counts before a byte of it is sent.
TEST_F(HttpAnswersTest, AWholeAnswerThatGrowsTooLargeIs503) {
  ServerLimits limits;
  limits.max_answers_bytes = size_t{2} << 20;
  Start(limits);
  backend_.set_script(EndlessTexts(4096));
  TestClient client(port());
  client.Send(PostBytes("/v1/completions", R"({"prompt":"a"})", Bearer(kA)));
  ClientReply reply = client.Read();
  EXPECT_EQ(reply.status, 503);
  EXPECT_NE(reply.headers["retry-after"], "");
  EXPECT_EQ(json::parse(reply.body)["error"]["type"], "service_unavailable_error");
  EXPECT_TRUE(backend_.WaitIdle());
  EXPECT_THAT(Metrics(), testing::HasSubstr("ropeway_http_cut_answers_total 1\n"));
}

// Token ids become longer as text: what an answer is to show of the prompts counts before it is
// submitted.
TEST_F(HttpAnswersTest, PromptsThatAreShownAreCharged) {
  ServerLimits limits;
  limits.max_answers_bytes = 100'000;
  Start(limits);
  std::string ids = "1";  // The fake's longest token.
  for (int i = 1; i < 40'000; ++i) ids += ",1";
  const auto post = [&](const std::string& prompt) {
    TestClient client(port());
    client.Send(PostBytes("/v1/completions",
                          R"({"max_tokens":1,"echo":true,"prompt":[)" + prompt + "]}", Bearer(kA)));
    return client.Read();
  };
  const ClientReply large = post(ids);
  EXPECT_EQ(large.status, 503) << large.body;
  EXPECT_NE(large.body.find("too much memory"), std::string::npos);
  EXPECT_TRUE(backend_.submitted().empty());
  EXPECT_EQ(post("1,104").status, 200);
}

// Each choice shows the prompt, so an answer is as many times as long: known before it is computed.
TEST_F(HttpAnswersTest, PromptsAreChargedForEachChoiceThatShowsThem) {
  ServerLimits limits;
  limits.max_answers_bytes = 1'000'000;
  Start(limits);
  const auto post = [&](int n, const char* fields) {
    TestClient client(port());
    client.Send(PostBytes("/v1/completions",
                          fmt::format(R"({{"max_tokens":1,"echo":true,"n":{}{},"prompt":"{}"}})", n,
                                      fields, std::string(20'000, 'x')),
                          Bearer(kA)));
    return client.Read();
  };
  for (const char* fields : {"", R"(,"stream":true)"}) {
    const ClientReply large = post(32, fields);
    EXPECT_EQ(large.status, 503) << fields;
    EXPECT_THAT(large.body, testing::HasSubstr("too much memory"));
    EXPECT_TRUE(backend_.submitted().empty());
  }
  EXPECT_EQ(post(2, "").status, 200);
  EXPECT_EQ(post(2, R"(,"stream":true)").status, 200);
  EXPECT_EQ(backend_.submitted().size(), 4U);
}

}  // namespace
}  // namespace ropeway::server
