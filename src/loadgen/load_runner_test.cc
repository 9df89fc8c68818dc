#include "loadgen/load_runner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "loadgen/prompt.h"
#include "net/test_fake_server.h"

namespace ropeway::loadgen {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

// Runs `plan` against a server with this script.
RunResult Load(const net::FakeServer& server, LoadPlan plan, bool insecure = false) {
  auto client = net::HttpClient::Open(*net::ParseBaseUrl(server.url()), "key", insecure);
  EXPECT_TRUE(client.ok());
  plan.client_of = [&client](int) { return client->get(); };
  if (plan.path.empty()) plan.path = "/completions";
  if (!plan.body_of) {
    plan.body_of = [](int seq, int, const std::vector<std::string>&) {
      return R"({"prompt":[1,2,3],"max_tokens":2,"stream":true,"seq":)" + std::to_string(seq) + "}";
    };
  }
  return RunLoad(plan, 1, nullptr, "");
}

RequestRecord One(net::FakeServer::Script script, double timeout = 60) {
  const net::FakeServer server(std::move(script));
  LoadPlan plan;
  plan.timeout = timeout;
  plan.keep_text = true;
  RunResult result = Load(server, plan);
  EXPECT_EQ(result.records.size(), 1U);
  EXPECT_FALSE(result.interrupted);
  return result.records.at(0);
}

// The script that answers everything with `reply`.
net::FakeServer::Script Always(net::FakeReply reply) {
  return [reply = std::move(reply)](const net::FakeRequest&) { return reply; };
}

std::string Text(const std::string& text) { return R"({"choices":[{"text":")" + text + R"("}]})"; }

// Pauses of a server: one for an idle machine and one for a busy machine.
constexpr std::chrono::milliseconds kShortPause{200};
constexpr std::chrono::milliseconds kLongPause{5000};

const char kUsage[] =
    R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2},"ropeway":{"batch_num":9}})";

