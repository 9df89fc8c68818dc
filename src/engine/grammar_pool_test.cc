#include "engine/grammar_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

// "aaa...": another grammar for each length.
std::string GrammarOfLength(size_t length) {
  return "root ::= \"" + std::string(length, 'a') + "\"\n";
}

class GrammarPoolTest : public testing::Test {
 protected:
  void Start(size_t cache_bytes = GrammarPool::kCacheBytes, int64_t work = grammar::kCompileWork) {
    pool_ = std::make_unique<GrammarPool>(std::make_shared<ByteTokenizer>(), 16, cache_bytes, work);
  }
  void TearDown() override { gate_.Open(); }

  // Counts in `done_`.
  bool Add(const std::string& ebnf, bool wanted = true, const std::string& tenant = "a") {
    return pool_->TryAdd(
        {.tenant = tenant}, std::make_shared<const GrammarText>(ebnf), [wanted] { return wanted; },
        [this](const GrammarPool::Compiled& compiled) { ++(compiled.ok() ? good_ : bad_); });
  }
  // Holds the thread up until the gate opens.
  void Hold() {
    gate_.Close();
    ASSERT_TRUE(pool_->TryAdd(
        {.tenant = "a"}, std::make_shared<const GrammarText>(""),
        [this] {
          gate_.Pass();
          return false;
        },
        [](const GrammarPool::Compiled&) {}));
  }
  bool Done(int good, int bad) {
    return Eventually([&] { return good_ == good && bad_ == bad; });
  }

  TestGate gate_;
  std::atomic<int> good_{0};
  std::atomic<int> bad_{0};
  std::unique_ptr<GrammarPool> pool_;
};

TEST_F(GrammarPoolTest, AGrammarIsCompiledOnce) {
  Start();
  EXPECT_FALSE(pool_->Find(GrammarText(GrammarOfLength(3))));
  ASSERT_TRUE(Add(GrammarOfLength(3)));
  ASSERT_TRUE(Done(1, 0));
  const auto found = pool_->Find(GrammarText(GrammarOfLength(3)));
  ASSERT_TRUE(found);
  ASSERT_TRUE(found->ok());
  ASSERT_TRUE(Add(GrammarOfLength(3)));
  ASSERT_TRUE(Done(2, 0));
  const GrammarStats stats = pool_->stats();
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.hits, 2U);
  EXPECT_EQ(stats.grammars, 1U);
  EXPECT_GT(stats.bytes, (**found)->bytes());
  EXPECT_GT(stats.seconds, 0.0);
}

TEST_F(GrammarPoolTest, AFailureIsKeptToo) {
  Start(GrammarPool::kCacheBytes, /*work=*/1);
  ASSERT_TRUE(Add(GrammarOfLength(3)));
  ASSERT_TRUE(Done(0, 1));
  ASSERT_TRUE(Add(GrammarOfLength(3)));
  ASSERT_TRUE(Done(0, 2));
  EXPECT_EQ(pool_->stats().misses, 1U);
  EXPECT_EQ(pool_->stats().failed, 1U);
  EXPECT_EQ(pool_->Find(GrammarText(GrammarOfLength(3)))->status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(GrammarPoolTest, WhatIsNotWantedIsNotCompiled) {
  Start();
  ASSERT_TRUE(Add(GrammarOfLength(1), /*wanted=*/false));
  ASSERT_TRUE(Add(GrammarOfLength(2)));
  ASSERT_TRUE(Done(1, 0));
  EXPECT_EQ(pool_->stats().misses, 1U);
}

TEST_F(GrammarPoolTest, TheLeastRecentlyUsedGoFirst) {
  Start();
  for (const size_t length : {1, 2, 3}) ASSERT_TRUE(Add(GrammarOfLength(length)));
  ASSERT_TRUE(Done(3, 0));
  const size_t bytes = pool_->stats().bytes;
  Start(bytes);
  for (const size_t length : {1, 2, 3}) ASSERT_TRUE(Add(GrammarOfLength(length)));
  ASSERT_TRUE(Done(6, 0));
  EXPECT_EQ(pool_->stats().grammars, 3U);
  EXPECT_TRUE(pool_->Find(GrammarText(GrammarOfLength(1))));
  ASSERT_TRUE(Add(GrammarOfLength(4)));
  ASSERT_TRUE(Done(7, 0));
  EXPECT_FALSE(pool_->Find(GrammarText(GrammarOfLength(2))));
  EXPECT_TRUE(pool_->Find(GrammarText(GrammarOfLength(4))));
  EXPECT_LE(pool_->stats().bytes, bytes);
}

TEST_F(GrammarPoolTest, OneTenantsQueueIsNotAnothers) {
  Start();
  Hold();
  for (size_t i = 1; i <= 4; ++i) ASSERT_TRUE(Add(GrammarOfLength(i)));
  ASSERT_TRUE(Add(GrammarOfLength(9), true, "b"));
  EXPECT_TRUE(Done(1, 0));  // While all of the first tenant's wait.
  // Its places are bounded.
  int more = 0;
  while (more < 100 && Add(GrammarOfLength(5))) ++more;
  EXPECT_LT(more, 100);
  gate_.Open();
  EXPECT_TRUE(Done(5 + more, 0));
}

TEST_F(GrammarPoolTest, StopDropsWhatWaits) {
  Start();
  Hold();
  ASSERT_TRUE(Add(GrammarOfLength(1)));
  gate_.Open();
  pool_->Stop();
  EXPECT_FALSE(Add(GrammarOfLength(2)));
  EXPECT_LE(good_, 1);
}

}  // namespace
}  // namespace ropeway::engine
