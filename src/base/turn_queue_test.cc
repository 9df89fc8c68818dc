#include <gtest/gtest.h>

#include <list>
#include <string>

#include "base/bounded_queue.h"

namespace ropeway::base {
namespace {

TEST(TurnQueueTest, TenantsTakeTurnsAndEachKeepsItsOrder) {
  TurnQueue<std::string> queue;
  const auto push = [&queue](const std::string& tenant, const std::string& item) {
    std::list<std::string> items{item};
    queue.Push(tenant, &items);
    EXPECT_TRUE(items.empty());
  };
  const auto pop = [&queue] { return queue.Pop().front(); };
  EXPECT_TRUE(queue.empty());
  for (int i = 1; i <= 4; ++i) push("b", "b" + std::to_string(i));
  push("a", "a1");
  push("c", "c1");
  EXPECT_EQ(pop(), "a1");
  EXPECT_EQ(pop(), "b1");
  push("a", "a2");
  EXPECT_EQ(pop(), "c1");
  EXPECT_EQ(pop(), "a2");
  EXPECT_EQ(pop(), "b2");
  // One that comes back waits for its turn, and no longer.
  push("a", "a3");
  push("a", "a4");
  EXPECT_EQ(pop(), "a3");
  EXPECT_EQ(pop(), "b3");
  EXPECT_EQ(pop(), "a4");
  EXPECT_EQ(pop(), "b4");
  EXPECT_TRUE(queue.empty());
  push("d", "d1");
  EXPECT_EQ(pop(), "d1");
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace ropeway::base
