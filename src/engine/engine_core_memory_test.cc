// A steady step takes no memory but what it hands over: its result and its events.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "engine/test_failing_new.h"
#include "executor/cpu_executor.h"
#include "model/gguf.h"
#include "model/open_model.h"
#include "model/test_gguf_writer.h"
#include "policy/policies.h"

namespace ropeway::engine {
namespace {

constexpr int64_t kNeverFails = 1'000'000'000;

struct Crowd {
  int sequences;
  int prompt_len;  // Of the first; the others have three tokens.
  float temperature;
};

class EngineCoreMemoryTest : public testing::TestWithParam<Crowd> {};

TEST_P(EngineCoreMemoryTest, ASteadyDecodeStepAllocatesTwiceHoweverManySequences) {
  const int sequences = GetParam().sequences;
  const model::TempFile file{model::TinyLlama({.context_length = 2304}).Bytes()};
  auto gguf = model::OpenModel(file.path());
  ASSERT_TRUE(gguf.ok());
  auto model = executor::Weights::Load(**gguf, 1);
  ASSERT_TRUE(model.ok());
  executor::CpuExecutor executor(std::move(*model), kernels::ChooseKernels(nullptr), 2);
  auto layout = executor.Init(4 << 20, 64, 32);
  ASSERT_TRUE(layout.ok());
  EngineCoreOptions options;
  options.scheduler.max_num_seqs = 32;
  options.scheduler.max_num_batched_tokens = 64;
  options.max_model_len = 2304;
  policy::FcfsPolicy policy;
  base::RealClock clock;
  int tokens = 0;
  EngineCore core(options, *layout, &executor, &policy, &clock, [&](std::vector<CoreEvent> events) {
    for (const CoreEvent& event : events) tokens += event.kind == CoreEvent::Kind::kToken ? 1 : 0;
  });
  for (int i = 0; i < sequences; ++i) {
    core::CoreRequest request;
    request.id = static_cast<RequestId>(i + 1);
    request.prompt.assign(i == 0 ? static_cast<size_t>(GetParam().prompt_len) : 3, 5);
    request.spec.params.temperature = GetParam().temperature;
    request.spec.params.top_p = 0.9F;
    request.max_tokens = 80;
    request.ignore_eos = true;
    ASSERT_TRUE(core.Add(std::move(request)).ok());
  }
  while (tokens < 4 * sequences) core.Step();
  std::vector<int64_t> allocations;
  for (int i = 0; i < 25; ++i) {
    const FailingNew counter(kNeverFails);
    core.Step();
    allocations.push_back(counter.seen());
  }
  EXPECT_GE(tokens, 25 * sequences);
  // Now and then ids and block tables grow; a typical step shows what each one costs.
  std::sort(allocations.begin(), allocations.end());
  EXPECT_LE(allocations[allocations.size() / 2], 2);
  EXPECT_LE(allocations.back(), 2 + 3 * sequences);
}

INSTANTIATE_TEST_SUITE_P(Sequences, EngineCoreMemoryTest,
                         testing::Values(Crowd{1, 3, 0}, Crowd{5, 3, 0}, Crowd{20, 3, 0},
                                         Crowd{20, 3, 0.8F}, Crowd{1, 1100, 0},
                                         Crowd{2, 1100, 0.8F}));

}  // namespace
}  // namespace ropeway::engine
