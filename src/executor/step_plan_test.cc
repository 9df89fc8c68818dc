#include "executor/step_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "kernels/kernels.h"

namespace ropeway {
namespace {

PlanLimits Limits(int workers) {
  PlanLimits limits;
  limits.workers = workers;
  limits.max_rows = 512;
  limits.max_seqs = 64;
  limits.vocab_size = 100;
  limits.max_positions = 8192;
  limits.num_blocks = 1;  // Block tables are all zeros here.
  limits.num_kv_heads = 3;
  return limits;
}

void AddItem(int start, int tokens, bool sample, Batch* batch) {
  BatchItem& item = batch->items.emplace_back();
  item.start = start;
  item.tokens.assign(static_cast<size_t>(tokens), 1);
  item.blocks.assign(static_cast<size_t>((start + tokens) / kBlockTokens + 1), 0);
  item.sample = sample;
}

Batch MixedBatch() {
  Batch batch;
  AddItem(100, 1, true, &batch);
  AddItem(0, 50, false, &batch);
  AddItem(3000, 1, true, &batch);
  AddItem(1000, 40, true, &batch);
  return batch;
}

// Every row meets each KV head once over each split of its context.
void ExpectComplete(const RowSet& set, UnitQueue* queues, int workers) {
  int32_t next = 0;
  for (int worker = 0; worker < workers; ++worker) {
    EXPECT_EQ(queues[worker].begin, next);
    EXPECT_EQ(queues[worker].next.load(), next);
    next = queues[worker].end;
  }
  EXPECT_EQ(next, static_cast<int32_t>(set.units.size()));
  std::map<std::tuple<int, int, int>, int> seen;
  for (const AttentionUnit& unit : set.units) {
    for (int r = unit.row; r < unit.row + unit.rows; ++r) {
      EXPECT_EQ(set.item[static_cast<size_t>(r)], set.item[static_cast<size_t>(unit.row)]);
      for (int split = unit.split_begin; split < unit.split_end; ++split) {
        ++seen[{r, unit.kv_head, split}];
      }
    }
  }
  for (int r = 0; r < set.size(); ++r) {
    for (int head = 0; head < 3; ++head) {
      for (int split = 0; split <= set.position[static_cast<size_t>(r)] / kSplitTokens; ++split) {
        EXPECT_EQ((seen[{r, head, split}]), 1) << r << " " << head << " " << split;
      }
    }
  }
}

TEST(StepPlanTest, RowsAreTheBatchInOrder) {
  StepPlan plan(Limits(2));
  ASSERT_TRUE(plan.Build(MixedBatch()).ok());
  ASSERT_EQ(plan.all().size(), 92);
  EXPECT_EQ(plan.all().position[0], 100);
  EXPECT_EQ(plan.all().position[1], 0);
  EXPECT_EQ(plan.all().position[50], 49);
  EXPECT_EQ(plan.all().position[91], 1039);
  EXPECT_EQ(plan.sampled_rows(), std::vector<int32_t>({0, 51, 91}));
  EXPECT_EQ(plan.sampled().position, std::vector<int32_t>({100, 3000, 1039}));
  EXPECT_EQ(plan.sampled().item, std::vector<int32_t>({0, 2, 3}));
}

TEST(StepPlanTest, AttentionIsDealtOutOnceWhateverTheWorkers) {
  for (int workers : {1, 2, 3, 16}) {
    StepPlan plan(Limits(workers));
    for (int repeat = 0; repeat < 2; ++repeat) {  // A plan is used again and again.
      ASSERT_TRUE(plan.Build(MixedBatch()).ok());
      ExpectComplete(plan.all(), plan.all_queues(), workers);
      ExpectComplete(plan.sampled(), plan.sampled_queues(), workers);
    }
  }
}

TEST(StepPlanTest, OneLongDecodeIsSplitAmongWorkers) {
  Batch batch;
  AddItem(5000, 1, true, &batch);
  StepPlan plan(Limits(4));
  ASSERT_TRUE(plan.Build(batch).ok());
  EXPECT_TRUE(plan.all().deferred_merge);
  EXPECT_EQ(plan.all().units.size(), 15U);
  ExpectComplete(plan.all(), plan.all_queues(), 4);
  // Where there is one worker, or work enough, nothing is deferred.
  StepPlan single(Limits(1));
  ASSERT_TRUE(single.Build(batch).ok());
  EXPECT_FALSE(single.all().deferred_merge);
  for (int i = 0; i < 10; ++i) AddItem(5000, 1, true, &batch);
  ASSERT_TRUE(plan.Build(batch).ok());
  EXPECT_FALSE(plan.all().deferred_merge);
}

TEST(StepPlanTest, AttentionIsBalanced) {
  Batch batch;
  AddItem(0, 512, false, &batch);
  StepPlan plan(Limits(2));
  ASSERT_TRUE(plan.Build(batch).ok());
  // Half of the work of a causal prompt is done after 0.71 of its rows.
  const double first =
      static_cast<double>(plan.all_queues()[0].end) / static_cast<double>(plan.all().units.size());
  EXPECT_GT(first, 0.6);
  EXPECT_LT(first, 0.75);
}

TEST(StepPlanTest, SlicesCoverAllRowsOnce) {
  for (int workers : {1, 2, 3, 7}) {
    for (int rows : {1, 7, 8, 15, 16, 17, 24, 56, 100, 511}) {
      Batch batch;
      AddItem(0, rows, false, &batch);
      StepPlan plan(Limits(workers));
      ASSERT_TRUE(plan.Build(batch).ok());
      const RowSet& set = plan.all();
      EXPECT_EQ(set.by_rows, workers > 1 && rows >= kMinRowsPerWorker * workers);
      int next = 0;
      for (int worker = 0; worker < workers; ++worker) {
        const Slice slice = SliceOf(set, worker, workers);
        if (set.by_rows) {
          EXPECT_EQ(slice.row_begin, next);
          EXPECT_EQ(slice.parts, 1);
          EXPECT_GE(slice.rows(), kMinRowsPerWorker);
          next = slice.row_end;
        } else {
          EXPECT_EQ(slice.rows(), rows);
          EXPECT_EQ(slice.part, worker);
          EXPECT_EQ(slice.parts, workers);
          next = rows;
        }
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(StepPlanTest, TooManyOfAnythingIsRefused) {
  StepPlan plan(Limits(1));
  Batch tokens;
  AddItem(0, 513, false, &tokens);
  EXPECT_FALSE(plan.Build(tokens).ok());
  Batch items;
  for (int i = 0; i < 65; ++i) AddItem(0, 1, true, &items);
  EXPECT_FALSE(plan.Build(items).ok());
  Batch positions;
  AddItem(8192, 1, true, &positions);
  EXPECT_FALSE(plan.Build(positions).ok());
  Batch copies;
  copies.copies.push_back({0, 1});
  EXPECT_FALSE(plan.Build(copies).ok());
}

}  // namespace
}  // namespace ropeway