TEST(LoadRunner, AClosedLoopKeepsItsUsersBusyAndNoMore) {
  std::atomic<int> arrived = 0;
  const net::FakeServer server([&](const net::FakeRequest& request) {
    // No answer before all four users have sent a request.
    ++arrived;
    for (int ms = 0; arrived < 4 && ms < 60'000; ++ms) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    net::FakeReply reply = net::WellBehaved(request);
    reply.writes.insert(reply.writes.begin(), "");
    reply.pause = std::chrono::milliseconds(20);
    return reply;
  });
  LoadPlan plan;
  plan.count = 20;
  plan.concurrency = 4;
  const RunResult result = Load(server, plan);
  ASSERT_EQ(result.records.size(), 20U);
  for (size_t i = 0; i < result.records.size(); ++i) {
    const RequestRecord& record = result.records[i];
    EXPECT_TRUE(record.ok()) << record.error;
    EXPECT_EQ(record.run_num, 1);
    EXPECT_EQ(record.seq, static_cast<int>(i));
    EXPECT_EQ(record.output_tokens, 2);
    EXPECT_GE(record.latency, 0.02);
    EXPECT_LE(record.ttft.value(), record.latency);
  }
  EXPECT_EQ(server.most_in_flight(), 4);
  EXPECT_GE(result.wall_seconds, 0.1);  // 20 requests of 20 ms by 4 users.
  const net::FakeRequest request = server.requests().front();
  EXPECT_THAT(request.headers, HasSubstr("POST /v1/completions HTTP/1.1\r\n"));
  EXPECT_THAT(request.headers, HasSubstr("Authorization: Bearer key\r\n"));
}

TEST(LoadRunner, AnOpenLoopSendsWhenTheTimeHasComeAndBoundsWhatIsInFlight) {
  const net::FakeServer server([](const net::FakeRequest& request) {
    net::FakeReply reply = net::WellBehaved(request);
    reply.writes.insert(reply.writes.begin(), "");
    reply.pause = std::chrono::milliseconds(60);
    return reply;
  });
  LoadPlan plan;
  plan.count = 4;
  plan.arrivals = {0, 0, 0, 0.05};
  plan.concurrency = 2;
  const RunResult result = Load(server, plan);
  ASSERT_EQ(result.records.size(), 4U);
  EXPECT_LE(server.most_in_flight(), 2);
  // The third waits for its turn, and that is part of its time.
  EXPECT_GE(result.records[2].latency, 0.12);
  EXPECT_EQ(result.records[3].due, 0.05);
  EXPECT_GE(result.wall_seconds, 0.12);
}

TEST(LoadRunner, ReadsStreamsHoweverTheyAreCut) {
  const std::vector<std::string> events = {Text("a"), Text("b"), kUsage};
  const std::string with_comments = ": hello\n\n" + net::EventStream(events) + ": bye\n\n";
  for (const std::string& stream : {with_comments, net::EventStream(events, "\r\n")}) {
    for (const bool chunked : {true, false}) {
      for (const size_t size : {1, 7, 100000}) {
        const RequestRecord record = One(Always(net::Cut(net::StreamReply(stream, chunked), size)));
        EXPECT_TRUE(record.ok()) << record.error;
        EXPECT_EQ(record.output, "ab");
        EXPECT_EQ(record.input_tokens, 3);
        EXPECT_EQ(record.output_tokens, 2);
        EXPECT_EQ(record.batch_num, 9);
        EXPECT_EQ(record.gaps.size(), 1U);
      }
    }
  }
}

TEST(LoadRunner, MeasuresTheGapsBetweenPieces) {
  net::FakeReply reply = net::StreamReply(net::EventStream({Text("a")}, "\n", false), false);
  reply.writes.push_back(net::EventStream({Text("b"), kUsage}));
  RequestRecord record;
  // A busy machine may see the first piece late.
  for (reply.pause = kShortPause; reply.pause <= kLongPause; reply.pause *= 5) {
    record = One(Always(reply));
    ASSERT_TRUE(record.ok()) << record.error;
    ASSERT_EQ(record.gaps.size(), 1U);
    if (record.gaps[0] >= 0.1F) break;
  }
  EXPECT_GE(record.gaps[0], 0.1F);
  EXPECT_GE(record.latency, *record.ttft + 0.1);
}

TEST(LoadRunner, EachFailureHasAKindAndAReason) {
  RequestRecord record = One(Always(net::JsonReply(R"({"error":{"message":"Full."}})", 429)));
  EXPECT_EQ(record.error_kind, "HTTP 429");
  EXPECT_EQ(record.error, "Full.");

  record = One(
      Always(net::StreamReply(net::EventStream({Text("a"), R"({"error":{"message":"Died."}})"}))));
  EXPECT_EQ(record.error_kind, kErrorEvent);
  EXPECT_EQ(record.error, "Died.");

  record = One(Always(net::StreamReply(net::EventStream({Text("a")}, "\n", false))));
  EXPECT_EQ(record.error_kind, net::http_error::kEarlyEnd);

  net::FakeReply half = net::JsonReply(R"({"choices":[]})");
  half.writes[0].resize(half.writes[0].size() - 5);
  EXPECT_EQ(One(Always(half)).error_kind, net::http_error::kEarlyEnd);
  EXPECT_EQ(One(Always({})).error_kind, net::http_error::kEarlyEnd);

  half = net::StreamReply(net::EventStream({Text("a")}, "\n", false), false);
  half.reset = true;
  half.writes.emplace_back("");
  // A reset discards what has not been read.
  for (half.pause = kShortPause; half.pause <= kLongPause; half.pause *= 5) {
    record = One(Always(half));
    EXPECT_EQ(record.error_kind, net::http_error::kReset);
    if (record.status == 200) break;
  }
  EXPECT_EQ(record.status, 200);

  EXPECT_EQ(One(Always({{"SSH-2.0-OpenSSH_9.2\r\n"}})).error_kind, net::http_error::kBadReply);
  EXPECT_EQ(One(Always(net::JsonReply("<html>"))).error_kind, net::http_error::kBadReply);
}

// As an obedient client: it comes again when it was told to, and what it waited is in the record.
TEST(LoadRunner, ARejectedRequestIsSentAgainAfterItsRetryAfter) {
  std::atomic<int> asked = 0;
  const net::FakeServer server([&](const net::FakeRequest& request) {
    const int count = ++asked;
    if (count > 2) return net::WellBehaved(request);
    net::FakeReply reply;
    reply.writes = {fmt::format("HTTP/1.1 {} X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
                                count == 1 ? 429 : 503)};
    return reply;
  });
  LoadPlan plan;
  plan.retries = 5;
  const RequestRecord record = Load(server, plan).records.at(0);
  EXPECT_TRUE(record.ok()) << record.error;
  EXPECT_EQ(record.tries, 3);
  EXPECT_EQ(record.promised, 1.0);
  EXPECT_GE(record.waited, 2.0);
  EXPECT_GE(record.latency, 2.0) << "a retried request waits for its user all the while";
  EXPECT_EQ(record.output_tokens, 2);
  EXPECT_EQ(asked, 3);
}

TEST(LoadRunner, RetriesEndWhereTheyAreTold) {
  std::atomic<int> asked = 0;
  const auto reject = [&](const char* header) {
    return net::FakeServer([&asked, header](const net::FakeRequest&) {
      ++asked;
      net::FakeReply reply;
      reply.writes = {fmt::format("HTTP/1.1 429 X\r\n{}Content-Length: 0\r\n\r\n", header)};
      return reply;
    });
  };
  for (const auto& [header, retries, tries] :
       {std::tuple("Retry-After: 0\r\n", 3, 4),
        {"Retry-After: 0\r\n", 0, 1},
        {"Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 3, 1},
        {"", 3, 1}}) {
    asked = 0;
    const net::FakeServer server = reject(header);
    LoadPlan plan;
    plan.retries = retries;
    const RequestRecord record = Load(server, plan).records.at(0);
    EXPECT_EQ(record.error_kind, "HTTP 429");
    EXPECT_EQ(record.tries, tries) << header;
    EXPECT_EQ(asked, tries) << header;
  }
}

TEST(LoadRunner, AStalledServerIsATimeout) {
  net::FakeReply stalled = net::StreamReply(net::EventStream({Text("a")}, "\n", false), false);
  stalled.hang = true;
  RequestRecord record;
  double timeout = 0.5;
  for (; timeout < 20; timeout *= 5) {  // A busy machine may not get to the first piece in time.
    record = One(Always(stalled), timeout);
    EXPECT_EQ(record.error_kind, net::http_error::kTimeout);
    if (record.ttft.has_value()) break;
  }
  EXPECT_TRUE(record.ttft.has_value());
  EXPECT_THAT(record.error,
              HasSubstr(fmt::format("within {} s, while reading the answer", timeout)));

  net::FakeReply silent;
  silent.hang = true;
  EXPECT_EQ(One(Always(silent), 0.3).error_kind, net::http_error::kTimeout);
}

TEST(LoadRunner, AServerThatIsNotThereFailsEachRequest) {
  LoadPlan plan;
  plan.count = 3;
  const net::ClosedPort closed;
  auto client = net::HttpClient::Open(*net::ParseBaseUrl(closed.url()), "", false);
  ASSERT_TRUE(client.ok());
  plan.path = "/completions";
  plan.body_of = [](int, int, const std::vector<std::string>&) { return std::string("{}"); };
  plan.client_of = [&client](int) { return client->get(); };
  const RunResult result = RunLoad(plan, 1, nullptr, "");
  ASSERT_EQ(result.records.size(), 3U);
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.error_kind, net::http_error::kConnect);
    EXPECT_THAT(record.error, HasSubstr("refused"));
  }
}

