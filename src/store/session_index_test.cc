#include "store/session_index.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ropeway::store {
namespace {

SessionIndex::EntryPtr Entry(const std::string& id, int64_t turns, int64_t expires) {
  auto entry = std::make_shared<SessionEntry>();
  entry->tenant = "t";
  entry->id = id;
  entry->key = "k" + id;
  entry->head = {.last_used_ms = expires - 100, .expires_ms = expires, .turns = turns};
  entry->head.state_bytes = 100;
  entry->head_bytes = 10;
  return entry;
}

constexpr uint64_t kBytes = 100 + 10 + 2 * 3;  // Of one kept entry; a letter precedes each key.

TEST(SessionIndexTest, CountsWhatIsKept) {
  SessionIndex index(10, 1000);
  const auto a = Entry("a", 1, 500);
  const auto b = Entry("b", 0, 500);
  b->turn = 1;
  index.Insert(a);
  index.Insert(b);
  EXPECT_EQ(index.size(), 2u);
  EXPECT_EQ(index.bytes(), kBytes) << "of the first turn that is under way nothing is kept yet";
  EXPECT_EQ(index.Find("kb"), b);
  SessionHead head = b->head;
  head.turns = 1;
  index.SetHead(b.get(), head, 20);
  EXPECT_EQ(index.bytes(), 2 * kBytes + 10);
  index.Forget(a.get());
  EXPECT_TRUE(a->closed);
  EXPECT_EQ(index.bytes(), kBytes + 10);
  EXPECT_EQ(index.Find("ka"), nullptr);
}

TEST(SessionIndexTest, Bounds) {
  SessionIndex few(1, 1000);
  EXPECT_TRUE(few.CheckBounds(true).ok());
  const auto a = Entry("a", 1, 500);
  few.Insert(a);
  EXPECT_EQ(few.CheckBounds(true).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(few.CheckBounds(false).ok());
  SessionIndex small(10, kBytes);
  const auto b = Entry("b", 1, 500);
  small.Insert(b);
  EXPECT_EQ(small.CheckBounds(false).code(), StatusCode::kResourceExhausted);
}

TEST(SessionIndexTest, Expiry) {
  SessionIndex index(10, 1000);
  std::unordered_set<std::string> removed;
  const auto a = Entry("a", 1, 500);
  const auto b = Entry("b", 1, 300);
  const auto c = Entry("c", 1, 400);
  for (const auto& entry : {a, b, c}) index.Insert(entry);
  EXPECT_EQ(index.next_expiry(), 300);
  c->turn = 1;
  index.RemoveExpired(450, &removed);
  EXPECT_EQ(index.num_expired(), 1u);
  EXPECT_EQ(removed, std::unordered_set<std::string>{"kb"});
  EXPECT_EQ(index.next_expiry(), 500) << "one with a turn under way does not expire";
  c->turn = 0;
  index.NoteExpiry(*c);
  EXPECT_EQ(index.next_expiry(), 400);
  index.RemoveExpired(500, &removed);
  EXPECT_EQ(index.num_expired(), 3u);
  EXPECT_EQ(index.size(), 0u);
  EXPECT_EQ(index.next_expiry(), INT64_MAX);
}

TEST(SessionIndexTest, ListsATenants) {
  SessionIndex index(10, 1000);
  const auto a = Entry("a", 1, 500);
  const auto b = Entry("b", 1, 300);
  const auto first_turn = Entry("c", 0, 900);
  first_turn->turn = 1;
  const auto foreign = Entry("d", 1, 500);
  foreign->tenant = "u";
  const auto lost = Entry("e", 0, 800);
  lost->lost = Status(StatusCode::kDataLoss, "torn");
  for (const auto& entry : {a, b, first_turn, foreign, lost}) index.Insert(entry);
  index.SetUnwritten(a.get(), std::make_shared<SessionRecords>());
  std::map<std::string, SessionInfo> all;
  for (const SessionInfo& info : index.List("t", 100, true)) all[info.id] = info;
  ASSERT_EQ(all.size(), 3u);
  EXPECT_FALSE(all.at("a").durable);
  EXPECT_TRUE(all.at("b").durable);
  EXPECT_FALSE(all.at("b").lost);
  EXPECT_TRUE(all.at("e").lost);
  EXPECT_EQ(index.List("t", 400, true).size(), 2u) << "b has expired, though it is still there";
}

TEST(SessionIndexTest, Unwritten) {
  SessionIndex index(10, 1000);
  const auto a = Entry("a", 1, 500);
  index.Insert(a);
  EXPECT_TRUE(index.Unwritten().empty());
  index.SetUnwritten(a.get(), std::make_shared<SessionRecords>());
  index.SetUnwritten(a.get(), std::make_shared<SessionRecords>());
  EXPECT_EQ(index.num_unwritten(), 1u);
  EXPECT_EQ(index.Unwritten().size(), 1u);
  index.Forget(a.get());
  EXPECT_EQ(index.num_unwritten(), 0u);
}

}  // namespace
}  // namespace ropeway::store
