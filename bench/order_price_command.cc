// Measures what the fixed order of float sums costs: whole steps of the real executor with the
// production kernels and with a table that may reorder (free_order.h), in alternated pairs. A pair
// counts only if the barrier times before and after it are alike; otherwise the host has moved the
// virtual cores. Prints rows whose system is the shape and whose x is the pair's number.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/output.h"
#include "bench/bench_flags.h"
#include "bench/commands.h"
#include "bench/free_order.h"
#include "bench/rows.h"
#include "bench/steps.h"
#include "bench/timing.h"

namespace ropeway::bench {
namespace {

constexpr double kUnlike = 1.25;  // Between the barrier times before and after a pair.

struct OrderPriceFlags : BenchFlags {
  int pairs = 9;
  std::string only;
  std::vector<std::string> free = {"attention", "rms_norm", "swiglu", "log_sum_exp"};
};

struct PriceShape {
  const char* name;
  StepShape shape;
};

constexpr PriceShape kPriceShapes[] = {{"decode1", {1, 1, 200}},    {"decode8", {8, 1, 200}},
                                       {"decode16", {16, 1, 200}},  {"decode32", {32, 1, 200}},
                                       {"prefill128", {1, 128, 0}}, {"prefill512", {1, 512, 0}}};

// An executor with a table of its own; the model is shared.
struct Variant {
  std::unique_ptr<executor::CpuExecutor> executor;
  std::unique_ptr<StepTimer> timer;
};

StatusOr<Variant> OpenVariant(const std::shared_ptr<const executor::Weights>& model,
                              const kernels::Kernels* kernels, int threads) {
  Variant variant;
  variant.executor = std::make_unique<executor::CpuExecutor>(model, kernels, threads);
  auto layout = variant.executor->Init(int64_t{256} << 20, 512, 64);
  if (!layout.ok()) return layout.status();
  variant.timer =
      std::make_unique<StepTimer>(variant.executor.get(), *layout, model->config().vocab_size);
  variant.timer->FillPool();
  return variant;
}

bool PutFree(const std::string& name, kernels::Kernels* table) {
  for (const FreeKernel& kernel : kFreeKernels) {
    if (name != kernel.name) continue;
    kernel.put(table);
    return true;
  }
  return false;
}

// All pairs of one shape.
void AddPairs(const PriceShape& named, const OrderPriceFlags& flags, Variant* fixed, Variant* free,
              Rows* rows) {
  int counted = 0;
  for (int i = 0; counted < flags.pairs && i < 4 * flags.pairs; ++i) {
    const auto time = [&](Variant* variant) {
      return variant->timer->Measure(named.shape, flags.seconds).median * 1e3;
    };
    const double before = BarrierNanoseconds(flags.resolved_threads());
    double fixed_ms = 0;
    double free_ms = 0;
    if (i % 2 == 0) {
      fixed_ms = time(fixed);
      free_ms = time(free);
    } else {
      free_ms = time(free);
      fixed_ms = time(fixed);
    }
    const double after = BarrierNanoseconds(flags.resolved_threads());
    const bool counts = std::max(before, after) <= kUnlike * std::min(before, after);
    counted += counts ? 1 : 0;
    rows->SetCell("order-price", named.name, fmt::format("{}", i + 1));
    rows->Add("fixed_ms", fixed_ms);
    rows->Add("free_ms", free_ms);
    rows->Add("barrier_before_ns", before);
    rows->Add("barrier_after_ns", after);
    rows->Add("counts", counts ? 1 : 0);
  }
}

int RunOrderPrice(const OrderPriceFlags& flags) {
  const kernels::Kernels* fixed_kernels = kernels::KernelsByName("avx512vnni");
  if (fixed_kernels == nullptr) return base::Fail("order-price needs a CPU with AVX-512 VNNI");
  kernels::Kernels free_kernels = *fixed_kernels;
  for (const std::string& name : flags.free) {
    if (!PutFree(name, &free_kernels))
      return base::Fail(fmt::format("--free: there is no '{}'", name));
  }
  const auto model = LoadModel(flags);
  if (!model.ok()) return base::Fail(model.status());
  auto fixed = OpenVariant(*model, fixed_kernels, flags.resolved_threads());
  if (!fixed.ok()) return base::Fail(fixed.status());
  auto free = OpenVariant(*model, &free_kernels, flags.resolved_threads());
  if (!free.ok()) return base::Fail(free.status());
  base::Output output;
  Rows rows([&output](const std::string& text) { output.Write(text); });
  for (const PriceShape& named : kPriceShapes) {
    if (flags.only.empty() || flags.only == named.name)
      AddPairs(named, flags, &*fixed, &*free, &rows);
  }
  return output.End();
}

}  // namespace

flags::Command OrderPriceCommand() {
  auto flags = std::make_shared<OrderPriceFlags>();
  flags->seconds = 0.25;
  std::vector<std::string> names;
  for (const PriceShape& named : kPriceShapes) names.emplace_back(named.name);
  return {
      "order-price",
      "Compare steps with a fixed and a free order of float sums",
      {{"Flags", ModelFlags(flags.get(), "Time for each side of a pair")},
       {"Flags",
        {{"--pairs", flags::IntValue(&flags->pairs, 1, 1000), "Pairs that count, for each shape"},
         {"--only", flags::ChoiceValue(&flags->only, names), "One shape, by its name"},
         {"--free", flags::TextsValue(&flags->free, "NAME").Default("all of them"),
          "A kernel that may reorder: attention, rms_norm, swiglu, log_sum_exp"}}}},
      "Needs a CPU with AVX-512 VNNI.",
      [flags] { return RunOrderPrice(*flags); }};
}

}  // namespace ropeway::bench
