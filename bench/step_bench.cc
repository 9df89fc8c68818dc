// How fast are the executor's steps alone: prefill chunks and decode batches of synthetic
// sequences, without scheduler, tokenizer and HTTP. Prints one line of CSV per shape, and the time
// of a barrier: where the host places the virtual cores changes it, and the results, by 10 to 20 %.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "base/worker_team.h"
#include "executor/cpu_executor.h"

namespace ropeway {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double BarrierNanoseconds(int threads) {
  constexpr int kRounds = 20000;
  WorkerTeam team(threads);
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double begin = Now();
    team.Run([&](int) {
      for (int i = 0; i < kRounds; ++i) team.Barrier();
    });
    best = std::min(best, (Now() - begin) / kRounds * 1e9);
  }
  return best;
}

struct Shape {
  int sequences;
  int tokens;   // Of each, per step: 1 is a decode.
  int context;  // Positions before.
};

class StepBench {
 public:
  StepBench(CpuExecutor* executor, const KvLayout& layout, int vocab_size)
      : executor_(executor), layout_(layout), vocab_size_(vocab_size) {}

  // Median and best seconds per step, over steps that fit in `seconds`.
  std::pair<double, double> Measure(const Shape& shape, double seconds) {
    const Batch batch = MakeBatch(shape);
    std::vector<double> times;
    Step(batch);
    for (double total = 0; total < seconds;) {
      times.push_back(Step(batch));
      total += times.back();
    }
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2], times.front()};
  }

 private:
  // Blocks of one sequence do not lie together, as in a pool that has been used for a while.
  Batch MakeBatch(const Shape& shape) const {
    Batch batch;
    std::mt19937 random(1);
    const int blocks = (shape.context + shape.tokens + kBlockTokens - 1) / kBlockTokens;
    for (int s = 0; s < shape.sequences; ++s) {
      BatchItem& item = batch.items.emplace_back();
      item.sequence = static_cast<uint64_t>(s);
      item.start = shape.context;
      for (int t = 0; t < shape.tokens; ++t) {
        item.tokens.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(vocab_size_)));
      }
      for (int b = 0; b < blocks; ++b) {
        item.blocks.push_back((b * shape.sequences + s) % layout_.num_blocks);
      }
      item.sample = true;
      item.spec.params.temperature = 0;
    }
    return batch;
  }

  double Step(const Batch& batch) {
    const double begin = Now();
    executor_->Launch(batch);
    const auto result = executor_->Wait();
    if (!result.ok()) fmt::print(stderr, "{}\n", result.status().message());
    return Now() - begin;
  }

  CpuExecutor* executor_;
  KvLayout layout_;
  int vocab_size_;
};

int Main(int argc, char** argv) {
  std::string path;
  int threads = 2;
  double seconds = 0.5;
  std::string only;
  CLI::App app{"Times the executor's steps"};
  bool barrier_only = false;
  app.add_option("--model", path, "GGUF file");
  app.add_option("--threads", threads, "compute threads");
  app.add_option("--seconds", seconds, "time per shape");
  app.add_option("--only", only, "one shape's name");
  app.add_flag("--barrier", barrier_only, "print the nanoseconds of a barrier, and nothing else");
  CLI11_PARSE(app, argc, argv);
  if (barrier_only) {
    fmt::print("{:.0f}\n", BarrierNanoseconds(threads));
    return 0;
  }

  const char* error = nullptr;
  const Kernels* kernels = ChooseKernels(&error);
  auto file = GgufFile::Open(path);
  if (kernels == nullptr || !file.ok()) {
    fmt::print(stderr, "{}\n", kernels == nullptr ? error : file.status().message());
    return 1;
  }
  auto model = Model::Load(**file, threads);
  if (!model.ok()) {
    fmt::print(stderr, "{}\n", model.status().message());
    return 1;
  }
  const int vocab_size = (*model)->config().vocab_size;
  CpuExecutor executor(std::move(*model), kernels, threads);
  auto layout = executor.Init(int64_t{384} << 20, 512, 64);
  if (!layout.ok()) {
    fmt::print(stderr, "{}\n", layout.status().message());
    return 1;
  }
  StepBench bench(&executor, *layout, vocab_size);
  fmt::print("# {} threads, {}, barrier {:.0f} ns\n", threads, kernels->name,
             BarrierNanoseconds(threads));
  fmt::print("shape,sequences,tokens,context,median_ms,best_ms,median_tok_per_s\n");
  const std::vector<std::pair<std::string, Shape>> shapes = {
      {"decode1", {1, 1, 200}},    {"decode8", {8, 1, 200}},      {"decode16", {16, 1, 200}},
      {"decode32", {32, 1, 200}},  {"prefill128", {1, 128, 0}},   {"prefill256", {1, 256, 0}},
      {"prefill512", {1, 512, 0}}, {"decode1long", {1, 1, 1900}},
  };
  for (const auto& [name, shape] : shapes) {
    if (!only.empty() && only != name) continue;
    const auto [median, best] = bench.Measure(shape, seconds);
    fmt::print("{},{},{},{},{:.3f},{:.3f},{:.0f}\n", name, shape.sequences, shape.tokens,
               shape.context, median * 1e3, best * 1e3, shape.sequences * shape.tokens / median);
  }
  return 0;
}

}  // namespace
}  // namespace ropeway

int main(int argc, char** argv) { return ropeway::Main(argc, argv); }
