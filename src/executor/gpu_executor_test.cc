// The executor of other devices gives the bits of the CPU's: on PoCL, which is
// OpenCL on this CPU.
#include "executor/gpu_executor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/test_delaying_gpu.h"
#include "executor/test_failing_gpu.h"
#include "executor/test_runner.h"
#include "gpu/test_gpu.h"
#include "model/test_tiny_models.h"

namespace ropeway::executor::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::unique_ptr<Executor> MakeGpuExecutor(const std::shared_ptr<const Weights>& model,
                                          const How& how) {
  return std::make_unique<GpuExecutor>(gpu::testing::OpenTestGpu(), model, Best(), how.threads,
                                       how.kv_type, how.absent);
}

How OnGpu(How how) {
  how.make = MakeGpuExecutor;
  return how;
}

// A step that computes the sequence's prompt and samples a token. It refers to both.
core::Batch SampleAfter(const Sequence& s, const std::vector<core::BlockId>& blocks) {
  core::Batch batch;
  core::BatchItem& item = batch.items.emplace_back();
  item.tokens = item.ids = s.ids;
  item.blocks = blocks;
  item.sample = true;
  return batch;
}

std::vector<Sequence> CrowdOfFour() {
  std::vector<Sequence> crowd;
  const std::vector<int> prompts = {1, 17, 41, 33};
  for (size_t i = 0; i < prompts.size(); ++i) {
    crowd.push_back(MakeSequence(prompts[i], 4, i + 1, i % 3 == 0 ? 0.0F : 0.9F));
    crowd.back().joins = static_cast<int32_t>(i / 2);
  }
  crowd[2].spec.num_prompt_logprobs = 2;
  return crowd;
}

class GpuArchitecture : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(GpuExecutorTest, GpuArchitecture,
                         ::testing::ValuesIn(model::TinyModelNames()),
                         [](const auto& info) { return info.param; });

TEST_P(GpuArchitecture, HasTheBitsOfTheCpu) {
  const auto crowd = CrowdOfFour();
  for (const kernels::WeightType weights :
       {kernels::WeightType::kF32, kernels::WeightType::kQ8_0}) {
    const auto model = LoadGguf(model::TinyModel(GetParam(), weights));
    How how;
    how.chunk = 30;
    how.kv_type =
        weights == kernels::WeightType::kF32 ? kernels::KvType::kF16 : kernels::KvType::kQ8_0;
    const auto expected = RunTogether(model, how, crowd);
    how.shuffle = 3;
    how.poison = true;
    ExpectSame(expected, RunTogether(model, OnGpu(how), crowd), kernels::WeightTypeName(weights));
  }
}

TEST(GpuExecutorTest, EveryTypeOfWeightsHasTheBitsOfTheCpu) {
  const auto model = LoadTiny(EveryWeightType());
  const auto crowd = CrowdOfFour();
  ExpectSame(RunTogether(model, {}, crowd), RunTogether(model, OnGpu({}), crowd), "every type");
}

TEST(GpuExecutorTest, QuantisedExpertsHaveTheBitsOfTheCpu) {
  const auto crowd = CrowdOfFour();
  for (const auto& [weights, down] :
       {std::pair{kernels::WeightType::kQ4_K, kernels::WeightType::kQ6_K},
        {kernels::WeightType::kIQ4_XS, kernels::WeightType::kQ2_K}}) {
    const auto model = LoadGguf(model::WideTinyExperts(weights, down));
    ExpectSame(RunTogether(model, {}, crowd), RunTogether(model, OnGpu({}), crowd),
               kernels::WeightTypeName(weights));
  }
}

TEST(GpuExecutorTest, NothingAroundASequenceChangesIt) {
  std::vector<Sequence> crowd = Crowd();
  for (size_t i = 0; i < crowd.size(); ++i) crowd[i].mask_seed = i % 4 == 1 ? 7 : 0;
  How how;
  how.absent = {3, 5};
  const auto expected = RunTogether(TinyModel(), how, crowd);
  how.threads = 2;
  how.max_rows = 24;
  ExpectSame(expected, RunTogether(TinyModel(), OnGpu(how), crowd), "together");
  how.chunk = 5;
  how.drop_unseen = true;
  ExpectSame(expected, RunTogether(TinyModel(), OnGpu(how), crowd), "in small chunks");
}

