#include "bench/bench_kernels_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/flags.h"
#include "cli/output.h"
#include "engine/machine.h"
#include "executor/forward_pass.h"
#include "executor/output_layer.h"
#include "executor/step_plan.h"
#include "model/gguf.h"
#include "model/llama_tensors.h"
#include "bench/kernels/csv.h"
#include "bench/kernels/report.h"
#include "bench/kernels/roofline.h"

namespace ropeway {
namespace {

constexpr int kMostRows = 4096;
constexpr size_t kMostMemory = size_t{2} << 30;

StatusOr<const Kernels*> ChooseTable(const std::string& isa) {
  if (isa.empty()) {
    const char* error = nullptr;
    const Kernels* kernels = ChooseKernels(&error);
    if (kernels == nullptr) return InvalidArgument(error);
    return kernels;
  }
  const Kernels* kernels = KernelsByName(isa.c_str());
  if (kernels == nullptr) return InvalidArgument("--isa: this CPU cannot run '" + isa + "'");
  return kernels;
}

StatusOr<ModelShapes> ReadShapes(const std::string& model) {
  const StatusOr<std::string> path = ResolveModel(model);
  if (!path.ok()) return path.status();
  auto file = GgufFile::Open(*path);
  if (!file.ok()) return file.status();
  const StatusOr<LlamaTensors> tensors = BindLlamaTensors(**file);
  if (!tensors.ok()) return tensors.status();
  return ShapesOf(*tensors, std::filesystem::path(*path).stem().string());
}

// One line that is written over, on a terminal only.
void ShowProgress(const std::string& what, int done, int total) {
  Note(fmt::format("\r\x1b[K[{}/{}] {}", done, total, what));
}

}  // namespace

StatusOr<std::vector<int>> ParseRows(const std::string& text) {
  std::vector<int> rows;
  std::string_view rest = text;
  for (;;) {
    const std::string_view word = rest.substr(0, rest.find(','));
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 ||
        value > kMostRows || (!rows.empty() && value <= rows.back())) {
      return InvalidArgument(
          fmt::format("--rows: expected rising whole numbers, 1 to {}, with commas between, not "
                      "'{}'",
                      kMostRows, text));
    }
    rows.push_back(value);
    if (word.size() == rest.size()) return rows;
    rest.remove_prefix(word.size() + 1);
  }
}

CLI::App* AddBenchKernels(CLI::App* bench, BenchKernelsFlags* flags) {
  CLI::App* app = bench->add_subcommand(
      "kernels", "Measure this machine's limits, and what share of them the kernels reach");
  AddModelFlag(app, &flags->model);
  AddInt(app, "--threads,-t", &flags->threads, 1, 1024, "Compute threads")
      ->default_str("the physical cores")
      ->group("What is measured");
  AddChoice(app, "--isa", &flags->isa, {"reference", "avx2", "avx512vnni"},
            "The table of kernels: reference, avx2 or avx512vnni")
      ->default_str("ROPEWAY_ISA, or the best that this CPU can run")
      ->group("What is measured");
  AddChoice(app, "--only", &flags->only, {"matmul", "attention", "lm-head", "peaks"},
            "Beside the limits only this: matmul, attention, lm-head, or peaks for nothing else")
      ->default_str("everything")
      ->group("What is measured");
  AddText(app, "--rows", &flags->rows, "LIST", "Numbers of rows that are multiplied together")
      ->group("What is measured");
  AddChoice(app, "--kv-cache-dtype", &flags->kv_cache_dtype, {"f16", "q8_0"},
            "How the KV cache of the attention keeps numbers: f16 or q8_0")
      ->group("What is measured");
  AddNumber(app, "--seconds", &flags->seconds, 0.001, 60, "About so long for each figure")
      ->group("What is measured");
  app->add_flag("--quick", flags->quick,
                "Few and short cases: shows what the output looks like, measures nothing")
      ->group("What is measured");
  AddText(app, "--csv", &flags->csv, kFilePlaceholder,
          "Write one line for each figure to this file as well")
      ->group("Report");
  app->add_flag("--progress,!--no-progress", flags->progress,
                "Show on a terminal what is being measured (the default)")
      ->group("Report");
  app->footer(
      "Run it on a machine that does nothing else. docs/benchmarks.md explains the figures.\n\n"
      "Example:\n  ropeway-bench kernels --only peaks --seconds 0.02");
  return app;
}

int RunBenchKernels(const BenchKernelsFlags& flags) {
  RooflineOptions options;
  const StatusOr<const Kernels*> kernels = ChooseTable(flags.isa);
  if (!kernels.ok()) return Fail(kernels.status());
  options.kernels = *kernels;
  const StatusOr<std::vector<int>> rows = ParseRows(flags.rows);
  if (!rows.ok()) return Fail(rows.status());
  options.rows = *rows;
  StatusOr<ModelShapes> shapes = ReadShapes(flags.model);
  if (!shapes.ok()) return Fail(shapes.status());
  options.model = *std::move(shapes);
  options.model.attention.kv_type = *KvTypeByName(flags.kv_cache_dtype.c_str());
  // Before the measuring, which takes its time.
  std::ofstream csv;
  if (!flags.csv.empty()) {
    csv.open(flags.csv, std::ios::binary | std::ios::trunc);
    if (!csv) return Fail(fmt::format("--csv: cannot write '{}'", flags.csv));
  }
  options.cpu = CpuName();
  options.threads = flags.threads == 0 ? PhysicalCores() : flags.threads;
  options.rule = {.min_rows_per_worker = kMinRowsPerWorker,
                  .tile_rows = kTileRows,
                  .attention_tile_rows = kAttentionTileRows,
                  .logits_rows = kMaxLogitsRows,
                  .greedy_floats = kLogitsPartFloats,
                  .deferred_pairs = StepPlan::MaxDeferredPairs(options.threads)};
  const auto wanted = [&flags](const char* what) {
    return flags.only.empty() || flags.only == what;
  };
  options.matmul = wanted("matmul");
  options.attention = wanted("attention");
  options.lm_head = wanted("lm-head");
  options.seconds = flags.seconds;
  options.quick = flags.quick;
  // 0: the system does not say.
  const auto available = static_cast<size_t>(AvailableMemoryBytes());
  options.memory = available == 0 ? kMostMemory : std::min(kMostMemory, available / 2);

  const bool show = flags.progress && isatty(STDERR_FILENO) != 0;
  std::function<void(const std::string&, int, int)> progress;
  if (show) progress = ShowProgress;
  const auto results = RunRoofline(options, progress);
  if (show) Note("\r\x1b[K");
  if (!results.ok()) return Fail(results.status());
  if (!flags.csv.empty() && !(csv << FormatCsv(*results) << std::flush)) {
    return Fail(fmt::format("--csv: cannot write '{}'", flags.csv));
  }
  Output output;
  output.Write(FormatReport(*results));
  return output.End();
}

}  // namespace ropeway
