// Several prompts and several choices in one request, echo, timeouts and failures, over real
// sockets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Answers with the prompt and the number of the choice.
FakeScript NamedScript(const Request& request) {
  FakeScript script;
  std::string prompt = "chat";
  if (const auto* text = std::get_if<std::string>(&request.prompt)) prompt = *text;
  script.text = [prompt, choice = request.choice](int i) {
    return fmt::format("{}{}.{} ", prompt, choice, i);
  };
  return script;
}

class HttpChoicesTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    backend_.set_script(NamedScript);
  }

  ClientReply Post(const std::string& path, const std::string& body) {
    TestClient client(port());
    return client.Post(path, body);
  }
  json Whole(const std::string& body) {
    ClientReply reply = Post("/v1/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body);
  }
};

TEST_F(HttpChoicesTest, PromptsTimesChoicesInOrder) {
  const json answer = Whole(R"({"prompt":["p","q"],"n":2,"max_tokens":2,"seed":9})");
  ASSERT_EQ(answer["choices"].size(), 4U);
  const std::vector<std::string> expected = {"p0.0 p0.1 ", "p1.0 p1.1 ", "q0.0 q0.1 ",
                                             "q1.0 q1.1 "};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], expected[i]);
    EXPECT_EQ(answer["choices"][i]["finish_reason"], "length");
  }
  // Each prompt counts once, of 3 tokens; each choice generates 2.
  EXPECT_EQ(answer["usage"], json::parse(R"({"prompt_tokens":6,"completion_tokens":8,
      "total_tokens":14,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":4}})"));
  EXPECT_EQ(answer["ropeway"],
            json::parse(R"({"batch_num":11,"seed":9,"batch":11,"batch_size":2,"queue_ms":5.0,
                "formation_ms":0.0,"prefill_ms":0.0,"decode_ms":0.0,"output_ms":0.0})"));
  const std::vector<Request> submitted = backend_.submitted();
  ASSERT_EQ(submitted.size(), 4U);
  for (const Request& request : submitted) EXPECT_EQ(request.sampling.seed, 9U);
  EXPECT_EQ(submitted[1].choice, 1U);
  EXPECT_EQ(submitted[2].choice, 0U);
}

TEST_F(HttpChoicesTest, OneDrawnSeedForAllChoices) {
  Whole(R"({"prompt":"p","n":3})");
  Whole(R"({"prompt":"p","n":3})");
  Whole(R"({"prompt":"p"})");
  std::set<uint64_t> seeds;
  const std::vector<Request> submitted = backend_.submitted();
  ASSERT_EQ(submitted.size(), 7U);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(submitted[i].sampling.seed.has_value());
    EXPECT_LE(*submitted[i].sampling.seed, 0x7FFFFFFFU) << "as short as all servers read it";
    EXPECT_NE(submitted[i].sampling.given & SamplingParams::kSeed, 0U) << "a gateway passes it on";
    seeds.insert(*submitted[i].sampling.seed);
  }
  EXPECT_EQ(seeds.size(), 2U);
  EXPECT_FALSE(submitted[6].sampling.seed.has_value());  // The engine draws it.
}

