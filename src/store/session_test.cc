#include "store/session.h"

#include <gtest/gtest.h>

#include <string>

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