// What the device reads and writes must not change, nor go, before Finish.
TEST(GpuExecutorTest, ADeviceMayDoAllAtTheLastMoment) {
  How how;
  how.max_rows = 24;
  const auto expected = RunTogether(TinyModel(), how, Crowd());
  how.drop_unseen = true;  // Writes blocks, too.
  how.make = [](const std::shared_ptr<const Weights>& model, const How& h) {
    return std::unique_ptr<Executor>(std::make_unique<GpuExecutor>(
        std::make_unique<DelayingGpu>(gpu::testing::OpenTestGpu()), model, Best(), h.threads));
  };
  ExpectSame(expected, RunTogether(TinyModel(), how, Crowd()), "delayed");
}

TEST(GpuExecutorTest, TheHostsWeightsAreGivenUpOnceTheDeviceHasThem) {
  std::shared_ptr<const Weights> weights = LoadTiny();
  const std::weak_ptr<const Weights> host = weights;
  GpuExecutor executor(gpu::testing::OpenTestGpu(), std::move(weights), Best(), 1);
  EXPECT_FALSE(host.expired());
  ASSERT_TRUE(executor.Init(1 << 20, 16, 2).ok());
  EXPECT_TRUE(host.expired());
}

// A step's parts add up to no more than it took.
TEST(GpuExecutorTest, WhatIsDoneBeforeWaitIsNotTheForwardPass) {
  const Sequence s = MakeSequence(20, 1, 3, 0.0F);
  const std::vector<core::BlockId> blocks = {0, 1};
  core::Batch batch = SampleAfter(s, blocks);
  batch.items[0].spec = &s.spec;
  GpuExecutor executor(gpu::testing::OpenTestGpu(), TinyModel(), Best(), 1);
  ASSERT_TRUE(executor.Init(1 << 20, 64, 4).ok());
  const auto begin = std::chrono::steady_clock::now();
  executor.Launch(batch);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const auto result = executor.Wait();
  const base::Duration took = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_GE(result->beside, std::chrono::milliseconds(30));
  EXPECT_LE(result->beside + result->forward, took);
  EXPECT_LE(result->sampling, result->forward);
  EXPECT_GE(result->device_busy, result->beside);
}

// Only the largest logit of a row comes back.
TEST(GpuExecutorTest, GreedySequencesAreTheCpus) {
  const auto model = LoadGguf(model::TinyModel("gemma2"));
  ASSERT_GT(model->config().logit_soft_cap, 0.0F);
  std::vector<Sequence> crowd;
  for (const int length : {3, 20, 33}) {
    crowd.push_back(MakeSequence(length, 12, static_cast<uint64_t>(length), 0.0F));
    crowd.back().spec.num_logprobs = -1;
  }
  How how;
  const auto all = RunTogether(model, how, crowd);
  ExpectSame(all, RunTogether(model, OnGpu(how), crowd), "greedy");
  for (const core::Sampled& sampled : all[0].sampled) how.absent.push_back(sampled.token);
  const auto others = RunTogether(model, how, crowd);
  EXPECT_NE(others[0].sampled[0].token, all[0].sampled[0].token);
  ExpectSame(others, RunTogether(model, OnGpu(how), crowd), "without some tokens");
}

TEST(GpuExecutorTest, ManyRowsHaveOutputs) {
  std::vector<Sequence> crowd = {MakeSequence(150, 3, 1, 0.8F), MakeSequence(130, 0, 2, 0.0F),
                                 MakeSequence(90, 2, 3, 0.0F)};
  crowd[0].spec.num_prompt_logprobs = 3;
  crowd[1].spec.pooling = Pooling::kMean;
  How how;
  how.max_rows = 400;
  const auto expected = RunTogether(TinyModel(), how, crowd);
  ASSERT_EQ(expected[0].scored.size(), 149U);
  ExpectSame(expected, RunTogether(TinyModel(), OnGpu(how), crowd), "many outputs");
}