TEST_F(HttpChoicesTest, StreamInterleavesChoices) {
  for (const bool chat : {false, true}) {
    const std::string prompt =
        chat ? R"("messages":[{"role":"user","content":"c"}])" : R"("prompt":["p","q"])";
    const size_t choices = chat ? 3 : 6;
    ClientReply reply = Post(chat ? "/v1/chat/completions" : "/v1/completions",
                             "{" + prompt + R"(,"n":3,"max_tokens":4,"stream":true,
                 "stream_options":{"include_usage":true}})");
    ASSERT_EQ(reply.status, 200);
    const std::vector<std::string> events = api::Events(reply.body);
    ASSERT_GT(events.size(), 2U);
    EXPECT_EQ(events.back(), "[DONE]");
    std::map<int, std::string> texts;
    std::map<int, int> ends;
    for (size_t i = 0; i + 2 < events.size(); ++i) {
      const json event = json::parse(events[i]);
      ASSERT_EQ(event["choices"].size(), 1U);
      const json& choice = event["choices"][0];
      const int index = choice["index"];
      EXPECT_EQ(ends.count(index), 0U);  // Nothing follows a choice's end.
      texts[index] += chat ? choice["delta"].value("content", "") : choice.value("text", "");
      if (choice["finish_reason"] == "length") ++ends[index];
      EXPECT_EQ(event["usage"], nullptr);
      EXPECT_EQ(event.contains("ropeway"), choice["finish_reason"] == "length");
    }
    ASSERT_EQ(texts.size(), choices);
    ASSERT_EQ(ends.size(), choices);
    const std::string first = chat ? "chat" : "p";
    EXPECT_EQ(texts[1], fmt::format("{0}1.0 {0}1.1 {0}1.2 {0}1.3 ", first));
    const json usage = json::parse(events[events.size() - 2]);
    EXPECT_EQ(usage["choices"], json::array());
    EXPECT_EQ(usage["usage"]["prompt_tokens"], chat ? 3 : 6);
    EXPECT_EQ(usage["usage"]["completion_tokens"], choices * 4);
    EXPECT_EQ(usage["ropeway"]["batch_num"], 11);
  }
}

TEST_F(HttpChoicesTest, AllChoicesAreTakenOrNone) {
  backend_.set_script([](const Request& request) {
    FakeScript script = EndlessScript(request);
    if (request.choice == 2) script.rejection = {StatusCode::kResourceExhausted, "Full."};
    return script;
  });
  for (const char* body : {R"({"prompt":"p","n":4})", R"({"prompt":"p","n":4,"stream":true})"}) {
    const int before = backend_.cancelled();
    ClientReply reply = Post("/v1/completions", body);
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(reply.headers["retry-after"], "7");
    EXPECT_TRUE(backend_.WaitIdle());
    EXPECT_EQ(backend_.cancelled(), before + 2);
    EXPECT_EQ(backend_.submissions().back(), 4U) << "they are one decision of the backend's";
  }
}

TEST_F(HttpChoicesTest, ARejectionMaySayWhenToRetry) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.rejection = {StatusCode::kResourceExhausted, "Too long a wait."};
    script.rejection.set_retry_after_seconds(42);
    return script;
  });
  EXPECT_EQ(Post("/v1/completions", R"({"prompt":"p"})").headers["retry-after"], "42");
}

TEST_F(HttpChoicesTest, ARejectedPromptRejectsAll) {
  backend_.set_script([](const Request& request) {
    FakeScript script = EndlessScript(request);
    if (std::get<std::string>(request.prompt) == "bad") {
      script.fail_unadmitted = true;
      script.failure = InvalidArgument("The prompt has 9999 tokens.", "prompt");
    }
    return script;
  });
  for (const char* body :
       {R"({"prompt":["a","bad","c"]})", R"({"prompt":["a","bad","c"],"stream":true})"}) {
    ClientReply reply = Post("/v1/completions", body);
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(json::parse(reply.body)["error"]["message"],
              "at index 1: The prompt has 9999 tokens.");
    EXPECT_TRUE(backend_.WaitIdle());
  }
}

TEST_F(HttpChoicesTest, AFailingChoiceEndsTheStream) {
  for (const bool finish_failed : {false, true}) {
    backend_.set_script([=](const Request& request) {
      FakeScript script = EndlessScript(request);
      if (request.choice == 1) {
        script.fail_after = finish_failed ? -1 : 2;
        script.failure = Status(StatusCode::kInternal, "A kernel failed.");
        script.finish_failed = finish_failed;
        script.endless = !finish_failed;
      }
      return script;
    });
    ClientReply reply = StreamThatFails("/v1/completions", R"({"prompt":"p","n":3,"stream":true})");
    ASSERT_EQ(reply.status, 200);
    const std::vector<std::string> events = api::Events(reply.body);
    int errors = 0;
    for (const std::string& event : events) errors += json::parse(event).contains("error") ? 1 : 0;
    EXPECT_EQ(errors, 1);
    EXPECT_TRUE(json::parse(events.back()).contains("error"));
    EXPECT_TRUE(backend_.WaitIdle());
    EXPECT_EQ(Post("/v1/completions", R"({"prompt":"p","n":3})").status, 500);
    EXPECT_TRUE(backend_.WaitIdle());
  }
}

