#include "store/object_index.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ropeway::store {
namespace {

constexpr int64_t kMany = 20'000;

class ObjectIndexTest : public testing::Test {
 protected:
  // A new entry that expires then. `parent`: null: none.
  ObjectIndex::EntryPtr Add(const std::string& id, int64_t expires_ms,
                            ObjectEntry* parent = nullptr) {
    auto entry = std::make_shared<ObjectEntry>();
    entry->name = {ObjectKind::kResponse, "t", id};
    entry->key = ObjectKey(entry->name);
    entry->parent = parent;
    entry->head.order = index_.NextOrder();
    entry->head.expires_ms = expires_ms;
    index_.Insert(entry);
    return entry;
  }
  void Change(const ObjectIndex::EntryPtr& entry, int64_t expires_ms, bool open) {
    ObjectHead head = entry->head;
    head.expires_ms = expires_ms;
    head.open = open;
    ObjectRecords records;
    records.head = std::make_shared<const std::string>(PackObjectHead(entry->key, head));
    index_.Change(entry, std::move(head), std::move(records));
  }
  bool Has(const ObjectIndex::EntryPtr& entry) const { return index_.Find(entry->key) == entry; }

  ObjectIndex index_{2 * kMany, int64_t{1} << 40};
};

// Every write deletes what has expired: it may not look at all that is stored.
TEST_F(ObjectIndexTest, OnlyWhatHasExpiredIsLookedAt) {
  for (int64_t i = 0; i < kMany; ++i) Add(std::to_string(i), i);
  for (int64_t now = 0; now < kMany; ++now) index_.DeleteExpired(now);
  EXPECT_EQ(index_.size(), 0U);
  EXPECT_EQ(index_.num_expired(), static_cast<uint64_t>(kMany));
  EXPECT_EQ(index_.num_looked_at(), static_cast<uint64_t>(kMany));
}

TEST_F(ObjectIndexTest, AChangeMovesTheExpiry) {
  const auto later = Add("later", 10);
  const auto sooner = Add("sooner", 30);
  const auto opened = Add("opened", 10);
  const auto lost = Add("lost", 10);
  Change(later, 40, false);
  Change(sooner, 20, false);
  Change(opened, 10, true);
  Change(lost, 10, true);
  index_.DeleteExpired(10);
  EXPECT_EQ(index_.size(), 4U);
  index_.Lose(lost.get(), Status(StatusCode::kDataLoss, "torn"), 30);
  index_.DeleteExpired(20);
  EXPECT_FALSE(Has(sooner));
  EXPECT_EQ(index_.size(), 3U);
  index_.DeleteExpired(40);
  EXPECT_FALSE(Has(later));
  EXPECT_FALSE(Has(lost));
  EXPECT_TRUE(Has(opened));
  Change(opened, 50, false);
  index_.DeleteExpired(50);
  EXPECT_EQ(index_.size(), 0U);
}

TEST_F(ObjectIndexTest, WhatIsHiddenGoesWithItsLastSuccessor) {
  const auto first = Add("first", 10);
  const auto second = Add("second", 20, first.get());
  index_.DeleteExpired(15);
  EXPECT_TRUE(Has(first));
  EXPECT_TRUE(first->head.hidden);
  index_.DeleteExpired(15);
  EXPECT_EQ(index_.num_expired(), 1U) << "it expires once";
  index_.DeleteExpired(20);
  EXPECT_FALSE(Has(second));
  EXPECT_EQ(index_.size(), 0U);
}

// An ancestor that expires with its successors is removed with them.
TEST_F(ObjectIndexTest, WhatExpiresTogetherIsNotHidden) {
  const auto first = Add("first", 20);
  Add("second", 10, first.get());
  index_.DeleteExpired(20);
  EXPECT_EQ(index_.size(), 0U);
  EXPECT_FALSE(first->head.hidden);
}

}  // namespace
}  // namespace ropeway::store