// An FMA that rounds twice, and a sum in another order.
TEST(GpuExecutorTest, APlantedKernelIsCaught) {
  static std::pair<std::string, std::string> planted;
  How how = OnGpu({});
  how.make = [](const std::shared_ptr<const Weights>& model, const How& h) {
    auto gpu = std::make_unique<FailingGpu>(gpu::testing::OpenTestGpu());
    gpu->Plant(planted.first, planted.second);
    return std::unique_ptr<Executor>(
        std::make_unique<GpuExecutor>(std::move(gpu), model, Best(), h.threads, h.kv_type));
  };
  const std::vector<Sequence> one = {MakeSequence(40, 4, 5, 0.8F)};
  const auto expected = RunTogether(TinyModel(), {}, one);
  ExpectSame(expected, RunTogether(TinyModel(), how, one), "nothing planted");
  for (const auto& [from, to] : {std::pair{"fma(a, b, c)", "((a) * (b) + (c))"},
                                 std::pair{"s[i] + s[i + half_]", "s[i] + s[2 * half_ - 1 - i]"}}) {
    planted = {from, to};
    std::string where;
    EXPECT_FALSE(Same(expected, RunTogether(TinyModel(), how, one), &where)) << from;
  }
}

// Its splits are computed apart; and one of few rows, then one of many.
TEST(GpuExecutorTest, ALongContextHasTheBitsOfTheCpu) {
  const auto model = LoadTiny({.context_length = 4096});
  static bool reversed;
  How how;
  how.chunk = how.max_rows = 512;
  const std::vector<Sequence> crowd = {MakeSequence(3000, 3, 5, 0.8F)};
  std::vector<Sequence> many = crowd;
  for (int i = 0; i < 40; ++i) {
    many.push_back(MakeSequence(1 + i % 3, 9, static_cast<uint64_t>(i + 9), 0.0F));
  }
  const auto expected = RunTogether(model, how, many);
  how.make = [](const std::shared_ptr<const Weights>& weights, const How& h) {
    auto gpu = std::make_unique<FailingGpu>(gpu::testing::OpenTestGpu());
    if (reversed) {
      gpu->Plant("own + (ulong)(split % slots)",
                 "own + (ulong)((first_split + (end - 1) / SPLIT_TOKENS - split) % slots)");
    }
    return std::unique_ptr<Executor>(
        std::make_unique<GpuExecutor>(std::move(gpu), weights, Best(), h.threads, h.kv_type));
  };
  ExpectSame(expected, RunTogether(model, how, many), "one of many");
  const std::vector<Outcome> alone = {expected[0]};
  ExpectSame(alone, RunTogether(model, how, crowd), "alone");
  reversed = true;
  std::string where;
  EXPECT_FALSE(Same(alone, RunTogether(model, how, crowd), &where));
}

TEST(GpuExecutorTest, SumsOfHiddenStatesAreTheCpus) {
  std::vector<Sequence> crowd = CrowdOfFour();
  crowd[1].generate = crowd[3].generate = 0;
  crowd[1].spec.pooling = Pooling::kMean;
  crowd[3].spec.pooling = Pooling::kLast;
  ExpectSame(RunTogether(TinyModel(), {}, crowd), RunTogether(TinyModel(), OnGpu({}), crowd),
             "a causal model");
  const auto encoder = LoadGguf(model::TinyModel("bert"));
  std::vector<Sequence> inputs;
  for (const int length : {1, 16, 40}) {
    inputs.push_back(MakeSequence(length, 0, static_cast<uint64_t>(length), 0.0F));
    inputs.back().spec.pooling = Pooling::kMean;
  }
  ExpectSame(RunTogether(encoder, {}, inputs), RunTogether(encoder, OnGpu({}), inputs),
             "an encoder");
}

