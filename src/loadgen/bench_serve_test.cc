// The whole command against servers of several kinds.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "flags/program.h"
#include "loadgen/load_options.h"
#include "net/test_fake_server.h"

namespace ropeway::loadgen {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

class BenchServeTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // Runs the command with these flags, as the program would.
  static Outcome Run(std::vector<std::string> flags) {
    BenchServeFlags parsed;
    flags::Program program;
    program.name = "ropeway";
    program.commands = {{"bench", "", {}, "", nullptr, {BenchServeCommand(&parsed)}}};
    flags.insert(flags.begin(), {"bench", "serve"});
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome;
    const auto invocation = flags::ParseCommandLine(program, flags);
    if (!invocation.ok())
      std::fprintf(stderr, "ropeway: %s\n", invocation.status().message().c_str());
    outcome.code = invocation.ok() ? invocation->command->run() : 1;
    outcome.out = testing::internal::GetCapturedStdout();
    outcome.err = testing::internal::GetCapturedStderr();
    return outcome;
  }

  // The measured requests' bodies: what came after the probes.
  static std::vector<Json> Bodies(const net::FakeServer& server, size_t skip) {
    std::vector<Json> bodies;
    for (const net::FakeRequest& request : server.requests()) {
      if (request.method == "POST") bodies.push_back(Json::parse(request.body));
    }
    bodies.erase(bodies.begin(), bodies.begin() + static_cast<ptrdiff_t>(skip));
    return bodies;
  }

 private:
  std::string folder_ = testing::TempDir() + "bench_serve_test_XXXXXX";
};

