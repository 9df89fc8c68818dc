// An engine core on a device that is no small CPU: its executor's profile decides what a step is.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine_core.h"
#include "engine/engine_options.h"
#include "engine/test_executor.h"

namespace ropeway::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr RequestId kDecoding = 1;
constexpr RequestId kPrompt = 2;

// Ten times as fast as a small CPU, which it takes large chunks for.
core::DeviceProfile FastDevice() {
  core::DeviceProfile device;
  device.mixed_prefill_budget = 512;
  device.longest_step = milliseconds(20);
  device.attention_weight = 1.0 / 7000;
  device.decode_ratio = 10.0;
  device.spare = 128;
  device.telling_rows = 128;
  device.efficient_step = 256;
  device.urgent_prompt = 512;
  return device;
}

class DeviceProfileTest : public testing::Test {
 protected:
  // A prompt's token takes 220 us on a small CPU, a decode 600 us; 22 and 60 us on the fast device.
  base::Duration TimeOf(const core::Batch& batch) const {
    base::Duration time{};
    for (const core::BatchItem& item : batch.items) {
      const bool decodes = item.tokens.size() == 1 && item.sample;
      time += decodes ? microseconds(600)
                      : microseconds(220) * static_cast<int64_t>(item.tokens.size());
    }
    return time / speed_;
  }

  void Start(const core::DeviceProfile& device, int speed) {
    speed_ = speed;
    executor_.device = device;
    executor_.before_step = [this](const core::Batch& batch) {
      took_ = TimeOf(batch);
      clock_.Advance(took_);
      chunk_ = 0;
      for (const core::BatchItem& item : batch.items) {
        if (item.sequence == kPrompt) chunk_ = static_cast<int>(item.tokens.size());
      }
      return Status();
    };
    const executor::KvLayout layout = *executor_.Init(
        100'000, options_.scheduler.max_num_batched_tokens, options_.scheduler.max_num_seqs);
    const EngineCoreOptions options = CoreOptionsOf(options_, 32768, layout);
    policy_ = *PolicyOf(options_);
    core_ = std::make_unique<EngineCore>(options, layout, &executor_, policy_.get(), &clock_,
                                         [](std::vector<CoreEvent>) {});
  }

  void Add(RequestId id, int32_t prompt, const std::string& tenant = "") {
    core::CoreRequest request;
    request.id = id;
    for (int32_t i = 0; i < prompt; ++i)
      request.prompt.push_back(static_cast<TokenId>(id) * 1000 + i % 900);
    request.max_tokens = 1000;
    request.ignore_eos = true;
    request.tenant = tenant;
    ASSERT_TRUE(core_->Add(request).ok());
  }

  // The first chunk of a prompt that comes while another request decodes.
  int FirstChunkBesideADecode(int32_t prompt) {
    Add(kDecoding, 40);
    for (int i = 0; i < 3; ++i) core_->Step();
    Add(kPrompt, prompt);
    core_->Step();
    return chunk_;
  }

  // The longest step and the largest chunk of a prompt whose tenant has a name, once the speed is
  // known.
  struct Largest {
    base::Duration took{};
    int chunk = 0;
  };
  Largest OfALongPrompt() {
    Add(kDecoding, 400, "a");
    core_->Step();
    core_->Abort(kDecoding, FinishReason::kCancelled);
    Add(kPrompt, 20'000, "a");
    Largest largest;
    for (int i = 0; i < 5; ++i) {
      core_->Step();
      largest.took = std::max(largest.took, took_);
      largest.chunk = std::max(largest.chunk, chunk_);
    }
    return largest;
  }

  EngineOptions options_;
  int speed_ = 1;
  base::VirtualClock clock_;
  TestExecutor executor_{TestExecutor::Kv::kNone};
  std::unique_ptr<policy::SchedulingPolicy> policy_;
  std::unique_ptr<EngineCore> core_;
  base::Duration took_{};  // Of the last step.
  int chunk_ = 0;          // Of kPrompt in it.
};

TEST_F(DeviceProfileTest, ASmallCpuTakesSmallChunksBesideDecodes) {
  Start({}, 1);
  EXPECT_EQ(FirstChunkBesideADecode(480), 31) << "of 32 units";
  EXPECT_DOUBLE_EQ(core_->stats().attention_weight, 1.0 / 700);
}

TEST_F(DeviceProfileTest, AFastDeviceTakesLargeChunksBesideDecodes) {
  options_.scheduler.max_num_batched_tokens = 1024;
  Start(FastDevice(), 10);
  EXPECT_EQ(FirstChunkBesideADecode(480), 480) << "of 512 units";
  EXPECT_DOUBLE_EQ(core_->stats().attention_weight, 1.0 / 7000);
}

TEST_F(DeviceProfileTest, LongPromptsGetWhatADeviceHasToSpare) {
  options_.scheduler.max_num_batched_tokens = 1024;
  options_.scheduler.long_prefill_budget = 256;
  Start(FastDevice(), 10);
  EXPECT_EQ(FirstChunkBesideADecode(2000), 126) << "of 128 units";
  options_.scheduler.long_prefill_budget = 64;
  Start(FastDevice(), 10);
  EXPECT_EQ(FirstChunkBesideADecode(2000), 63) << "of 64, which the option says";
}

TEST_F(DeviceProfileTest, AnOptionBoundsWhatTheDeviceWouldTake) {
  options_.scheduler.max_num_batched_tokens = 128;
  Start(FastDevice(), 10);
  EXPECT_EQ(FirstChunkBesideADecode(480), 125) << "of 128 units, with the decode";
}

TEST_F(DeviceProfileTest, ClassicStrategiesHaveNoBudgetBesideDecodes) {
  options_.scheduler.strategy = "dynamic";
  executor::KvLayout layout{.num_blocks = 100, .block_bytes = 1, .device = FastDevice()};
  EXPECT_EQ(CoreOptionsOf(options_, 1000, layout).step.mixed_prefill_budget, 0);
}

TEST_F(DeviceProfileTest, TheLongestStepOfTheDeviceBoundsChunks) {
  options_.scheduler.max_num_batched_tokens = 4096;
  Start({}, 1);
  const Largest small = OfALongPrompt();
  EXPECT_LE(small.took, milliseconds(100));
  EXPECT_GE(small.chunk, 200);
  EXPECT_LE(small.chunk, 454) << "in 100 ms, without attention";

  Start(FastDevice(), 10);
  const Largest fast = OfALongPrompt();
  EXPECT_LE(fast.took, milliseconds(20));
  EXPECT_GE(fast.chunk, 700);
  EXPECT_LE(fast.chunk, 909) << "in 20 ms, without attention";
}

}  // namespace
}  // namespace ropeway::engine
