#include "bench/steps.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/output.h"
#include "bench/bench_flags.h"
#include "bench/commands.h"
#include "bench/rows.h"
#include "bench/timing.h"

namespace ropeway::bench {
namespace {

struct StepsFlags : BenchFlags {
  std::string only;
  bool curves = false;
  int kv_cache_mb = 384;
  bool barrier = false;
};

using NamedShape = std::pair<std::string, StepShape>;

// Single shapes that are often asked for.
std::vector<NamedShape> UsualShapes() {
  return {
      {"decode1", {1, 1, 200}},    {"decode8", {8, 1, 200}},      {"decode16", {16, 1, 200}},
      {"decode32", {32, 1, 200}},  {"prefill128", {1, 128, 0}},   {"prefill256", {1, 256, 0}},
      {"prefill512", {1, 512, 0}}, {"decode1long", {1, 1, 1900}},
  };
}

// How a decode step's time grows with the number of sequences, and with the context of one and of
// eight (whose 8,192th position is the last one computed).
std::vector<NamedShape> CurveShapes() {
  std::vector<NamedShape> shapes;
  for (const int n : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    shapes.push_back({"sequences", {n, 1, 255}});
  }
  for (const int n : {1, 8}) {
    for (const int length : {128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192}) {
      shapes.push_back({fmt::format("context{}", n), {n, 1, length - 1}});
    }
  }
  return shapes;
}

// The shapes that --curves and --only name; none, and a sentence on standard error, where there is
// no such name.
std::vector<NamedShape> ChooseShapes(const StepsFlags& flags) {
  const std::vector<NamedShape> all = flags.curves ? CurveShapes() : UsualShapes();
  std::vector<NamedShape> chosen;
  std::vector<std::string> names;
  for (const NamedShape& named : all) {
    if (flags.only.empty() || flags.only == named.first) chosen.push_back(named);
    if (names.empty() || names.back() != named.first) names.push_back(named.first);
  }
  if (chosen.empty()) {
    fmt::print(stderr, "--only: expected one of {}{}, not '{}'\n", fmt::join(names, ", "),
               flags.curves ? " with --curves" : "", flags.only);
  }
  return chosen;
}

// Adds the rows of all shapes. kInvalidArgument where one does not fit the pool.
Status AddShapes(const std::vector<NamedShape>& shapes, const StepsFlags& flags, const char* isa,
                 const executor::KvLayout& layout, StepTimer* timer, Rows* rows) {
  for (const auto& [name, shape] : shapes) {
    const int needed = shape.blocks() * static_cast<int>(layout.windows.size());
    if (needed > layout.num_blocks) {
      return InvalidArgument(
          fmt::format("--kv-cache-mb: {} sequences of {} tokens need {} blocks, not {}",
                      shape.sequences, shape.context + shape.tokens, needed, layout.num_blocks));
    }
    const Timing timing = timer->Measure(shape, flags.seconds);
    rows->SetCell("steps", isa,
                  fmt::format("shape={}; sequences={}; tokens={}; context={}", name,
                              shape.sequences, shape.tokens, shape.context));
    rows->Add("median_ms", timing.median * 1e3);
    rows->Add("best_ms", timing.least * 1e3);
    rows->Add("tok_per_s", shape.sequences * shape.tokens / timing.median);
  }
  return {};
}

// Times prefill chunks and decode batches of synthetic sequences, without scheduler, tokenizer and
// HTTP. The barrier's time is measured too because the host's placement of the virtual cores
// changes it, and the results, by 10 to 20 %.
int RunSteps(const StepsFlags& flags) {
  const int threads = flags.resolved_threads();
  if (flags.barrier) {
    fmt::print("{:.0f}\n", BarrierNanoseconds(threads));
    return 0;
  }
  const std::vector<NamedShape> shapes = ChooseShapes(flags);
  if (shapes.empty()) return 1;
  const StatusOr<const kernels::Kernels*> kernels = ChooseTable("");
  if (!kernels.ok()) return base::Fail(kernels.status());
  const auto model = LoadModel(flags);
  if (!model.ok()) return base::Fail(model.status());
  executor::CpuExecutor executor(*model, *kernels, threads,
                                 *kernels::KvTypeByName(flags.kv_cache_dtype.c_str()));
  const auto layout = executor.Init(int64_t{flags.kv_cache_mb} << 20, 512, 64);
  if (!layout.ok()) return base::Fail(layout.status());
  StepTimer timer(&executor, *layout, (*model)->config().vocab_size);
  timer.FillPool();
  base::Output output;
  Rows rows([&output](const std::string& text) { output.Write(text); });
  rows.SetCell("about", (*kernels)->name, "");
  rows.Add("threads", threads);
  rows.Add("kv_cache_dtype", flags.kv_cache_dtype);
  rows.Add("barrier_ns", BarrierNanoseconds(threads));
  const Status status = AddShapes(shapes, flags, (*kernels)->name, *layout, &timer, &rows);
  return status.ok() ? output.End() : base::Fail(status);
}

}  // namespace

void StepTimer::FillPool() {
  Step(MakeBatch({1, base::kBlockTokens, 0}));
  std::vector<std::byte> bytes(layout_.block_bytes);
  executor_->ReadBlock(0, bytes);
  base::Check(executor_->FinishReads());
  for (int block = 1; block < layout_.num_blocks; ++block) executor_->WriteBlock(block, bytes);
}

core::Batch StepTimer::MakeBatch(const StepShape& shape) {
  static const core::SampleSpec kGreedy = [] {
    core::SampleSpec spec;
    spec.params.temperature = 0;
    return spec;
  }();
  const auto tokens = static_cast<size_t>(shape.tokens);
  const size_t blocks =
      static_cast<size_t>(shape.blocks() / shape.sequences) * layout_.windows.size();
  const auto sequences = static_cast<size_t>(shape.sequences);
  std::mt19937 random(1);
  tokens_.resize(sequences * tokens);
  for (TokenId& token : tokens_) {
    token = static_cast<TokenId>(random() % static_cast<uint32_t>(vocab_size_));
  }
  blocks_.clear();
  core::Batch batch;
  for (size_t s = 0; s < sequences; ++s) {
    for (size_t b = 0; b < blocks; ++b) {
      blocks_.push_back(static_cast<core::BlockId>(b * sequences + s));
    }
  }
  for (size_t s = 0; s < sequences; ++s) {
    batch.items.push_back({.sequence = s,
                           .start = shape.context,
                           .tokens = std::span(tokens_).subspan(s * tokens, tokens),
                           .blocks = std::span(blocks_).subspan(s * blocks, blocks),
                           .sample = true,
                           .spec = &kGreedy});
  }
  return batch;
}

double StepTimer::Step(const core::Batch& batch) {
  const base::RealClock clock;
  const base::TimePoint begin = clock.Now();
  executor_->Launch(batch);
  const auto result = executor_->Wait();
  if (!result.ok()) fmt::print(stderr, "{}\n", result.status().message());
  return base::ToSeconds(clock.Now() - begin);
}

Timing StepTimer::Measure(const StepShape& shape, double seconds) {
  const core::Batch batch = MakeBatch(shape);
  std::vector<double> times;
  Step(batch);
  for (double total = 0; times.empty() || total < seconds;) {
    times.push_back(Step(batch));
    total += times.back();
  }
  return Summarize(std::move(times));
}

flags::Command StepsCommand() {
  auto flags = std::make_shared<StepsFlags>();
  return {"steps",
          "Time the executor's steps",
          {{"Flags", ModelFlags(flags.get(), "Time for each shape")},
           {"Flags",
            {KvTypeFlag(&flags->kv_cache_dtype),
             {"--only", flags::TextValue(&flags->only, "NAME"), "The shapes of one name"},
             {"--curves", flags::SwitchValue(&flags->curves),
              "Many sequence counts and context lengths"},
             {"--kv-cache-mb", flags::IntValue(&flags->kv_cache_mb, 1, 1 << 20),
              "KV pool in MiB; --curves needs about 1,500"},
             {"--barrier", flags::SwitchValue(&flags->barrier),
              "Print the nanoseconds of a barrier and nothing else"}}}},
          "Example:\n  ropeway-bench steps --only decode1 --seconds 0.05",
          [flags] { return RunSteps(*flags); }};
}

}  // namespace ropeway::bench