TEST_F(BenchServeTest, MeasuresAServerThatKnowsEverything) {
  const net::FakeServer server(net::WellBehaved);
  const Outcome outcome =
      Run({"--base-url",      server.url(), "--users",  "4",         "--num-prompts",  "8",
           "--runs",          "2",          "--warmup", "3",         "--input-tokens", "20",
           "--output-tokens", "5",          "--csv",    Path("csv"), "--json",         Path("json"),
           "--goodput",       "ttft:1000s", "e2e:1000s"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("/v1/completions, model fake\nclosed loop, 4 users; 8 requests "
                        "a run, 2 runs, seed 1; random token ids, 20 tokens in, 5 out; "
                        "streamed, end tokens ignored, temperature 0"));
  EXPECT_THAT(outcome.out, HasSubstr("requests              16 succeeded, 0 failed"));
  EXPECT_THAT(outcome.out, HasSubstr("20 to 20 a request"));
  EXPECT_THAT(outcome.err, HasSubstr("warm-up 3/3"));
  EXPECT_THAT(outcome.err, HasSubstr("run 2 8/8"));

  const std::vector<Json> bodies = Bodies(server, 1 + 3);
  ASSERT_EQ(bodies.size(), 16U);
  std::set<std::string> prompts;
  for (const Json& body : bodies) {
    EXPECT_EQ(body["model"], "fake");
    EXPECT_EQ(body["max_tokens"], 5);
    EXPECT_EQ(body["ignore_eos"], true);
    prompts.insert(body["prompt"].dump());
  }
  EXPECT_EQ(prompts.size(), 16U);  // No cache can help.

  const Json json = Json::parse(Read(Path("json")));
  EXPECT_EQ(json["all"]["succeeded"], 16);
  EXPECT_EQ(json["all"]["output_tokens"], 80);
  EXPECT_EQ(json["all"]["good_requests"], 16);
  EXPECT_EQ(json["runs"].size(), 2U);
  EXPECT_GT(json["all"]["generator_cpu_s"], 0.0);

  std::istringstream csv(Read(Path("csv")));
  std::string line;
  std::getline(csv, line);
  EXPECT_THAT(line, testing::StartsWith("run_num,seq,status,batch_num,input_tokens,output_tokens,"
                                        "total_tokens,latency,ttft,tokens_per_sec,prompt,"
                                        "output_prompt,error"));
  for (int run = 1; run <= 2; ++run) {
    for (int seq = 0; seq < 8; ++seq) {
      ASSERT_TRUE(std::getline(csv, line));
      EXPECT_THAT(line, testing::StartsWith(std::to_string(run) + "," + std::to_string(seq) +
                                            ",200,3,20,5,25,"));
      EXPECT_THAT(line, HasSubstr(", t t t t t,"));
      EXPECT_THAT(line, HasSubstr(",\"["));
    }
  }
  EXPECT_FALSE(std::getline(csv, line));
}

TEST_F(BenchServeTest, FallsBackToTextWithoutIgnoreEosAndKeepsTheLength) {
  const net::FakeServer server([](const net::FakeRequest& request) {
    if (request.method == "POST") {
      const Json asked = Json::parse(request.body);
      if (asked.contains("ignore_eos") || asked["prompt"].is_array()) {
        return net::JsonReply(R"({"error":{"message":"Unrecognized request argument."}})", 400);
      }
    }
    return net::WellBehaved(request);
  });
  const Outcome outcome = Run({"--base-url", server.url(), "--num-prompts", "3", "--input-tokens",
                               "20", "--no-stream", "--no-progress"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("note: The server does not know ignore_eos"));
  EXPECT_THAT(outcome.out, HasSubstr("random words"));
  EXPECT_THAT(outcome.out, HasSubstr("20 to 20 a request"));  // 15 words and 5 of the server's own.
  EXPECT_THAT(outcome.out, Not(HasSubstr("time to first token")));
}

// The server reports half a second more in the queue with each request, to clients with its key.
TEST_F(BenchServeTest, ShowsWhereTheServersTimeWent) {
  std::atomic<int> asked = 0;
  const net::FakeServer server([&](const net::FakeRequest& request) {
    if (request.path != "/metrics") {
      if (request.method == "POST") ++asked;
      return net::WellBehaved(request);
    }
    if (request.headers.find("Bearer abc") == std::string::npos) return net::JsonReply("{}", 401);
    return net::JsonReply(
        fmt::format("ropeway_request_queue_time_seconds_count{{priority=\"high\"}} {}\n"
                    "ropeway_request_queue_time_seconds_sum{{priority=\"high\"}} {}\n"
                    "ropeway_batches_total {}\n",
                    asked.load(), asked * 0.5, 2 * asked));
  });
  const std::vector<std::string> flags = {
      "--base-url", server.url() + "/v1", "--num-prompts", "3",     "--runs",
      "2",          "--priority",         "high",          "--csv", Path("csv"),
      "--json",     Path("json"),         "--api-key"};
  std::vector<std::string> with_key = flags;
  with_key.emplace_back("abc");
  Outcome outcome = Run(with_key);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("priority high"));
  EXPECT_THAT(outcome.out, HasSubstr("high (6)                  500.00"));
  EXPECT_EQ(Bodies(server, 1).front()["priority"], 0);
  const Json json = Json::parse(Read(Path("json")));
  EXPECT_EQ(json["runs"][1]["server_phase_means_s"]["high"]["count"], 3);
  EXPECT_THAT(outcome.out, HasSubstr("total batches         12\n"));
  EXPECT_EQ(json["all"]["total_batches"], 12);

  std::vector<std::string> with_another = flags;
  with_another.emplace_back("abd");
  outcome = Run(with_another);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("server's mean")));
  EXPECT_THAT(Read(Path("csv")), HasSubstr(",0,,,,,\r\n"));
}