TEST_F(HttpChoicesTest, AVanishedClientCancelsAllItsChoices) {
  backend_.set_script(EndlessScript);
  for (const char* body :
       {R"({"prompt":["p","q"],"n":4,"stream":true})", R"({"prompt":"p","n":8})"}) {
    const int before = backend_.cancelled();
    TestClient client(port());
    client.Send(PostBytes("/v1/completions", body));
    ASSERT_TRUE(backend_.WaitActive(8));
    client.Close();
    EXPECT_TRUE(backend_.WaitIdle());
    EXPECT_EQ(backend_.cancelled(), before + 8);
  }
}

TEST_F(HttpChoicesTest, ManyChoicesMayStream) {
  ClientReply reply =
      Post("/v1/completions", R"({"prompt":"p","n":128,"max_tokens":5,"stream":true})");
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(api::Events(reply.body).size(), 128U * 6 + 1);
  EXPECT_EQ(Post("/v1/completions", R"({"prompt":"p","n":129})").status, 400);
}

// As lm-evaluation-harness scores a text: token ids, echo, one log-probability per token.
TEST_F(HttpChoicesTest, EchoWithLogprobsScoresThePrompt) {
  backend_.set_script([](const Request& request) {
    FakeScript script;
    script.prompt_begin = std::get_if<std::string>(&request.prompt) != nullptr ? "<s>" : "";
    return script;
  });
  const json answer =
      Whole(R"({"prompt":[[97,98,99]],"echo":true,"logprobs":1,"max_tokens":1,"temperature":0})");
  const json choice = answer["choices"][0];
  EXPECT_EQ(choice["text"], "abcw0 ");
  const json& lists = choice["logprobs"];
  EXPECT_EQ(lists["tokens"], (json{"a", "b", "c", "w0 "}));
  EXPECT_EQ(lists["token_logprobs"], (json{nullptr, -0.25, -0.5, -0.5}));
  EXPECT_EQ(lists["text_offset"], (json{0, 1, 2, 3}));
  EXPECT_EQ(lists["top_logprobs"][0], nullptr);
  EXPECT_EQ(lists["top_logprobs"][1], (json{{"best", -0.125}, {"b", -0.25}}));
  // A vocabulary that begins each text with a token of its own.
  const json text =
      Whole(R"({"prompt":"ab","echo":true,"logprobs":0,"max_tokens":0})")["choices"][0];
  EXPECT_EQ(text["text"], "ab");
  EXPECT_EQ(text["logprobs"]["tokens"], (json{"<s>", "a", "b"}));
  EXPECT_EQ(text["logprobs"]["text_offset"], (json{0, 0, 1}));
  EXPECT_EQ(backend_.submitted().back().max_tokens, 0);
}

TEST_F(HttpChoicesTest, EchoWithoutLogprobs) {
  const json answer = Whole(R"({"prompt":["ab","c"],"echo":true,"n":2,"max_tokens":1})");
  EXPECT_EQ(answer["choices"][1]["text"], "abab1.0 ");
  EXPECT_EQ(answer["choices"][2]["text"], "cc0.0 ");
  EXPECT_EQ(Whole(R"({"prompt":[104,105],"echo":true,"max_tokens":0})")["choices"][0]["text"],
            "hi");
  ClientReply bad = Post("/v1/completions", R"({"prompt":[999],"echo":true})");
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(json::parse(bad.body)["error"]["param"], "prompt");
}