TEST(LoadRunner, HttpsRejectsAnUnsignedCertificateUnlessToldOtherwise) {
  const net::FakeServer server(net::WellBehaved, true);
  LoadPlan plan;
  plan.count = 3;
  for (const RequestRecord& record : Load(server, plan, true).records) {
    EXPECT_TRUE(record.ok()) << record.error;
    EXPECT_EQ(record.output_tokens, 2);
  }
  for (const RequestRecord& record : Load(server, plan).records) {
    EXPECT_EQ(record.error_kind, net::http_error::kConnect);
    EXPECT_THAT(record.error, HasSubstr("certificate verify failed"));
  }
  const net::FakeServer plain(net::WellBehaved);
  auto wrong = net::HttpClient::Open(*net::ParseBaseUrl("https" + plain.url().substr(4)), "", true);
  ASSERT_TRUE(wrong.ok());
  const net::HttpClient::Reply reply = (*wrong)->Fetch("/models", "", 0.5);
  EXPECT_EQ(reply.status, 0);
  EXPECT_NE(reply.why, "");
}

TEST(LoadRunner, OneBadAnswerLeavesTheOthersAlone) {
  const net::FakeServer server([](const net::FakeRequest& request) {
    if (request.body.find("\"seq\":1}") != std::string::npos) {
      net::FakeReply reset;
      reset.reset = true;
      return reset;
    }
    return net::WellBehaved(request);
  });
  LoadPlan plan;
  plan.count = 6;
  const RunResult result = Load(server, plan);
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.ok(), record.seq != 1) << record.seq << ": " << record.error;
  }
}

