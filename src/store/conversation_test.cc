#include "store/conversation.h"

#include <gtest/gtest.h>

#include <string>

namespace ropeway::store {
namespace {

std::string PackedTalk() {
  return PackConversation({.metadata = R"({"topic":"ropes"})",
                           .items = {R"({"id":"msg_1"})", "", R"({"id":"fc_2","a":"\u0000"})"},
                           .items_made = 7});
}

TEST(Conversation, ComesBackAsItWasPacked) {
  const StatusOr<Conversation> read = UnpackConversation(PackedTalk());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->metadata, R"({"topic":"ropes"})");
  EXPECT_EQ(read->items,
            (std::vector<std::string>{R"({"id":"msg_1"})", "", R"({"id":"fc_2","a":"\u0000"})"}));
  EXPECT_EQ(read->items_made, 7U);
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

}  // namespace
}  // namespace ropeway::store