TEST_F(HttpChoicesTest, EchoStreams) {
  for (const bool logprobs : {false, true}) {
    ClientReply reply = Post(
        "/v1/completions",
        fmt::format(R"({{"prompt":["ab","c"],"echo":true,"n":2,"max_tokens":2,"stream":true{}}})",
                    logprobs ? R"(,"logprobs":1)" : ""));
    ASSERT_EQ(reply.status, 200);
    std::map<int, std::string> texts;
    std::map<int, json> offsets;
    for (const std::string& event : api::Events(reply.body)) {
      if (event == "[DONE]") continue;
      const json choice = json::parse(event)["choices"][0];
      const int index = choice["index"];
      texts[index] += choice["text"].get<std::string>();
      if (choice["logprobs"].is_null()) continue;
      for (const json& offset : choice["logprobs"]["text_offset"]) offsets[index].push_back(offset);
    }
    EXPECT_EQ(texts[1], "abab1.0 ab1.1 ");
    EXPECT_EQ(texts[2], "cc0.0 c0.1 ");
    if (logprobs) {
      EXPECT_EQ(offsets[1], (json{0, 1, 2, 8}));
    }
  }
}

TEST_F(HttpChoicesTest, PromptLogprobsInBothEndpoints) {
  const json answer = Whole(R"({"prompt":"ab","prompt_logprobs":1,"max_tokens":1})");
  const json expected = json::parse(
      R"([null,{"900":{"logprob":-0.125,"rank":1,"decoded_token":"best"},
                "98":{"logprob":-0.25,"rank":null,"decoded_token":"b"}}])");
  EXPECT_EQ(answer["choices"][0]["prompt_logprobs"], expected);
  ClientReply chat = Post("/v1/chat/completions",
                          R"({"messages":[{"role":"user","content":"ab"}],"prompt_logprobs":1,
                              "max_tokens":1,"n":2})");
  ASSERT_EQ(chat.status, 200);
  EXPECT_EQ(json::parse(chat.body)["prompt_logprobs"], expected);
  const std::vector<Request> submitted = backend_.submitted();
  EXPECT_EQ(submitted[1].prompt_logprobs, 1);
  EXPECT_FALSE(submitted[2].prompt_logprobs.has_value());  // Shown once.
}

TEST_F(HttpChoicesTest, TimeoutsAre408AndNotTriedAgain) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 1;
    script.failure = Status(StatusCode::kDeadlineExceeded, "The request's time was over.");
    return script;
  });
  ClientReply reply = Post("/v1/completions", R"({"prompt":"p","timeout":0.5})");
  EXPECT_EQ(reply.status, 408);
  EXPECT_EQ(reply.headers["x-should-retry"], "false");
  EXPECT_EQ(json::parse(reply.body)["error"]["type"], "timeout_error");
  EXPECT_EQ(backend_.submitted()[0].timeout, std::chrono::milliseconds(500));
  reply = StreamThatFails("/v1/completions", R"({"prompt":"p","timeout":0.5,"stream":true})");
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(json::parse(api::Events(reply.body).back())["error"]["type"], "timeout_error");
}

TEST_F(HttpChoicesTest, AnExceptionIsThatRequestsAlone) {
  for (const bool memory : {false, true}) {
    backend_.set_script([=](const Request& request) -> FakeScript {
      if (request.choice == 1 && memory) throw std::bad_alloc();
      if (request.choice == 1) throw std::runtime_error("a secret of ours");
      return EndlessScript(request);
    });
    TestClient client(port());
    for (const char* body : {R"({"prompt":"p","n":2})", R"({"prompt":"p","n":2,"stream":true})"}) {
      ClientReply reply = client.Post("/v1/completions", body);
      EXPECT_EQ(reply.status, memory ? 503 : 500);
      EXPECT_EQ(reply.body.find("secret"), std::string::npos);
      EXPECT_TRUE(backend_.WaitIdle());
    }
    backend_.set_script(NamedScript);
    EXPECT_EQ(client.Post("/v1/completions", R"({"prompt":"p"})").status, 200);
  }
}

