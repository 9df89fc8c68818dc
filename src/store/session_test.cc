#include "store/session.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ropeway::store {
namespace {

SessionState AState() {
  SessionState state;
  state.kind = SessionState::Kind::kChat;
  state.vocabulary = "abc";
  state.ids = {5, 6, 7};
  state.end_ids = 1;
  state.tail = "ta";
  state.messages = {{"user", "Hello", "Ann", ""}, {"tool", "42", "", "call-1"}};
  return state;
}

SessionHead HeadOf(const std::string& record) {
  SessionHead head;
  head.created_ms = 1;
  head.last_used_ms = 2;
  head.expires_ms = 3;
  head.turns = 4;
  head.tokens = 5;
  head.state_bytes = record.size();
  head.state_checksum = Checksum(record);
  return head;
}

TEST(SessionKey, NamesAPairAndNoOther) {
  EXPECT_NE(SessionKey("a", "bc"), SessionKey("ab", "c"));
  EXPECT_NE(SessionKey("1", ":x"), SessionKey("", "1:x"));
  for (const auto& [tenant, id] : {std::pair<std::string, std::string>{"", "x"},
                                   {"t", "12:y"},
                                   {"12:", ":"},
                                   {std::string(300, 't'), "z"}}) {
    std::string found_tenant;
    std::string found_id;
    ASSERT_TRUE(ParseSessionKey(SessionKey(tenant, id), &found_tenant, &found_id));
    EXPECT_EQ(found_tenant, tenant);
    EXPECT_EQ(found_id, id);
  }
  std::string tenant;
  std::string id;
  for (const char* key : {"", ":", "x", "5:ab", "1", "99999999999999999999:ab"}) {
    EXPECT_FALSE(ParseSessionKey(key, &tenant, &id)) << key;
  }
}

TEST(Session, ComesBackAsItWasPacked) {
  const std::string key = SessionKey("t", "s");
  const std::string record = PackState(key, AState());
  const SessionHead head = HeadOf(record);
  const StatusOr<SessionHead> found = UnpackHead(key, PackHead(key, head));
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->created_ms, 1);
  EXPECT_EQ(found->last_used_ms, 2);
  EXPECT_EQ(found->expires_ms, 3);
  EXPECT_EQ(found->turns, 4);
  EXPECT_EQ(found->tokens, 5);
  const StatusOr<SessionState> state = UnpackState(key, *found, record);
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_EQ(state->kind, SessionState::Kind::kChat);
  EXPECT_EQ(state->vocabulary, "abc");
  EXPECT_EQ(state->ids, AState().ids);
  EXPECT_EQ(state->end_ids, 1);
  EXPECT_EQ(state->tail, "ta");
  ASSERT_EQ(state->messages.size(), 2U);
  EXPECT_EQ(state->messages[0].name, "Ann");
  EXPECT_EQ(state->messages[1].tool_call_id, "call-1");
}

// All fields of messages.
TEST(Session, CallsThoughtsAndPartsComeBack) {
  SessionState state = AState();
  ChatMessage called{"assistant", "Let me see."};
  called.reasoning_content = "Hm.";
  called.tool_calls = {{"c1", "weather", R"({"city":"Chur"})"}, {"", "now", "{}"}};
  ChatMessage answer{"tool", "Fog\nand rain", "", "c1"};
  answer.part_sizes = {3, 8};
  state.messages = {{"user", "Weather?"}, called, answer};
  const std::string key = SessionKey("t", "s");
  const std::string record = PackState(key, state);
  const StatusOr<SessionState> found = UnpackState(key, HeadOf(record), record);
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->messages.size(), 3U);
  EXPECT_EQ(found->messages[0].content, "Weather?");
  EXPECT_EQ(found->messages[1].reasoning_content, "Hm.");
  ASSERT_EQ(found->messages[1].tool_calls.size(), 2U);
  EXPECT_EQ(found->messages[1].tool_calls[0].id, "c1");
  EXPECT_EQ(found->messages[1].tool_calls[0].name, "weather");
  EXPECT_EQ(found->messages[1].tool_calls[0].arguments, R"({"city":"Chur"})");
  EXPECT_EQ(found->messages[1].tool_calls[1].name, "now");
  EXPECT_TRUE(found->messages[1].part_sizes.empty());
  EXPECT_EQ(found->messages[2].tool_call_id, "c1");
  EXPECT_EQ(found->messages[2].part_sizes, (std::vector<size_t>{3, 8}));
}

