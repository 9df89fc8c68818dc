#include "executor/step_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <span>
#include <tuple>

#include "kernels/kernels.h"

namespace ropeway::executor {
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

void AddItem(int start, int tokens, bool sample, core::Batch* batch) {
  static const std::vector<TokenId> kTokens(1000, 1);
  static const std::vector<core::BlockId> kBlocks(1000, 0);
  core::BatchItem& item = batch->items.emplace_back();
  item.start = start;
  item.tokens = std::span(kTokens).first(static_cast<size_t>(tokens));
  item.blocks =
      std::span(kBlocks).first(static_cast<size_t>((start + tokens) / base::kBlockTokens + 1));
  item.sample = sample;
}

std::vector<int32_t> OutputRows(const StepPlan& plan) {
  std::vector<int32_t> rows;
  for (const OutputRow& output : plan.output_rows()) rows.push_back(output.row);
  return rows;
}

core::Batch MixedBatch() {
  core::Batch batch;
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
      for (int split = 0; split <= set.position[static_cast<size_t>(r)] / kernels::kSplitTokens;
           ++split) {
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
  EXPECT_EQ(OutputRows(plan), std::vector<int32_t>({0, 51, 91}));
  EXPECT_EQ(plan.outputs().position, std::vector<int32_t>({100, 3000, 1039}));
  EXPECT_EQ(plan.outputs().item, std::vector<int32_t>({0, 2, 3}));
}

// Only what a row of the item sees must be there.
TEST(StepPlanTest, BlocksThatNoRowSeesMayBeMissing) {
  PlanLimits limits = Limits(1);
  limits.windows = {0, 20};
  StepPlan plan(limits);
  const std::vector<TokenId> tokens(4, 1);
  core::Batch batch;
  core::BatchItem& item = batch.items.emplace_back();
  item.start = 50;  // Its window begins at 31, in block 1.
  item.tokens = tokens;
  std::vector<core::BlockId> blocks(8, 0);
  const auto ok = [&](size_t missing) {
    std::vector<core::BlockId> table = blocks;
    if (missing < table.size()) table[missing] = core::kNoBlock;
    item.blocks = table;
    return plan.Build(batch).ok();
  };
  EXPECT_TRUE(ok(99));
  EXPECT_TRUE(ok(1));   // Block 0 of the group with a window.
  EXPECT_FALSE(ok(0));  // Of the other one.
  EXPECT_FALSE(ok(3));
  EXPECT_FALSE(ok(7));
  blocks.resize(7);
  EXPECT_FALSE(ok(99)) << "too few";
  blocks.assign(12, 0);
  EXPECT_TRUE(ok(11)) << "behind the last row";
  EXPECT_TRUE(ok(10)) << "likewise, of the group without a window";
  blocks[11] = 1 << 20;
  EXPECT_FALSE(ok(99)) << "not missing, but no block of the pool";
  EXPECT_EQ(FirstSeen(20, 50), 31);
  EXPECT_EQ(FirstSeen(20, 19), 0);
  EXPECT_EQ(FirstSeen(0, 50), 0);
}

TEST(StepPlanTest, AttentionIsDividedOnceForAnyNumberOfWorkers) {
  for (int workers : {1, 2, 3, 16}) {
    StepPlan plan(Limits(workers));
    for (int repeat = 0; repeat < 2; ++repeat) {  // A plan is used again and again.
      ASSERT_TRUE(plan.Build(MixedBatch()).ok());
      ExpectComplete(plan.all(), plan.all_queues(), workers);
      ExpectComplete(plan.outputs(), plan.output_queues(), workers);
    }
  }
}

TEST(StepPlanTest, ScoredRowsComeBeforeTheSampledOneOfTheirItem) {
  const std::vector<TokenId> ids(200, 1);
  core::Batch batch;
  AddItem(10, 30, true, &batch);
  batch.items[0].score_begin = 15;
  batch.items[0].score_end = 40;  // The row of the last id is the one before the sampled row.
  AddItem(50, 1, true, &batch);
  AddItem(100, 20, false, &batch);
  batch.items[2].score_begin = 101;
  batch.items[2].score_end = 121;  // Every row, the last one too.
  for (core::BatchItem& item : batch.items) item.ids = ids;
  batch.items[0].ids = batch.items[0].ids.first(40);
  for (int workers : {1, 2, 4}) {
    StepPlan plan(Limits(workers));
    ASSERT_TRUE(plan.Build(batch).ok());
    ExpectComplete(plan.outputs(), plan.output_queues(), workers);
    ASSERT_EQ(plan.outputs().size(), 25 + 1 + 1 + 20);
    const auto& rows = plan.output_rows();
    EXPECT_EQ(rows[0].row, 4);
    EXPECT_EQ(plan.outputs().position[0], 14);
    EXPECT_EQ(rows[24].row, 28);
    EXPECT_EQ(rows[24].scored, 24);
    EXPECT_EQ(rows[24].sampled, -1);
    EXPECT_EQ(rows[25].row, 29);
    EXPECT_EQ(rows[25].sampled, 0);
    EXPECT_EQ(rows[25].scored, -1);
    EXPECT_EQ(rows[26].row, 30);
    EXPECT_EQ(rows[26].sampled, 1);
    EXPECT_EQ(rows[27].row, 31);
    EXPECT_EQ(rows[27].scored, 25);
    EXPECT_EQ(rows[46].row, 50);
    EXPECT_EQ(plan.outputs().position[46], 119);
  }
}

TEST(StepPlanTest, BrokenIdsAreRejected) {
  StepPlan plan(Limits(1));
  const std::vector<TokenId> ids(40, 1);
  const auto accepts = [&](int begin, int end, bool sample, std::span<const TokenId> known) {
    core::Batch batch;
    AddItem(10, 20, sample, &batch);
    batch.items[0].score_begin = begin;
    batch.items[0].score_end = end;
    batch.items[0].ids = known;
    return plan.Build(batch).ok();
  };
  EXPECT_TRUE(accepts(0, 0, true, {}));
  EXPECT_TRUE(accepts(11, 31, false, ids));
  EXPECT_TRUE(accepts(11, 30, true, std::span(ids).first(30)));
  EXPECT_FALSE(accepts(10, 20, false, ids));  // The row before is not in the item.
  EXPECT_FALSE(accepts(20, 15, false, ids));
  EXPECT_FALSE(accepts(11, 32, false, ids));
  EXPECT_FALSE(accepts(-5, -3, false, ids));
  EXPECT_FALSE(accepts(11, 31, false, std::span(ids).first(30)));
  EXPECT_FALSE(accepts(11, 31, false, {}));
  EXPECT_FALSE(accepts(11, 31, true, ids));  // One row cannot be both.
  for (const TokenId bad : {-1, 100}) {
    std::vector<TokenId> wrong = ids;
    wrong[29] = bad;
    EXPECT_FALSE(accepts(11, 31, false, wrong));
    EXPECT_TRUE(accepts(11, 29, false, wrong));
  }
}

TEST(StepPlanTest, OnlyPenaltiesNeedAllIds) {
  StepPlan plan(Limits(1));
  core::Batch batch;
  AddItem(10, 20, true, &batch);
  core::BatchItem& item = batch.items[0];
  const std::vector<TokenId> ids(31, 1);
  const std::vector<TokenId> wrong(30, 100);
  core::SampleSpec spec;
  spec.params.presence_penalty = 1.0F;
  item.spec = &spec;
  EXPECT_FALSE(plan.Build(batch).ok());
  item.ids = ids;
  EXPECT_FALSE(plan.Build(batch).ok());
  item.ids = std::span(ids).first(30);
  EXPECT_TRUE(plan.Build(batch).ok());
  item.ids = wrong;
  EXPECT_FALSE(plan.Build(batch).ok());
  item.sample = false;
  EXPECT_TRUE(plan.Build(batch).ok());
}

TEST(StepPlanTest, OneLongDecodeIsSplitAmongWorkers) {
  core::Batch batch;
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
  core::Batch batch;
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
      core::Batch batch;
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

TEST(StepPlanTest, TooManyOfAnythingIsRejected) {
  StepPlan plan(Limits(1));
  core::Batch tokens;
  AddItem(0, 513, false, &tokens);
  EXPECT_FALSE(plan.Build(tokens).ok());
  core::Batch items;
  for (int i = 0; i < 65; ++i) AddItem(0, 1, true, &items);
  EXPECT_FALSE(plan.Build(items).ok());
  core::Batch positions;
  AddItem(8192, 1, true, &positions);
  EXPECT_FALSE(plan.Build(positions).ok());
}

}  // namespace
}  // namespace ropeway::executor
