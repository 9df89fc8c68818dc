#include "step_timer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <random>

namespace ropeway {

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void StepTimer::FillPool() {
  Step(MakeBatch({1, kBlockTokens, 0}));
  std::vector<std::byte> bytes(layout_.block_bytes);
  executor_->ReadBlock(0, bytes);
  for (int block = 1; block < layout_.num_blocks; ++block) executor_->WriteBlock(block, bytes);
}

Batch StepTimer::MakeBatch(const StepShape& shape) const {
  Batch batch;
  std::mt19937 random(1);
  const int blocks = shape.blocks() / shape.sequences;
  for (int s = 0; s < shape.sequences; ++s) {
    BatchItem& item = batch.items.emplace_back();
    item.sequence = static_cast<uint64_t>(s);
    item.start = shape.context;
    for (int t = 0; t < shape.tokens; ++t) {
      item.tokens.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(vocab_size_)));
    }
    for (int b = 0; b < blocks; ++b) item.blocks.push_back(b * shape.sequences + s);
    item.sample = true;
    item.spec.params.temperature = 0;
  }
  return batch;
}

double StepTimer::Step(const Batch& batch) {
  const double begin = MonotonicSeconds();
  executor_->Launch(batch);
  const auto result = executor_->Wait();
  if (!result.ok()) fmt::print(stderr, "{}\n", result.status().message());
  return MonotonicSeconds() - begin;
}

std::vector<double> StepTimer::Measure(const StepShape& shape, double seconds) {
  const Batch batch = MakeBatch(shape);
  std::vector<double> times;
  Step(batch);
  for (double total = 0; times.empty() || total < seconds;) {
    times.push_back(Step(batch));
    total += times.back();
  }
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace ropeway
