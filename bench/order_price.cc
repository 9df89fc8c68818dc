// What the fixed order of float sums costs: whole steps of the real executor with the production
// kernels and with a table that may reorder (free_order.h), in alternated pairs. A pair before and
// after which the barrier times are unlike does not count: the host has moved the virtual cores.
// Prints a line of CSV per pair, then per shape the median of the ratios and their spread.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/barrier_time.h"
#include "bench_flags.h"
#include "free_order.h"
#include "step_timer.h"

namespace ropeway {
namespace {

constexpr double kUnlike = 1.25;  // Between the barrier times before and after a pair.

struct Flags {
  std::string model;
  int threads = 2;
  int pairs = 9;
  double seconds = 0.25;
  std::string only;
  std::vector<std::string> free = {"attention", "rms_norm", "swiglu", "log_sum_exp"};
};

struct NamedShape {
  const char* name;
  StepShape shape;
};

constexpr NamedShape kShapes[] = {{"decode1", {1, 1, 200}},    {"decode8", {8, 1, 200}},
                                  {"decode16", {16, 1, 200}},  {"decode32", {32, 1, 200}},
                                  {"prefill128", {1, 128, 0}}, {"prefill512", {1, 512, 0}}};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// An executor with a table of its own; the model is shared.
struct Contestant {
  std::unique_ptr<CpuExecutor> executor;
  std::unique_ptr<StepTimer> timer;
};

StatusOr<Contestant> Open(const std::shared_ptr<const Model>& model, const Kernels* kernels,
                          int threads) {
  Contestant contestant;
  contestant.executor = std::make_unique<CpuExecutor>(model, kernels, threads);
  auto layout = contestant.executor->Init(int64_t{256} << 20, 512, 64);
  if (!layout.ok()) return layout.status();
  contestant.timer =
      std::make_unique<StepTimer>(contestant.executor.get(), *layout, model->config().vocab_size);
  contestant.timer->FillPool();
  return contestant;
}

bool PutFree(const std::string& name, Kernels* table) {
  for (const FreeKernel& kernel : kFreeKernels) {
    if (name != kernel.name) continue;
    kernel.put(table);
    return true;
  }
  return false;
}

// All pairs of one shape.
void Compare(const NamedShape& named, const Flags& flags, Contestant* fixed, Contestant* free) {
  std::vector<double> ratios;
  int discarded = 0;
  const int most = 4 * flags.pairs;
  for (int i = 0; static_cast<int>(ratios.size()) < flags.pairs && i < most; ++i) {
    const auto time = [&](Contestant* contestant) {
      return Median(contestant->timer->Measure(named.shape, flags.seconds)) * 1e3;
    };
    const double before = BarrierNanoseconds(flags.threads);
    double fixed_ms = 0;
    double free_ms = 0;
    if (i % 2 == 0) {
      fixed_ms = time(fixed);
      free_ms = time(free);
    } else {
      free_ms = time(free);
      fixed_ms = time(fixed);
    }
    const double after = BarrierNanoseconds(flags.threads);
    const bool counts = std::max(before, after) <= kUnlike * std::min(before, after);
    if (counts) {
      ratios.push_back(fixed_ms / free_ms);
    } else {
      ++discarded;
    }
    fmt::print("{},{},{:.4f},{:.4f},{:.4f},{:.0f},{:.0f},{}\n", named.name, i + 1, fixed_ms,
               free_ms, fixed_ms / free_ms, before, after, counts ? 1 : 0);
    std::fflush(stdout);
  }
  if (ratios.empty()) {
    fmt::print("# {}: no pair counts, {} discarded\n", named.name, discarded);
    return;
  }
  std::sort(ratios.begin(), ratios.end());
  fmt::print("# {}: median {:.4f} of {} pairs, from {:.4f} to {:.4f}, {} discarded\n", named.name,
             Median(ratios), ratios.size(), ratios.front(), ratios.back(), discarded);
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app{"Steps with a fixed and with a free order of float sums, in alternated pairs"};
  app.add_option("--model", flags.model, "GGUF file")->required();
  app.add_option("--threads", flags.threads, "compute threads")->check(kThreadsRange);
  app.add_option("--pairs", flags.pairs, "pairs that count, per shape")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", flags.seconds, "per side of a pair")->check(kSecondsRange);
  std::vector<std::string> names;
  for (const NamedShape& named : kShapes) names.emplace_back(named.name);
  app.add_option("--only", flags.only, "one shape's name")->check(CLI::IsMember(names));
  app.add_option(
      "--free", flags.free,
      "the kernels that may reorder (default: attention, rms_norm, swiglu, log_sum_exp)");
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;
  const Kernels* fixed_kernels = KernelsByName("avx512vnni");
  if (fixed_kernels == nullptr) {
    fmt::print(stderr, "order_price needs a CPU with AVX-512 VNNI\n");
    return 1;
  }
  Kernels free_kernels = *fixed_kernels;
  for (const std::string& name : flags.free) {
    if (!PutFree(name, &free_kernels)) {
      fmt::print(stderr, "--free: there is no '{}'\n", name);
      return 1;
    }
  }
  auto file = GgufFile::Open(flags.model);
  if (!file.ok()) {
    fmt::print(stderr, "{}\n", file.status().message());
    return 1;
  }
  auto loaded = Model::Load(**file, flags.threads);
  if (!loaded.ok()) {
    fmt::print(stderr, "{}\n", loaded.status().message());
    return 1;
  }
  const std::shared_ptr<const Model> model = *std::move(loaded);
  auto fixed = Open(model, fixed_kernels, flags.threads);
  auto free = Open(model, &free_kernels, flags.threads);
  if (!fixed.ok() || !free.ok()) {
    fmt::print(stderr, "{}\n", (fixed.ok() ? free : fixed).status().message());
    return 1;
  }
  fmt::print("shape,pair,fixed_ms,free_ms,ratio,barrier_before_ns,barrier_after_ns,counts\n");
  for (const NamedShape& named : kShapes) {
    if (flags.only.empty() || flags.only == named.name) Compare(named, flags, &*fixed, &*free);
  }
  return 0;
}

}  // namespace
}  // namespace ropeway

int main(int argc, char** argv) { return ropeway::Main(argc, argv); }
