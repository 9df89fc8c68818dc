#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace ropeway::base {
namespace {

using std::chrono::milliseconds;

TEST(BoundedQueueTest, AFullQueueRejectsAllButForcePush) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_TRUE(queue.ForcePush(4));
  EXPECT_EQ(queue.PopAll(), (std::list<int>{1, 2, 4}));
  EXPECT_TRUE(queue.TryPush(5));
}

TEST(BoundedQueueTest, ARejectedItemIsUnchanged) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  auto item = std::make_unique<int>(1);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(0)));
  EXPECT_FALSE(queue.TryPush(std::move(item)));
  EXPECT_NE(item, nullptr);  // NOLINT(bugprone-use-after-move): the test is about this.
}

TEST(BoundedQueueTest, AClosedQueueRejectsPushesAndReturnsItsItems) {
  BoundedQueue<int> queue(1);
  EXPECT_TRUE(queue.TryPush(1));
  queue.Close();
  EXPECT_TRUE(queue.closed());
  EXPECT_FALSE(queue.TryPush(2));
  EXPECT_FALSE(queue.WaitPush(2));
  EXPECT_FALSE(queue.ForcePush(2));
  EXPECT_EQ(queue.WaitPopAll(), std::list<int>{1});
  EXPECT_TRUE(queue.WaitPopAll().empty());
}

TEST(BoundedQueueTest, WaitPopAllEndsAtItsTimeout) {
  BoundedQueue<int> queue(1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(queue.WaitPopAll(milliseconds(20)).empty());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(20));
}

TEST(BoundedQueueTest, WaitPushGoesOnWhenThereIsRoom) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  std::thread producer([&] {
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(queue.WaitPush(std::make_unique<int>(i)));
    queue.Close();
  });
  int next = 0;
  for (auto items = queue.WaitPopAll(); !items.empty(); items = queue.WaitPopAll()) {
    for (const auto& item : items) EXPECT_EQ(*item, next++);
  }
  producer.join();
  EXPECT_EQ(next, 1000);
}

TEST(BoundedQueueTest, NothingIsLostBetweenManyProducersAndConsumers) {
  BoundedQueue<int> queue(8);
  std::vector<std::thread> producers;
  std::vector<std::thread> consumers;
  std::vector<int64_t> sums(3, 0);
  for (size_t c = 0; c < 3; ++c) {
    consumers.emplace_back([&queue, &sum = sums[c]] {
      for (auto items = queue.WaitPopAll(); !items.empty(); items = queue.WaitPopAll()) {
        for (const int item : items) sum += item;
      }
    });
  }
  for (int p = 0; p < 3; ++p) {
    producers.emplace_back([&queue] {
      for (int i = 1; i <= 1000; ++i) queue.WaitPush(int{i});
    });
  }
  for (std::thread& thread : producers) thread.join();
  queue.Close();
  for (std::thread& thread : consumers) thread.join();
  EXPECT_EQ(sums[0] + sums[1] + sums[2], 3 * 500500);
}

}  // namespace
}  // namespace ropeway::base
