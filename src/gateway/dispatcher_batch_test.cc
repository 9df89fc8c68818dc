// --dispatch batch, and strictly one at a time.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "gateway/dispatcher.h"
#include "gateway/test_dispatcher.h"

namespace ropeway::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class DispatcherBatchTest : public DispatchTest {
 protected:
  void StartBatches(int size, int parallel, int replicas = 1, int places = 64) {
    DispatchOptions options = OptionsOf(replicas, places);
    options.batching.dispatch = "batch";
    options.batching.max_batch_size = size;
    options.batching.max_parallel_batches = parallel;
    Start(options);
  }
  std::vector<RequestId> AddMany(int count, Priority priority = Priority::kMedium) {
    std::vector<RequestId> ids;
    for (int i = 0; i < count; ++i) ids.push_back(Add({.priority = priority}));
    return ids;
  }
};

TEST_F(DispatcherBatchTest, AFullBatchGoesAtOnceAndAPartOfOneAfterTheWait) {
  StartBatches(4, 1);
  const std::vector<RequestId> three = AddMany(3);
  EXPECT_TRUE(TakeOrder().empty());
  Pass(milliseconds(10));
  const RequestId fourth = Add();
  EXPECT_EQ(TakeOrder().size(), 4U);
  EXPECT_EQ(at_[fourth].batch.number, 1U);
  EXPECT_EQ(at_[fourth].batch.size, 4);
  EXPECT_EQ(at_[three[0]].batch.number, 1U);
  EXPECT_EQ(at_[three[0]].batch.formation, milliseconds(10));
  for (const RequestId id : three) End(id);
  End(fourth);

  AddMany(2);
  Pass(milliseconds(49));
  EXPECT_TRUE(TakeOrder().empty());
  Pass(milliseconds(1));
  EXPECT_EQ(TakeOrder().size(), 2U);
  EXPECT_EQ(dispatcher_->Stats().total_batches, 2U);
  EXPECT_NEAR(dispatcher_->Stats().avg_batch_size, 3.0, 1e-9);
}

TEST_F(DispatcherBatchTest, TheNextOneWaitsForTheEndOfTheFirst) {
  StartBatches(2, 1);
  const std::vector<RequestId> ids = AddMany(4);
  EXPECT_EQ(TakeOrder().size(), 2U);
  Pass(seconds(1));
  End(ids[0]);
  EXPECT_TRUE(TakeOrder().empty());
  End(ids[1]);
  EXPECT_EQ(TakeOrder().size(), 2U);
  EXPECT_NEAR(dispatcher_->Stats().avg_batch_duration_ms, 1000.0, 1e-6);
}

TEST_F(DispatcherBatchTest, SeveralMayRunInParallel) {
  StartBatches(2, 3);
  const std::vector<RequestId> ids = AddMany(8);
  EXPECT_EQ(TakeOrder().size(), 6U);
  End(ids[2]);
  End(ids[3]);
  EXPECT_EQ(TakeOrder().size(), 2U);
}

TEST_F(DispatcherBatchTest, AllThatAreFullGoAtOnce) {
  StartBatches(2, 3);
  for (int i = 0; i < 8; ++i) Queue();
  Run();
  const std::vector<RequestId> sent = TakeOrder();
  ASSERT_EQ(sent.size(), 6U);
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(at_[sent[i]].batch.number, 1 + i / 2);
    EXPECT_EQ(at_[sent[i]].batch.size, 2);
  }
}

TEST_F(DispatcherBatchTest, AnUrgentOnePassesByGatheringAndRunningBatches) {
  StartBatches(4, 1, 1, 8);
  AddMany(2);
  const RequestId first = Add({.priority = Priority::kHigh});
  EXPECT_EQ(TakeOrder(), std::vector<RequestId>({first})) << "past one that gathers";
  AddMany(2);
  EXPECT_EQ(TakeOrder().size(), 4U);
  const RequestId second = Add({.priority = Priority::kHigh});
  EXPECT_EQ(TakeOrder(), std::vector<RequestId>({second})) << "past one that runs";
  // In half the places.
  AddMany(5, Priority::kHigh);
  EXPECT_EQ(TakeOrder().size(), 2U);
}

TEST_F(DispatcherBatchTest, AReplicaThatPreemptsTakesUrgentOnesBesideABatchThatFillsIt) {
  StartBatches(4, 1, 1, 4);
  facts_[0]->preempts = true;
  Pass(seconds(6));
  AddMany(4);
  EXPECT_EQ(TakeOrder().size(), 4U);
  const std::vector<RequestId> urgent = AddMany(3, Priority::kHigh);
  EXPECT_EQ(TakeOrder(), std::vector<RequestId>({urgent[0], urgent[1]}));
}

TEST_F(DispatcherBatchTest, TheBatchDoesNotWaitForThoseThatJoined) {
  StartBatches(2, 1);
  const std::vector<RequestId> batch = AddMany(2);
  Add({.priority = Priority::kHigh});
  AddMany(2);
  TakeOrder();
  End(batch[0]);
  End(batch[1]);
  EXPECT_EQ(TakeOrder().size(), 2U);
}

TEST_F(DispatcherBatchTest, PlacesAreThereFromTheStart) {
  DispatchOptions options = OptionsOf(1, 0);  // Learned.
  options.batching.dispatch = "batch";
  options.batching.max_batch_size = 16;
  options.batching.max_parallel_batches = 4;
  Start(options);
  AddMany(64);
  EXPECT_EQ(TakeOrder().size(), 64U);
}

TEST_F(DispatcherBatchTest, WhatFailsIsSentAgainWithoutABatch) {
  StartBatches(2, 1, 2);
  const std::vector<RequestId> ids = AddMany(2);
  Fail(ids[0]);
  EXPECT_TRUE(IsSent(ids[0]));
  EXPECT_EQ(at_[ids[0]].batch.number, 1U) << "it began in that one";
  const std::vector<RequestId> next = AddMany(2);
  End(ids[1]);
  EXPECT_TRUE(IsSent(next[0])) << "the batch has ended without it";
}

TEST_F(DispatcherBatchTest, WhenNoMoreWillComeAPartOfABatchGoes) {
  StartBatches(4, 1);
  AddMany(2);
  EXPECT_TRUE(TakeOrder().empty());
  dispatcher_->set_flush(true);
  Run();
  EXPECT_EQ(TakeOrder().size(), 2U);
}

TEST_F(DispatcherBatchTest, WithoutBatchingOneAtATime) {
  DispatchOptions options = OptionsOf(2, 8);
  options.batching.enable_batching = false;
  Start(options);
  const std::vector<RequestId> ids = AddMany(3);
  const RequestId urgent = Add({.priority = Priority::kHigh});
  EXPECT_EQ(TakeOrder().size(), 1U);
  Fail(ids[0]);
  EXPECT_EQ(TakeOrder().size(), 1U) << "the one that failed, or the urgent one, and not both";
  const RequestId now = at_.begin()->first;
  End(now);
  EXPECT_EQ(at_.size(), 1U);
  EXPECT_FALSE(dispatcher_->Stats().enabled);
  EXPECT_EQ(dispatcher_->Stats().strategy, "serial");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(at_.size(), 1U);
    End(at_.begin()->first);
  }
  EXPECT_EQ(dispatcher_->size(), 0U);
  EXPECT_FALSE(IsSent(urgent));
}

}  // namespace
}  // namespace ropeway::gateway
