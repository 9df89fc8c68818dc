#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace ropeway::base {
namespace {

TEST(ThreadPoolTest, RunsAllJobsOnOneThreadInOrder) {
  std::vector<int> ran;
  std::promise<void> done;
  ThreadPool pool(1, 100);  // Last, to join its threads before what they use goes away.
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(pool.TryAdd([&ran, i] { ran.push_back(i); }));
  EXPECT_TRUE(pool.TryAdd([&done] { done.set_value(); }));
  done.get_future().wait();
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(ThreadPoolTest, RejectsBeyondItsCapacityAndAfterStop) {
  std::promise<void> running;
  std::promise<void> release;
  ThreadPool pool(1, 2);
  ASSERT_TRUE(pool.TryAdd([&] {
    running.set_value();
    release.get_future().wait();
  }));
  running.get_future().wait();
  auto token = std::make_shared<int>(0);
  std::atomic<int> ran{0};
  EXPECT_TRUE(pool.TryAdd([&ran, token] { ++ran; }));
  EXPECT_TRUE(pool.TryAdd([&ran, token] { ++ran; }));
  EXPECT_FALSE(pool.TryAdd([&ran, token] { ++ran; }));
  release.set_value();
  pool.Stop();
  EXPECT_LE(ran, 2);
  EXPECT_EQ(token.use_count(), 1) << "a job was kept after Stop";
  EXPECT_FALSE(pool.TryAdd([] {}));
}

TEST(ThreadPoolTest, JobsRunAtTheSameTimeOnSeveralThreads) {
  std::promise<void> first;
  std::promise<void> second;
  std::promise<void> done;
  ThreadPool pool(2, 10);
  // Each waits for the other: one thread alone would never finish.
  ASSERT_TRUE(pool.TryAdd([&] {
    first.set_value();
    second.get_future().wait();
    done.set_value();
  }));
  ASSERT_TRUE(pool.TryAdd([&] {
    second.set_value();
    first.get_future().wait();
  }));
  done.get_future().wait();
}

}  // namespace
}  // namespace ropeway::base