TEST_F(BenchServeTest, AsksChatsWithTheExactLength) {
  const net::FakeServer server(net::WellBehaved);
  const Outcome outcome =
      Run({"--base-url", server.url() + "/v1", "--endpoint", "chat", "--num-prompts", "3",
           "--input-tokens", "30", "--model", "fake", "--temperature", "0.5", "--api-key", "abc"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("30 to 30 a request"));
  for (const net::FakeRequest& request : server.requests()) {
    EXPECT_THAT(request.headers, HasSubstr("Bearer abc"));
  }
  const Json body = Bodies(server, 1).front();
  EXPECT_EQ(body["messages"][0]["role"], "user");
  EXPECT_EQ(body["seed"], 1);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
}

TEST_F(BenchServeTest, OpenLoopAndTrace) {
  const net::FakeServer server(net::WellBehaved);
  Outcome outcome = Run({"--base-url", server.url(), "--request-rate", "200", "--num-prompts", "5",
                         "--max-concurrency", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("open loop, 200 requests/s (Poisson), at most 2 in flight"));

  std::ofstream(Path("trace")) << "arrival_s,input_tokens,output_tokens\n"
                                  "0,7,3\n0.5,9000,3\n1,9,4\n";
  outcome = Run({"--base-url", server.url(), "--trace", Path("trace"), "--trace-speed", "10",
                 "--csv", Path("csv")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the trace's arrivals at 10x; 2 requests a run"));
  EXPECT_THAT(outcome.out, HasSubstr("1 entries left out"));  // The model holds 2,048 tokens.
  const std::string csv = Read(Path("csv"));
  EXPECT_THAT(csv, HasSubstr("\r\n1,0,200,3,7,3,10,"));
  EXPECT_THAT(csv, HasSubstr("\r\n1,1,200,3,9,4,13,"));
  EXPECT_THAT(csv, HasSubstr(",0.100000,"));  // Due.
}

TEST_F(BenchServeTest, ADatasetIsAskedInTurnAndEndsWhereTheModelDoes) {
  std::ofstream(Path("data")) << "{\"prompt\": \"One, \\\"two\\\"\", \"max_tokens\": 2}\n"
                                 "{\"prompt\": \"Three\"}\n";
  const net::FakeServer server(net::WellBehaved);
  const Outcome outcome = Run({"--base-url", server.url(), "--dataset", Path("data"),
                               "--num-prompts", "3", "--output-tokens", "4", "--csv", Path("csv")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> bodies = Bodies(server, 1);
  ASSERT_EQ(bodies.size(), 3U);
  EXPECT_EQ(bodies[0]["prompt"], "One, \"two\"");
  EXPECT_EQ(bodies[1]["max_tokens"], 4);
  EXPECT_EQ(bodies[2]["prompt"], bodies[0]["prompt"]);
  EXPECT_FALSE(bodies[0].contains("ignore_eos"));
  EXPECT_THAT(Read(Path("csv")), HasSubstr("\"One, \"\"two\"\"\""));
}

TEST_F(BenchServeTest, SaysWhereItHadToGuess) {
  const net::FakeServer server([](const net::FakeRequest& request) {
    if (request.method == "GET") return net::WellBehaved(request);
    const std::string piece = R"({"choices":[{"text":"x","finish_reason":"stop"}]})";
    return Json::parse(request.body).value("stream", false)
               ? net::StreamReply(net::EventStream({piece}))
               : net::JsonReply(piece);
  });
  const Outcome outcome = Run({"--base-url", server.url(), "--num-prompts", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("note: The server does not count tokens"));
  EXPECT_THAT(outcome.out, HasSubstr("note: The server counted no tokens for 2 requests"));
}

TEST_F(BenchServeTest, ExitsWithOneOnlyIfAllFailed) {
  std::atomic<int> asked = 0;
  const net::FakeServer flaky([&](const net::FakeRequest& request) {
    return request.method == "POST" && asked++ % 2 == 1 ? net::JsonReply("{}", 500)
                                                        : net::WellBehaved(request);
  });
  const Outcome some = Run({"--base-url", flaky.url(), "--num-prompts", "4"});
  EXPECT_EQ(some.code, 0);
  EXPECT_THAT(some.out, HasSubstr("2 succeeded, 2 failed\n  2 x HTTP 500"));

  const net::FakeServer broken([](const net::FakeRequest&) { return net::JsonReply("{}", 500); });
  const Outcome all =
      Run({"--base-url", broken.url(), "--num-prompts", "2", "--model", "m", "--csv", Path("csv")});
  EXPECT_EQ(all.code, 1);
  EXPECT_THAT(all.out, HasSubstr("0 succeeded, 2 failed"));
  EXPECT_THAT(Read(Path("csv")), HasSubstr("1,1,500,,0,0,0,"));
}

TEST_F(BenchServeTest, PlaysConversationsAndWritesRecords) {
  const net::FakeServer server([](const net::FakeRequest& request) {
    if (request.method == "GET") return net::WellBehaved(request);
    const Json json = {
        {"choices", {{{"message", {{"content", "yes"}}}, {"finish_reason", "stop"}}}},
        {"usage", {{"prompt_tokens", 4}, {"completion_tokens", 2}}},
        {"ropeway", {{"batch_num", 3}, {"queue_ms", 1.5}, {"decode_ms", 20}}}};
    return net::JsonReply(json.dump());
  });
  std::ofstream(Path("chats")) << R"({"turns":[{"user":"a","max_tokens":2},)"
                               << R"({"user":"b","max_tokens":2}]})"
                               << "\n";
  const Outcome outcome =
      Run({"--base-url", server.url(), "--endpoint", "chat", "--conversations", Path("chats"),
           "--num-prompts", "2", "--users", "2", "--no-stream", "--records", Path("records"),
           "--csv", Path("csv"), "--no-progress"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("4 succeeded, 0 failed"));
  std::istringstream records(Read(Path("records")));
  std::string line;
  std::getline(records, line);
  EXPECT_GT(Json::parse(line)["begin"], 0);
  int second_turns = 0;
  while (std::getline(records, line)) {
    const Json json = Json::parse(line);
    EXPECT_EQ(json["prompt"], json["turn"] == 0 ? "a" : "b");
    EXPECT_EQ(json["output"], "yes");
    EXPECT_EQ(json["times"], Json({{"queue", 0.0015}, {"decode", 0.02}}));
    second_turns += json["turn"].get<int>();
  }
  EXPECT_EQ(second_turns, 2);
  EXPECT_THAT(Read(Path("csv")), HasSubstr(",0,0.001500,,,0.020000,\r\n"));
  for (const Json& body : Bodies(server, 1)) {
    if (body["messages"].size() == 1) continue;
    EXPECT_EQ(body["messages"][1]["content"], "yes");
  }
}

TEST_F(BenchServeTest, SendsEachClientsRequestsWithItsKeyAndClass) {
  const net::FakeServer server(net::WellBehaved);
  std::ofstream(Path("trace")) << "client,priority,input_tokens,output_tokens\n"
                               << "1,low,4,2\n0,high,4,2\n";
  std::ofstream(Path("keys")) << "zero\none\n";
  const std::vector<std::string> flags = {"--base-url",  server.url(),    "--trace",
                                          Path("trace"), "--client-keys", Path("keys")};
  const Outcome outcome = Run(flags);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  int seen = 0;
  for (const net::FakeRequest& request : server.requests()) {
    if (request.method != "POST" || request.body.find("priority") == std::string::npos) continue;
    const bool low = Json::parse(request.body)["priority"] == 2;
    EXPECT_THAT(request.headers, HasSubstr(low ? "Bearer one" : "Bearer zero"));
    ++seen;
  }
  EXPECT_EQ(seen, 2);
  std::ofstream(Path("keys")) << "zero\n";
  EXPECT_THAT(Run(flags).err, HasSubstr("--client-keys has 1 keys, but the trace has 2 clients."));
  std::ofstream(Path("keys")) << "";
  EXPECT_THAT(Run(flags).err, HasSubstr("contains no keys, or cannot be read."));
}

TEST_F(BenchServeTest, RejectsBadInputInOneSentence) {
  const net::ClosedPort closed;
  const net::FakeServer server(net::WellBehaved);
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--users", "-3"}, "ropeway: --users: expected"},
      {{"--base-url", "localhost:80"}, "ropeway: --base-url must be"},
      {{"--base-url", closed.url()}, "ropeway: --base-url: cannot connect to " + closed.url()},
      {{"--base-url", closed.url(), "--model", "m"}, ": Connection refused"},
      {{"--base-url", server.url(), "--goodput", "foo"}, "e2e:10s, not 'foo'."},
      {{"--base-url", server.url(), "--dataset", "no/such"}, "Cannot read 'no/such'."},
      {{"--csv", "no/such/folder/x.csv"}, "Cannot write 'no/such/folder/x.csv'."},
      {{"--base-url", server.url(), "--endpoint", "chat", "--input-tokens", "4"},
       "--input-tokens must be above 5"},
  };
  for (const auto& [flags, sentence] : cases) {
    const Outcome outcome = Run(flags);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(sentence));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace ropeway::loadgen