// A sequence that was preempted goes on at another device, in both directions.
TEST(GpuExecutorTest, BlocksMoveBetweenDevices) {
  std::vector<Sequence> whole = {MakeSequence(40, 6, 5, 0.8F)};
  Runner uninterrupted(TinyModel(), {}, 1);
  uninterrupted.Run(&whole);
  for (const bool to_gpu : {true, false}) {
    Runner first(TinyModel(), to_gpu ? How{} : OnGpu({}), 1);
    Runner second(TinyModel(), to_gpu ? OnGpu({}) : How{}, 1);
    std::vector<Sequence> parts = {MakeSequence(40, 3, 5, 0.8F)};
    first.Run(&parts);
    ASSERT_EQ(first.layout().block_bytes, second.layout().block_bytes);
    std::vector<std::byte> bytes(first.layout().block_bytes);
    for (core::BlockId& block : parts[0].blocks) {
      first.executor().ReadBlock(block, bytes);
      ASSERT_TRUE(first.executor().FinishReads().ok());
      block = second.layout().num_blocks - 1 - block;
      second.executor().WriteBlock(block, bytes);
    }
    parts[0].generate = 6;
    second.Run(&parts);
    EXPECT_EQ(parts[0].ids, whole[0].ids);
    for (size_t i = 0; i < whole[0].sampled.size(); ++i) {
      EXPECT_EQ(Bits(parts[0].sampled[i].logprob), Bits(whole[0].sampled[i].logprob)) << i;
    }
  }
}

TEST(GpuExecutorTest, AReadBringsWhatWasThereBeforeTheNextStep) {
  GpuExecutor executor(std::make_unique<DelayingGpu>(gpu::testing::OpenTestGpu()), TinyModel(),
                       Best(), 1);
  const auto layout = executor.Init(kPoolBytes, 16, 1);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  const std::vector<core::BlockId> blocks = {1};
  const auto compute = [&](uint64_t seed) {
    const Sequence s = MakeSequence(16, 1, seed, 0.0F);
    const core::Batch batch = SampleAfter(s, blocks);
    executor.Launch(batch);
    EXPECT_TRUE(executor.Wait().ok());
  };
  const auto read = [&] {
    std::vector<std::byte> bytes(layout->block_bytes);
    executor.ReadBlock(1, bytes);
    EXPECT_TRUE(executor.FinishReads().ok());
    return bytes;
  };
  compute(1);
  const std::vector<std::byte> before = read();
  const std::vector<std::byte> nothing(before.size(), std::byte{0xEE});
  std::vector<std::byte> late = nothing;
  executor.ReadBlock(1, late);
  EXPECT_EQ(late, nothing) << "it waited for the device";
  compute(2);
  EXPECT_EQ(late, before);
  EXPECT_NE(read(), before);
}

// Each row reads its experts, and a row alone the same as on the CPU. In the last layer only a row
// that is sampled does.
TEST(GpuExecutorTest, ReadsOfExpertsAreCounted) {
  const auto model = LoadGguf(model::TinyModel("mixtral"));
  const model::ModelConfig& config = model->config();
  ASSERT_GT(config.experts.used, 0);
  const auto reads = [](Executor* executor, size_t rows) {
    EXPECT_TRUE(executor->Init(kPoolBytes, 8, 1).ok());
    const Sequence s = MakeSequence(static_cast<int>(rows), 1, 1, 0.0F);
    const std::vector<core::BlockId> blocks = {0};
    const core::Batch batch = SampleAfter(s, blocks);
    executor->Launch(batch);
    const auto result = executor->Wait();
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? result->experts_read : -1;
  };
  for (const size_t rows : {1U, 5U}) {
    GpuExecutor on_gpu(gpu::testing::OpenTestGpu(), model, Best(), 1);
    EXPECT_EQ(reads(&on_gpu, rows),
              config.experts.used * ((config.num_layers - 1) * static_cast<int64_t>(rows) + 1));
  }
  GpuExecutor on_gpu(gpu::testing::OpenTestGpu(), model, Best(), 1);
  CpuExecutor on_cpu(model, Best(), 1);
  EXPECT_EQ(reads(&on_gpu, 1), reads(&on_cpu, 1));
}