TEST(LoadRunner, ASignalEndsTheRunAndKeepsWhatThereIs) {
  net::FakeReply endless = net::StreamReply(net::EventStream({Text("a")}, "\n", false), false);
  endless.hang = true;
  const net::FakeServer server([&](const net::FakeRequest& request) {
    if (request.body.find("\"seq\":0}") != std::string::npos) return net::WellBehaved(request);
    kill(getpid(), SIGINT);  // The run's handler stands: it has sent requests.
    return endless;
  });
  LoadPlan plan;
  plan.count = 9;
  const RunResult result = Load(server, plan);
  EXPECT_TRUE(result.interrupted);
  ASSERT_EQ(result.records.size(), 2U);
  EXPECT_TRUE(result.records[0].ok()) << result.records[0].error;
  EXPECT_EQ(result.records[1].error_kind, net::http_error::kInterrupted);
}

TEST(LoadRunner, SigusrEndsTheRunWhenWhatIsInFlightIsAnswered) {
  std::atomic<int> arrived = 0;
  const net::FakeServer server([&](const net::FakeRequest& request) {
    if (++arrived == 3) kill(getpid(), SIGUSR1);
    net::FakeReply reply = net::WellBehaved(request);
    reply.writes.insert(reply.writes.begin(), "");
    reply.pause = std::chrono::milliseconds(60);
    return reply;
  });
  LoadPlan plan;
  plan.count = 1000;
  plan.concurrency = 2;
  const RunResult result = Load(server, plan);
  EXPECT_FALSE(result.interrupted);
  EXPECT_GE(result.records.size(), 3U);
  EXPECT_LE(result.records.size(), 4U);
  for (const RequestRecord& record : result.records) EXPECT_TRUE(record.ok()) << record.error;
}

TEST(LoadRunner, NothingIsSentAfterItsDuration) {
  const net::FakeServer server([](const net::FakeRequest& request) {
    net::FakeReply reply = net::WellBehaved(request);
    reply.writes.insert(reply.writes.begin(), "");
    reply.pause = std::chrono::milliseconds(60);
    return reply;
  });
  LoadPlan plan;
  plan.count = 50;
  plan.duration = 0.1;
  const RunResult result = Load(server, plan);
  EXPECT_LE(result.records.size(), 3U);
  EXPECT_GE(result.records.size(), 1U);
  EXPECT_TRUE(result.records.back().ok());
}

// Answers a chat of n messages with "a<n>" and counts 7 tokens per message. All but the last
// message's count as cached.
net::FakeReply Converse(const net::FakeRequest& request) {
  const Json body = Json::parse(request.body);
  const auto messages = static_cast<int>(body["messages"].size());
  const Json text = {{"choices", {{{"delta", {{"content", "a" + std::to_string(messages)}}}}}}};
  const Json usage = {{"choices", Json::array()},
                      {"usage",
                       {{"prompt_tokens", 7 * messages},
                        {"completion_tokens", 2},
                        {"prompt_tokens_details", {{"cached_tokens", 7 * (messages - 1)}}}}}};
  return net::StreamReply(net::EventStream({text.dump(), usage.dump()}));
}

