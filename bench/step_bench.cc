// How fast are the executor's steps alone: prefill chunks and decode batches of synthetic
// sequences, without scheduler, tokenizer and HTTP. Prints one line of CSV per shape, and the time
// of a barrier: where the host places the virtual cores changes it, and the results, by 10 to 20 %.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/barrier_time.h"
#include "bench_flags.h"
#include "step_timer.h"

namespace ropeway {
namespace {

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

struct Flags {
  std::string model;
  int threads = 2;
  double seconds = 0.5;
  std::string only;
  bool curves = false;
  int kv_cache_mb = 384;
  std::string kv_cache_dtype = "f16";
  bool barrier = false;
};

// The shapes that --curves and --only name; none, and a sentence on standard error, where there is
// no such name.
std::vector<NamedShape> ChooseShapes(const Flags& flags) {
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

// Prints one line per shape; false, and a sentence on standard error, where one does not fit.
bool PrintShapes(const std::vector<NamedShape>& shapes, const Flags& flags, StepTimer* timer,
                 int num_blocks) {
  fmt::print("shape,sequences,tokens,context,median_ms,best_ms,median_tok_per_s\n");
  for (const auto& [name, shape] : shapes) {
    if (shape.blocks() > num_blocks) {
      fmt::print(stderr, "--kv-cache-mb: {} sequences of {} tokens need {} blocks, not {}\n",
                 shape.sequences, shape.context + shape.tokens, shape.blocks(), num_blocks);
      return false;
    }
    const std::vector<double> times = timer->Measure(shape, flags.seconds);
    const double median = times[times.size() / 2];
    fmt::print("{},{},{},{},{:.3f},{:.3f},{:.0f}\n", name, shape.sequences, shape.tokens,
               shape.context, median * 1e3, times.front() * 1e3,
               shape.sequences * shape.tokens / median);
  }
  return true;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app{"Times the executor's steps"};
  app.add_option("--model", flags.model, "GGUF file");
  app.add_option("--threads", flags.threads, "compute threads")->check(kThreadsRange);
  app.add_option("--seconds", flags.seconds, "time per shape")->check(kSecondsRange);
  app.add_option("--only", flags.only, "the shapes of one name");
  app.add_flag("--curves", flags.curves, "many sequence counts and context lengths");
  app.add_option("--kv-cache-mb", flags.kv_cache_mb, "KV pool in MiB; --curves needs about 1,500")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--kv-cache-dtype", flags.kv_cache_dtype, "how it keeps numbers: f16 or q8_0")
      ->check(CLI::IsMember({"f16", "q8_0"}));
  app.add_flag("--barrier", flags.barrier, "print the nanoseconds of a barrier, and nothing else");
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  if (flags.barrier) {
    fmt::print("{:.0f}\n", BarrierNanoseconds(flags.threads));
    return 0;
  }

  const std::vector<NamedShape> shapes = ChooseShapes(flags);
  if (shapes.empty()) return 1;
  const char* error = nullptr;
  const Kernels* kernels = ChooseKernels(&error);
  auto file = GgufFile::Open(flags.model);
  if (kernels == nullptr || !file.ok()) {
    fmt::print(stderr, "{}\n", kernels == nullptr ? error : file.status().message());
    return 1;
  }
  auto model = Model::Load(**file, flags.threads);
  if (!model.ok()) {
    fmt::print(stderr, "{}\n", model.status().message());
    return 1;
  }
  const int vocab_size = (*model)->config().vocab_size;
  CpuExecutor executor(std::move(*model), kernels, flags.threads,
                       *KvTypeByName(flags.kv_cache_dtype.c_str()));
  auto layout = executor.Init(int64_t{flags.kv_cache_mb} << 20, 512, 64);
  if (!layout.ok()) {
    fmt::print(stderr, "{}\n", layout.status().message());
    return 1;
  }
  StepTimer timer(&executor, *layout, vocab_size);
  timer.FillPool();
  fmt::print("# {} threads, {}, {} KV cache, barrier {:.0f} ns\n", flags.threads, kernels->name,
             flags.kv_cache_dtype, BarrierNanoseconds(flags.threads));
  return PrintShapes(shapes, flags, &timer, layout->num_blocks) ? 0 : 1;
}

}  // namespace
}  // namespace ropeway

int main(int argc, char** argv) { return ropeway::Main(argc, argv); }
