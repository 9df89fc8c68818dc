#include "core/block_name.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ropeway::core {
namespace {

CacheRoot Root() {
  return {.model_digest = "digest",
          .numerics_version = 1,
          .kv_dtype = "f16",
          .rope_scaling = "none",
          .scope = "tenant",
          .salt = ""};
}

std::string Hex(const BlockName& name) {
  std::string text;
  for (const uint8_t byte : name.bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(BlockName, EveryFieldOfTheRootCounts) {
  std::set<std::string> names = {Hex(RootName(Root()))};
  const auto add = [&](auto change) {
    CacheRoot root = Root();
    change(&root);
    EXPECT_TRUE(names.insert(Hex(RootName(root))).second);
  };
  add([](CacheRoot* r) { r->model_digest = "other"; });
  add([](CacheRoot* r) { r->numerics_version = 2; });
  add([](CacheRoot* r) { r->kv_dtype = "q8_0"; });
  add([](CacheRoot* r) { r->rope_scaling = "linear"; });
  add([](CacheRoot* r) { r->scope = "other"; });
  add([](CacheRoot* r) { r->salt = "s"; });
  // A letter that moves from one field into the next is another root.
  add([](CacheRoot* r) {
    r->scope = "tenan";
    r->salt = "t";
  });
  EXPECT_EQ(RootName(Root()), RootName(Root()));
}

TEST(BlockName, DependsOnParentIdsOrderAndNumber) {
  const BlockName root = RootName(Root());
  const std::vector<TokenId> ids = {1, 2, 3};
  const BlockName name = ChildName(root, ids);
  EXPECT_EQ(name, ChildName(root, ids));
  EXPECT_NE(name, ChildName(name, ids));
  EXPECT_NE(name, ChildName(root, std::vector<TokenId>{3, 2, 1}));
  EXPECT_NE(name, ChildName(root, std::vector<TokenId>{1, 2}));
  EXPECT_NE(name, ChildName(root, std::vector<TokenId>{1, 2, 3, 0}));
}

TEST(BlockName, GroupsOfLayersHaveTheirOwnNames) {
  const BlockName name = RootName(Root());
  EXPECT_EQ(GroupName(name, 0), name);
  std::set<std::string> names;
  for (int32_t group = 0; group < 1000; ++group) {
    const BlockName other = GroupName(name, group);
    names.insert(Hex(other));
    EXPECT_EQ(Hex(other).substr(4), Hex(name).substr(4));
    EXPECT_EQ(GroupName(other, group), name);
  }
  EXPECT_EQ(names.size(), 1000U);
}

// The blocks that older runs of Ropeway stored are found by these names.
TEST(BlockName, IsWhatItWas) {
  const BlockName root = RootName(Root());
  EXPECT_EQ(Hex(root), "e3917959ec2878861fd7dd7bbc5ddfd6ceb0ddadaabe5a0858e0ebce029d8a4f");
  EXPECT_EQ(Hex(ChildName(root, std::vector<TokenId>{1, -2, 300000})),
            "1928ff4fbd92863cca4c486a50f9e5ffb60ee717b7df47b3aca7b7c3bc6cdf0f");
  EXPECT_EQ(ShortName(root), Hex(root).substr(0, 12));
}

}  // namespace
}  // namespace ropeway::core
