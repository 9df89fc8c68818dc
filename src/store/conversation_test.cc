#include "store/conversation.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "store/session.h"

namespace ropeway::store {
namespace {

std::string PackedTalk() {
  return PackConversation({.metadata = R"({"topic":"ropes"})",
                           .items = {R"({"id":"msg_1"})", "", R"({"id":"fc_2","a":"\u0000"})"}});
}

TEST(Conversation, ComesBackAsItWasPacked) {
  const StatusOr<Conversation> read = UnpackConversation(PackedTalk());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->metadata, R"({"topic":"ropes"})");
  EXPECT_EQ(read->items,
            (std::vector<std::string>{R"({"id":"msg_1"})", "", R"({"id":"fc_2","a":"\u0000"})"}));
  const StatusOr<Conversation> empty = UnpackConversation(PackConversation({}));
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->metadata, "{}");
  EXPECT_TRUE(empty->items.empty());
}

TEST(Conversation, EveryFlippedBitAndEveryTornRecordIsDataLoss) {
  const std::string packed = PackedTalk();
  for (size_t bit = 0; bit < packed.size() * 8; ++bit) {
    std::string broken = packed;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(UnpackConversation(broken).status().code(), StatusCode::kDataLoss) << "bit " << bit;
  }
  for (size_t size = 0; size < packed.size(); ++size) {
    EXPECT_EQ(UnpackConversation(packed.substr(0, size)).status().code(), StatusCode::kDataLoss)
        << size << " bytes";
  }
}

// Version 1 had a number more, which nothing read.
TEST(Conversation, ARecordOfAnotherVersionIsDataLoss) {
  RecordWriter writer;
  writer.Number(1);
  writer.Text("{}");
  writer.Number(0);
  writer.Number(0);
  EXPECT_EQ(UnpackConversation(std::move(writer).Seal()).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ropeway::store