// Conversations of `turns` turns. The turns before `first` are history.
RunResult Chat(const net::FakeServer& server, LoadPlan plan, int turns, int first = 0) {
  Conversation chat;
  chat.first_turn = first;
  for (int i = 0; i < turns; ++i) {
    chat.turns.push_back({"u" + std::to_string(i), i < first ? "old" : "", 2});
  }
  plan.turns_of = [=](int) { return Turns{first, turns}; };
  plan.body_of = [=](int, int turn, const std::vector<std::string>& answers) {
    return R"({"messages":)" + MessagesOf(chat, turn, answers) + "}";
  };
  return Load(server, plan);
}

TEST(LoadRunner, EachTurnOfAConversationSendsAllThatWasSaid) {
  const net::FakeServer server(Converse);
  LoadPlan plan;
  plan.count = 4;
  plan.concurrency = 2;
  const RunResult result = Chat(server, plan, 3);
  ASSERT_EQ(result.records.size(), 12U);
  std::map<int, int> turns_of;
  for (size_t i = 0; i < result.records.size(); ++i) {
    const RequestRecord& record = result.records[i];
    EXPECT_TRUE(record.ok()) << record.error;
    EXPECT_EQ(record.seq, static_cast<int>(i));
    EXPECT_EQ(record.turn, turns_of[record.conversation]++);
    EXPECT_EQ(record.input_tokens, 7 * (2 * record.turn + 1));
    EXPECT_EQ(record.input_tokens - record.cached_tokens.value_or(0), 7);
  }
  EXPECT_EQ(turns_of.size(), 4U);
  EXPECT_LE(server.most_in_flight(), 2);
  for (const net::FakeRequest& request : server.requests()) {
    const Json messages = Json::parse(request.body)["messages"];
    for (size_t i = 0; i < messages.size(); ++i) {
      EXPECT_EQ(messages[i]["role"], i % 2 == 0 ? "user" : "assistant");
      const Json& text = messages[i]["content"];
      EXPECT_TRUE(i % 2 == 0 || text == "a" + std::to_string(i)) << text;
    }
  }
}

TEST(LoadRunner, TurnsBeforeTheFirstOneAreHistory) {
  const net::FakeServer server(Converse);
  const RunResult result = Chat(server, {}, 3, 1);
  ASSERT_EQ(result.records.size(), 2U);
  EXPECT_EQ(result.records[0].turn, 1);
  const Json messages = Json::parse(server.requests()[0].body)["messages"];
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[1]["content"], "old");
}

TEST(LoadRunner, UsersBeginOneAfterTheOtherAndThink) {
  const net::FakeServer server(Converse);
  LoadPlan plan;
  plan.count = plan.concurrency = 3;
  plan.user_interval = 0.05;
  const RunResult result = Chat(server, plan, 1);
  ASSERT_EQ(result.records.size(), 3U);
  for (const RequestRecord& record : result.records) {
    EXPECT_GE(record.due, 0.05 * record.conversation);
    EXPECT_LT(record.due, 0.05 * record.conversation + 0.5);
  }
  plan.count = plan.concurrency = 1;
  plan.think_time = 0.05;
  // 19 pauses of 0.05 s on average; less than 0.4 s in all has a probability of 1e-4 over seeds.
  EXPECT_GT(Chat(server, plan, 20).wall_seconds, 0.4);
}

TEST(LoadRunner, AFailureEndsItsConversationAlone) {
  std::atomic<int> asked = 0;
  const net::FakeServer server([&](const net::FakeRequest& request) {
    return ++asked == 2 ? net::JsonReply(R"({"error":{"message":"no"}})", 500) : Converse(request);
  });
  LoadPlan plan;
  plan.count = 2;
  const RunResult result = Chat(server, plan, 3);
  ASSERT_EQ(result.records.size(), 5U);  // Two of the first conversation, three of the second.
  EXPECT_FALSE(result.records[1].ok());
  EXPECT_EQ(result.records[2].conversation, 1);
}

}  // namespace
}  // namespace ropeway::loadgen
