// `ropeway-bench kernels`: this machine's limits and the kernels beside them, as rows.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/output.h"
#include "bench/bench_flags.h"
#include "bench/commands.h"
#include "bench/kernels/measure_kernels.h"
#include "bench/rows.h"
#include "engine/machine.h"
#include "model/gguf.h"
#include "model/model_tensors.h"

namespace ropeway::bench {
namespace {

constexpr int kMostRows = 4096;
constexpr size_t kMostMemory = size_t{2} << 30;

struct KernelsFlags : BenchFlags {
  std::string isa;   // "": ROPEWAY_ISA, or the best.
  std::string only;  // "": everything.
  std::string rows = "1,2,3,4,6,8,12,16,32,64,128,512";
  std::string types = "Q4_K,Q6_K";
  bool quick = false;
  bool progress = true;
};

StatusOr<ModelShapes> ReadShapes(const KernelsFlags& flags) {
  auto file = OpenModelFile(flags);
  if (!file.ok()) return file.status();
  const StatusOr<model::ModelTensors> tensors = model::BindTensors(**file);
  if (!tensors.ok()) return tensors.status();
  return ShapesOf(*tensors, std::filesystem::path(flags.model).stem().string());
}

// Names of types with commas between; "" is none.
StatusOr<std::vector<kernels::WeightType>> ParseTypes(const std::string& text) {
  std::vector<kernels::WeightType> types;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    const auto* const type = std::ranges::find(
        kernels::kWeightTypes, name,
        [](kernels::WeightType t) { return std::string_view(kernels::WeightTypeName(t)); });
    if (type == std::end(kernels::kWeightTypes)) {
      return InvalidArgument(
          fmt::format("--types: '{}' is no type of weights, such as Q4_K", name));
    }
    types.push_back(*type);
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
  }
  return types;
}

// One line that is written over, on a terminal only.
void ShowProgress(const std::string& what, int done, int total) {
  base::Note(fmt::format("\r\x1b[K[{}/{}] {}", done, total, what));
}

int RunKernels(const KernelsFlags& flags) {
  KernelsOptions options;
  const StatusOr<const kernels::Kernels*> kernels = ChooseTable(flags.isa);
  if (!kernels.ok()) return base::Fail(kernels.status());
  options.kernels = *kernels;
  const StatusOr<std::vector<int>> row_counts = ParseCounts("--rows", flags.rows, kMostRows);
  if (!row_counts.ok()) return base::Fail(row_counts.status());
  options.rows = *row_counts;
  StatusOr<std::vector<kernels::WeightType>> types = ParseTypes(flags.types);
  if (!types.ok()) return base::Fail(types.status());
  options.types = *std::move(types);
  StatusOr<ModelShapes> shapes = ReadShapes(flags);
  if (!shapes.ok()) return base::Fail(shapes.status());
  options.model = *std::move(shapes);
  options.model.attention.kv_type = *kernels::KvTypeByName(flags.kv_cache_dtype.c_str());
  options.cpu = engine::CpuName();
  options.threads = flags.resolved_threads();
  const auto wanted = [&flags](const char* what) {
    return flags.only.empty() || flags.only == what;
  };
  options.matmul = wanted("matmul");
  options.attention = wanted("attention");
  options.lm_head = wanted("lm-head");
  options.seconds = flags.seconds;
  options.quick = flags.quick;
  // 0: the system does not say.
  const auto available = static_cast<size_t>(engine::AvailableMemoryBytes());
  options.memory = available == 0 ? kMostMemory : std::min(kMostMemory, available / 2);

  const bool show = flags.progress && isatty(STDERR_FILENO) != 0;
  std::function<void(const std::string&, int, int)> progress;
  if (show) progress = ShowProgress;
  // Printed whole, so that a run that fails leaves no half of a table.
  std::string text;
  Rows rows([&text](const std::string& lines) { text += lines; });
  const Status status = MeasureKernels(options, &rows, progress);
  if (show) base::Note("\r\x1b[K");
  if (!status.ok()) return base::Fail(status);
  base::Output output;
  output.Write(text);
  return output.End();
}

}  // namespace

flags::Command KernelsCommand() {
  auto flags = std::make_shared<KernelsFlags>();
  flags->seconds = 0.2;
  return {"kernels",
          "Measure this machine's limits, and the kernels beside them",
          {{"Flags", ModelFlags(flags.get(), "Time for each case, about")},
           {"Flags",
            {KvTypeFlag(&flags->kv_cache_dtype),
             {"--isa",
              flags::ChoiceValue(&flags->isa, {"reference", "avx2", "avx512vnni"})
                  .Default("ROPEWAY_ISA, or the best that this CPU can run"),
              "The table of kernels: reference, avx2 or avx512vnni"},
             {"--only",
              flags::ChoiceValue(&flags->only, {"matmul", "attention", "lm-head", "peaks"})
                  .Default("everything"),
              "Beside the limits only this: matmul, attention, lm-head, or peaks for nothing else"},
             {"--rows", flags::TextValue(&flags->rows, "LIST"),
              "Numbers of rows that are multiplied together"},
             {"--types", flags::TextValue(&flags->types, "LIST"),
              "Types of weights in which products of the 1B class are measured too"},
             {"--quick", flags::SwitchValue(&flags->quick),
              "Few and short cases: shows what the output looks like, measures nothing"},
             {"--progress,!--no-progress", flags::SwitchValue(&flags->progress),
              "Show on a terminal what is being measured (the default)"}}}},
          "Run it on a machine that does nothing else. It prints CSV rows; bench/run.py kernels "
          "makes tables "
          "of them\n(docs/benchmarks.md).\n\n"
          "Example:\n  ropeway-bench kernels --only peaks --seconds 0.02",
          [flags] { return RunKernels(*flags); }};
}

}  // namespace ropeway::bench