// As programs of before wrote it, in whose messages there were texts alone.
std::string StateOfVersion(uint64_t version, const std::string& key) {
  RecordWriter writer;
  writer.Number(version);
  writer.Text(key);
  writer.Number(0);  // A chat.
  writer.Text("abc");
  const TokenId ids[] = {5, 6, 7};
  writer.Ids(ids);
  writer.Number(1);
  writer.Text("ta");
  writer.Number(2);
  for (const char* text : {"user", "Hello", "Ann", "", "tool", "42", "", "call-1"}) {
    writer.Text(text);
  }
  return std::move(writer).Seal();
}

TEST(Session, ARecordOfVersionOneIsRead) {
  const std::string key = SessionKey("t", "s");
  const std::string record = StateOfVersion(1, key);
  const StatusOr<SessionState> found = UnpackState(key, HeadOf(record), record);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->ids, AState().ids);
  ASSERT_EQ(found->messages.size(), 2U);
  EXPECT_EQ(found->messages[0].content, "Hello");
  EXPECT_EQ(found->messages[0].name, "Ann");
  EXPECT_EQ(found->messages[1].role, "tool");
  EXPECT_EQ(found->messages[1].tool_call_id, "call-1");
  EXPECT_TRUE(found->messages[1].tool_calls.empty());
  for (const uint64_t unknown : {0, 2, 3}) {
    const std::string other = StateOfVersion(unknown, key);
    EXPECT_EQ(UnpackState(key, HeadOf(other), other).status().code(), StatusCode::kDataLoss)
        << unknown;
  }
}

TEST(Session, WithoutIdsTheHeadTellsItsTokens) {
  SessionState state = AState();
  EXPECT_EQ(state.num_tokens(), 3);
  state.vocabulary.clear();
  state.ids.clear();
  state.end_ids = 0;
  state.tokens = 12;
  EXPECT_EQ(state.num_tokens(), 12);
  const std::string key = SessionKey("t", "s");
  const std::string record = PackState(key, state);
  SessionHead head = HeadOf(record);
  head.tokens = state.num_tokens();
  const StatusOr<SessionState> found = UnpackState(key, head, record);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->num_tokens(), 12);
  EXPECT_EQ(found->messages.size(), 2U);
}

TEST(Session, ATurnIsOfItsSessionsKind) {
  const Status status = CheckKind("s", AState(), SessionState::Kind::kText);
  EXPECT_EQ(status.field(), "prompt");
  EXPECT_EQ(status.message(),
            "the turns of the session 's' must be chat messages, like its first one");
  EXPECT_TRUE(CheckKind("s", AState(), SessionState::Kind::kChat).ok());
}

TEST(Session, AnotherSessionsRecordIsDetected) {
  const std::string record = PackState(SessionKey("t", "s"), AState());
  const SessionHead head = HeadOf(record);
  EXPECT_EQ(UnpackState(SessionKey("t", "other"), head, record).status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(UnpackHead(SessionKey("u", "s"), PackHead(SessionKey("t", "s"), head)).status().code(),
            StatusCode::kDataLoss);
}

TEST(Session, AnOlderTurnsStateIsDetected) {
  const std::string key = SessionKey("t", "s");
  SessionState older = AState();
  older.ids[0] = 1;
  const std::string record = PackState(key, AState());
  EXPECT_EQ(UnpackState(key, HeadOf(record), PackState(key, older)).status().code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ropeway::store