TEST_F(HttpChoicesTest, QuietStreamsAreKeptAlive) {
  server_->Stop();
  ServerLimits limits;
  limits.keep_alive_interval = std::chrono::milliseconds(20);
  StartServer(limits);
  backend_.set_script([](const Request& request) {
    FakeScript script = EndlessScript(request);
    script.text = [](int) { return std::string(); };
    return script;
  });
  TestClient client(port());
  client.Send(PostBytes("/v1/completions", R"({"prompt":"p","n":2,"stream":true})"));
  ASSERT_EQ(client.ReadHead().status, 200);
  std::string seen;
  for (std::string more = client.ReadSome(); !more.empty(); more = client.ReadSome()) {
    seen += more;
    if (seen.find(": keep-alive\n\n", seen.find(": keep-alive\n\n") + 1) != std::string::npos)
      break;
  }
  EXPECT_THAT(seen, HasSubstr("e\r\n: keep-alive\n\n\r\n"));
  EXPECT_EQ(seen.find("data:"), std::string::npos);
  client.Close();
  EXPECT_TRUE(backend_.WaitIdle());
}

TEST_F(HttpChoicesTest, CopiesOfALargePromptAreBounded) {
  const std::string body =
      R"({"prompt":")" + std::string(1 << 20, 'x') + R"(","max_tokens":1,"n":)";
  ClientReply reply = Post("/v1/completions", body + "64}");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json::parse(reply.body)["error"]["param"], "n");
  EXPECT_TRUE(backend_.submitted().empty());
  EXPECT_EQ(Post("/v1/completions", body + "2}").status, 200);
}

// They are kept until the answer is sent: 128 choices of 2,048 tokens would be 5.5 million.
TEST_F(HttpChoicesTest, LogprobsOfAllChoicesTogetherAreBounded) {
  for (const char* body : {R"({"prompt":"p","n":128,"logprobs":20,"max_tokens":9999})",
                           R"({"prompt":"p","n":128,"prompt_logprobs":20,"max_tokens":1})"}) {
    const bool long_prompt = std::string_view(body).find("prompt_logprobs") != std::string::npos;
    std::string asked = body;
    if (long_prompt) asked.insert(asked.find("\"p\"") + 1, std::string(3000, 'p'));
    const ClientReply reply = Post("/v1/completions", asked);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(json::parse(reply.body)["error"]["param"], "logprobs");
  }
  EXPECT_EQ(Post("/v1/chat/completions",
                 R"({"messages":[{"role":"user","content":"p"}],"n":128,"logprobs":true,)"
                 R"("top_logprobs":20})")
                .status,
            400);
  EXPECT_TRUE(backend_.submitted().empty());
  Whole(R"({"prompt":"p","n":128,"logprobs":20,"max_tokens":3})");
  // A stream sends them as they come.
  const ClientReply streamed =
      Post("/v1/completions", R"({"prompt":"p","n":2,"logprobs":20,"max_tokens":1,"stream":true})");
  EXPECT_EQ(streamed.status, 200);
}

TEST_F(HttpChoicesTest, ManyLogprobsAreWrittenAside) {
  const json answer = Whole(R"({"prompt":"p","max_tokens":300,"logprobs":5})");
  const json& lists = answer["choices"][0]["logprobs"];
  EXPECT_EQ(lists["tokens"].size(), 300U);
  EXPECT_EQ(lists["tokens"][299], "p0.299 ");
  EXPECT_EQ(lists["top_logprobs"][299].size(), 5U);
}

TEST_F(HttpChoicesTest, LargeBodiesAreReadAside) {
  const std::string text(100'000, 'x');
  ClientReply reply = Post("/v1/completions", R"({"max_tokens":1,"prompt":")" + text + "\"}");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(std::get<std::string>(backend_.submitted().at(0).prompt), text);
  reply = Post("/v1/completions", R"({"max_tokens":-2,"prompt":")" + text + "\"}");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json::parse(reply.body)["error"]["param"], "max_tokens");
}

}  // namespace
}  // namespace ropeway::server