TEST(GpuExecutorTest, ALostDeviceIsSaid) {
  auto failing = std::make_unique<FailingGpu>(gpu::testing::OpenTestGpu());
  FailingGpu* const gpu = failing.get();
  GpuExecutor executor(std::move(failing), TinyModel(), Best(), 1);
  const auto layout = executor.Init(kPoolBytes, 8, 1);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  const Sequence s = MakeSequence(4, 1, 1, 0.0F);
  const std::vector<core::BlockId> blocks = {0};
  const core::Batch batch = SampleAfter(s, blocks);
  executor.Launch(batch);
  EXPECT_TRUE(executor.Wait().ok());
  gpu->LoseAfter(0);
  executor.Launch(batch);
  const auto lost = executor.Wait();
  EXPECT_EQ(lost.status().code(), StatusCode::kInternal);
  EXPECT_THAT(lost.status().message(), HasSubstr("is lost"));
  std::vector<std::byte> bytes(layout->block_bytes);
  executor.ReadBlock(0, bytes);
  EXPECT_FALSE(executor.FinishReads().ok());
}

// A device that is about to be lost, or another library that writes into its memory: a token that
// is none must not get anywhere.
TEST(GpuExecutorTest, ATokenThatIsNoneIsALostDevice) {
  for (const char* const planted : {"2147483647", "-1", "n"}) {
    auto failing = std::make_unique<FailingGpu>(gpu::testing::OpenTestGpu());
    failing->Plant("AT(int, indices)[GROUP_X()] = place",
                   fmt::format("AT(int, indices)[GROUP_X()] = {}", planted));
    GpuExecutor executor(std::move(failing), TinyModel(), Best(), 1);
    ASSERT_TRUE(executor.Init(kPoolBytes, 8, 1).ok());
    Sequence s = MakeSequence(4, 1, 1, 0.0F);
    s.spec.num_logprobs = -1;
    const std::vector<core::BlockId> blocks = {0};
    core::Batch batch = SampleAfter(s, blocks);
    batch.items[0].spec = &s.spec;
    executor.Launch(batch);
    const auto lost = executor.Wait();
    EXPECT_EQ(lost.status().code(), StatusCode::kInternal) << planted;
    EXPECT_THAT(lost.status().message(), HasSubstr("is no token")) << planted;
  }
}

TEST(GpuExecutorTest, MemoryThatIsShortIsSaid) {
  size_t needed = 0;
  {
    auto counting = std::make_unique<FailingGpu>(gpu::testing::OpenTestGpu());
    const FailingGpu* const gpu = counting.get();
    GpuExecutor executor(std::move(counting), TinyModel(), Best(), 1);
    ASSERT_TRUE(executor.Init(1 << 20, 8, 1).ok());
    needed = gpu->allocated();
  }
  for (const size_t limit : {size_t{0}, size_t{100'000}, needed / 2, needed - 1}) {
    auto limited = std::make_unique<FailingGpu>(gpu::testing::OpenTestGpu());
    limited->LimitMemory(limit);
    GpuExecutor executor(std::move(limited), TinyModel(), Best(), 1);
    const Status short_of = executor.Init(1 << 20, 8, 1).status();
    EXPECT_EQ(short_of.code(), StatusCode::kResourceExhausted) << limit;
    EXPECT_THAT(short_of.message(), EndsWith(": the device has no more memory"));
    if (limit == 0) {
      EXPECT_EQ(short_of.field(), "model_path");
    }
    if (limit == needed - 1) {
      EXPECT_EQ(short_of.field(), "max_num_batched_tokens");
    }
  }
  GpuExecutor executor(gpu::testing::OpenTestGpu(), TinyModel(), Best(), 1);
  const Status status = executor.Init(int64_t{1} << 50, 1, 1).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.field(), "kv_cache_bytes");
  EXPECT_THAT(status.message(), AllOf(StartsWith("--kv-cache-size: "), HasSubstr(" at most ")));
  EXPECT_EQ(executor.Init(1, 0, 1).status().field(), "max_num_batched_tokens");
}

}  // namespace
}  // namespace ropeway::executor::testing
