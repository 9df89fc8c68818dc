#include "bench/session_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "bench/session_figures.h"
#include "net/test_fake_server.h"

namespace ropeway {
namespace {

using Json = nlohmann::json;

// The answer "a<n>" to a chat of n messages; of its tokens, 7 a message, all but the last message's
// were cached.
FakeReply Answer(const FakeRequest& request) {
  const size_t messages = Json::parse(request.body)["messages"].size();
  const Json text = {{"choices", {{{"delta", {{"content", "a" + std::to_string(messages)}}}}}}};
  const Json usage = {{"choices", Json::array()},
                      {"usage",
                       {{"prompt_tokens", 7 * messages},
                        {"completion_tokens", 2},
                        {"prompt_tokens_details", {{"cached_tokens", 7 * (messages - 1)}}}}}};
  return StreamReply(EventStream({text.dump(), usage.dump()}));
}

SessionResult Chat(const FakeServer& server, const SessionShape& shape, int turns) {
  auto client = HttpClient::Open(*ParseBaseUrl(server.url()), "", false);
  EXPECT_TRUE(client.ok());
  RequestShape request;
  request.chat = true;
  ChatLengths lengths;
  lengths.first_tokens = lengths.user_tokens = 4;
  lengths.answer_tokens = 4;
  SessionRunner runner(client->get(), shape, request, [=](int number) {
    Conversation chat = RandomConversation(1, number, turns, lengths);
    for (int i = 0; i < shape.first_turn; ++i) chat[static_cast<size_t>(i)].assistant = "old";
    return chat;
  });
  return runner.Run();
}

TEST(SessionRunner, EachTurnSendsAllThatWasSaid) {
  const FakeServer server(Answer);
  SessionShape shape;
  shape.users = 2;
  shape.conversations = 2;
  const SessionResult result = Chat(server, shape, 3);
  ASSERT_EQ(result.turns.size(), 12U);
  std::map<int, int> turns_of;
  for (const TurnRecord& turn : result.turns) {
    EXPECT_TRUE(turn.request.ok()) << turn.request.error;
    EXPECT_EQ(turn.turn, turns_of[turn.conversation]++);
    EXPECT_EQ(turn.conversation % 2, turn.user);
    EXPECT_EQ(turn.request.input_tokens, 7 * (2 * turn.turn + 1));
    EXPECT_EQ(PrefilledTokens(turn.request), 7);
  }
  EXPECT_EQ(turns_of.size(), 4U);
  EXPECT_LE(server.most_in_flight(), 2);
  for (const FakeRequest& request : server.requests()) {
    const Json messages = Json::parse(request.body)["messages"];
    for (size_t i = 0; i < messages.size(); ++i) {
      EXPECT_EQ(messages[i]["role"], i % 2 == 0 ? "user" : "assistant");
      const Json& text = messages[i]["content"];
      EXPECT_TRUE(i % 2 == 0 || text == "a" + std::to_string(i)) << text;
    }
  }
}

TEST(SessionRunner, TurnsBeforeTheFirstOneAreHistory) {
  const FakeServer server(Answer);
  SessionShape shape;
  shape.first_turn = 1;
  const SessionResult result = Chat(server, shape, 3);
  ASSERT_EQ(result.turns.size(), 2U);
  EXPECT_EQ(result.turns[0].turn, 1);
  const Json messages = Json::parse(server.requests()[0].body)["messages"];
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[1]["content"], "old");
}

TEST(SessionRunner, UsersBeginOneAfterTheOtherAndThink) {
  const FakeServer server(Answer);
  SessionShape shape;
  shape.users = 3;
  shape.request_interval = 0.05;
  const SessionResult result = Chat(server, shape, 1);
  ASSERT_EQ(result.turns.size(), 3U);
  for (const TurnRecord& turn : result.turns) {
    EXPECT_GE(turn.request.due, 0.05 * turn.user);
    EXPECT_LT(turn.request.due, 0.05 * turn.user + 0.5);
  }
  shape.users = 1;
  shape.think_time = 0.05;
  const SessionResult thinking = Chat(server, shape, 20);
  // 19 pauses of 0.05 s on average; less than 0.4 s in all has a probability of 1e-4 over seeds.
  EXPECT_GT(thinking.wall_seconds, 0.4);
}

TEST(SessionRunner, AFailureEndsItsConversationAlone) {
  std::atomic<int> asked = 0;
  const FakeServer server([&](const FakeRequest& request) {
    return ++asked == 2 ? JsonReply(R"({"error":{"message":"no"}})", 500) : Answer(request);
  });
  SessionShape shape;
  shape.conversations = 2;
  const SessionResult result = Chat(server, shape, 3);
  ASSERT_EQ(result.turns.size(), 5U);  // Two of the first conversation, three of the second.
  EXPECT_FALSE(result.turns[1].request.ok());
  EXPECT_EQ(result.turns[2].conversation, 1);
  Figures figures;
  AddSessionFigures(result, 2, {"p", "c", 1, "", "", ""}, &figures);
  EXPECT_EQ(figures.Median("p", "c", "", "failed"), 1);
  EXPECT_EQ(figures.Median("p", "c", "", "turns"), 4);
  EXPECT_EQ(figures.Median("p", "c", "", "prefilled_tokens"), 4 * 7);
  EXPECT_EQ(figures.Median("p", "c", "", "prompt_tokens"), 7 + 7 + 21 + 35);
  EXPECT_EQ(figures.Median("p", "c", "", "cached_tokens"), 14 + 28);
  EXPECT_EQ(figures.Median("p", "c", "1", "turns"), 2);
  EXPECT_EQ(figures.Median("p", "c", "2", "turns"), 1);
  EXPECT_TRUE(figures.Median("p", "c", "1", "ttft_p50_s"));
  EXPECT_NEAR(*figures.Median("p", "c", "", "turns_per_s") * result.wall_seconds, 4, 0.01);
}

TEST(SessionRunner, AfterItsDurationNobodyAsks) {
  const FakeServer server([](const FakeRequest& request) {
    FakeReply reply = Answer(request);
    reply.writes.insert(reply.writes.begin(), "");
    reply.pause = std::chrono::milliseconds(60);
    return reply;
  });
  SessionShape shape;
  shape.duration = 0.1;
  const SessionResult result = Chat(server, shape, 50);
  EXPECT_LE(result.turns.size(), 3U);
  EXPECT_GE(result.turns.size(), 1U);
  EXPECT_TRUE(result.turns.back().request.ok());
}

}  // namespace
}  // namespace ropeway
