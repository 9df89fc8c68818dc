#include "bench/kernels/measure_kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "base/worker_team.h"
#include "bench/kernels/attention_bench.h"
#include "bench/kernels/matmul_bench.h"
#include "bench/kernels/peak_bench.h"
#include "bench/kernels/peaks.h"
#include "bench/timing.h"
#include "executor/output_layer.h"

namespace ropeway::bench {
namespace {

// More than the third-level caches of common machines, as in the study that set the goals.
constexpr size_t kRotateBytes = size_t{90} << 20;
constexpr size_t kQuickRotateBytes = size_t{4} << 20;
// Bytes of the sweep before each case, at most: it must not take longer than the case itself.
constexpr size_t kShortSweepBytes = size_t{128} << 20;
// The pool of one attention problem, where less is enough for it.
constexpr size_t kMostPoolBytes = size_t{256} << 20;
constexpr int kPrefillRows = 256;
constexpr int kQuickPrefillRows = 32;
constexpr int kDecodeSequences = 16;

size_t RotateBytes(bool quick) {
  if (quick) return kQuickRotateBytes;
  const auto cache = static_cast<size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  return std::max(kRotateBytes, 2 * cache);
}

class KernelsBench {
 public:
  KernelsBench(const KernelsOptions& options, Rows* rows,
               const std::function<void(const std::string&, int, int)>& progress)
      : options_(options),
        rows_(rows),
        progress_(progress),
        budget_{options.quick ? 0.003 : options.seconds, options.quick ? 3 : 9},
        short_budget_{budget_.seconds / 10, 3},
        rotate_bytes_(RotateBytes(options.quick)),
        team_(options.threads) {}

  Status Run() {
    SetAbout();
    rows_->Add("cpu", options_.cpu);
    rows_->Add("model", options_.model.name);
    rows_->Add("threads", options_.threads);
    rows_->Add("cold", options_.quick ? 0 : 1);
    Plan();
    if (Status status = MeasurePeaks(); !status.ok()) return status;
    for (const auto& [model, shape] : products_) {
      if (Status status = MeasureProducts("matmul", model, shape); !status.ok()) return status;
    }
    for (const auto& [model, shape] : logits_) {
      if (Status status = MeasureProducts("lm-head", model, shape); !status.ok()) return status;
    }
    for (const auto& problem : attention_) {
      if (Status status = MeasureAttention(problem); !status.ok()) return status;
    }
    return {};
  }

 private:
  using Product = std::pair<std::string, MatMulShape>;  // A model's name, and its shape.

  void Plan();
  Status MeasurePeaks();
  void AddPeak(const std::string& table, const char* what, int threads, const Rate& rate);
  Status MeasureSweep();
  void SetAbout() { rows_->SetCell("about", options_.kernels->name, ""); }
  // Notes that `what` needs `bytes` of memory, more than there are for it.
  void LeaveOut(const std::string& what, size_t bytes);
  // What changes while other tenants of the host work, measured just before a case.
  void AddConditions();
  void AddTiming(const Timing& timing, const Work& work);
  Status MeasureProducts(const char* part, const std::string& model, const MatMulShape& shape);
  Status MeasureAttention(const AttentionCase& problem);
  std::vector<int> RowsOf(const MatMulShape& shape) const;
  void Tell(const std::string& what) {
    if (progress_) progress_(what, done_, total_);
    ++done_;
  }

  const KernelsOptions& options_;
  Rows* const rows_;
  const std::function<void(const std::string&, int, int)>& progress_;
  const TimingBudget budget_;
  const TimingBudget short_budget_;
  const size_t rotate_bytes_;
  base::WorkerTeam team_;
  std::optional<MemorySweep> sweep_;
  std::vector<std::string> tables_;  // Those that this CPU can run.
  std::vector<Product> products_;
  std::vector<Product> logits_;
  std::vector<AttentionCase> attention_;
  int done_ = 0;
  int total_ = 0;
};

void KernelsBench::Plan() {
  for (const char* const* name = kTableNames; *name != nullptr; ++name) {
    if (PeakLoopsByName(*name) != nullptr) tables_.emplace_back(*name);
  }
  const ModelShapes& model = options_.model;
  const ModelShapes billion = OneBillionShapes(model.main_type(), model.output.type);
  if (options_.matmul) {
    std::vector<ModelShapes> all = {model};
    if (!options_.quick) {
      all.push_back(billion);
      for (const kernels::WeightType type : options_.types) {
        if (type != model.main_type()) all.push_back(OneBillionShapes(type, type));
      }
    }
    for (const ModelShapes& shapes : all) {
      for (const MatMulShape& shape : shapes.layers) products_.emplace_back(shapes.name, shape);
      products_.emplace_back(shapes.name, shapes.output);
    }
  }
  if (options_.lm_head) {
    std::vector<int> hidden = {model.hidden_size};
    if (billion.hidden_size != model.hidden_size) hidden.push_back(billion.hidden_size);
    for (const int size : hidden) {
      std::vector<MatMulShape> shapes = VocabularyShapes(model.output.type, size);
      if (options_.quick) shapes.resize(2);
      for (const MatMulShape& shape : shapes) {
        logits_.emplace_back(fmt::format("hidden size {}", size), shape);
      }
    }
  }
  if (options_.attention) {
    for (const int context : {128, 1024, 4096, 8192}) {
      if (options_.quick && context > 1024) continue;
      attention_.push_back({1, 1, context});
      attention_.push_back({kDecodeSequences, 1, context});
      attention_.push_back({1, options_.quick ? kQuickPrefillRows : kPrefillRows, context});
    }
  }
  if (options_.rows.front() > executor::kMaxLogitsRows && (options_.matmul || options_.lm_head)) {
    rows_->Add("left_out", fmt::format("products that make logits, which are computed for at most "
                                       "{} rows together",
                                       executor::kMaxLogitsRows));
  }
  total_ =
      static_cast<int>((options_.threads == 1 ? 2 : 4) * tables_.size() + 1 + attention_.size());
  for (const std::vector<Product>* list : {&products_, &logits_}) {
    for (const Product& product : *list) total_ += static_cast<int>(RowsOf(product.second).size());
  }
}

std::vector<int> KernelsBench::RowsOf(const MatMulShape& shape) const {
  std::vector<int> rows;
  for (const int count : options_.rows) {
    if (options_.quick && count != options_.rows.front() && count != 16) continue;
    if (!shape.logits || count <= executor::kMaxLogitsRows) rows.push_back(count);
  }
  return rows;
}

Status KernelsBench::MeasurePeaks() {
  base::WorkerTeam alone(1);
  for (const std::string& table : tables_) {
    const PeakLoops& loops = *PeakLoopsByName(table.c_str());
    for (base::WorkerTeam* team : {&alone, &team_}) {
      if (team == &team_ && options_.threads == 1) continue;
      for (const bool int8 : {true, false}) {
        const char* what = int8 ? "int8" : "f32";
        Tell(fmt::format("peak of {}, {}, threads: {}", table, what, team->size()));
        const Rate rate =
            int8 ? MeasureInt8(loops, team, budget_) : MeasureF32(loops, team, budget_);
        AddPeak(table, what, team->size(), rate);
      }
    }
  }
  return MeasureSweep();
}

void KernelsBench::AddPeak(const std::string& table, const char* what, int threads,
                           const Rate& rate) {
  rows_->SetCell("peak", table, fmt::format("what={}; threads={}", what, threads));
  rows_->Add("work", rate.work);
  rows_->Add("per_second", rate.per_second);
  rows_->Add("barrier_ns", BarrierNanoseconds(&team_));
  AddTiming(rate.timing, {});
}

// Over as much as the model's weights are, or as there is memory for.
Status KernelsBench::MeasureSweep() {
  Tell("memory sweep");
  const PeakLoops& loops = *PeakLoopsByName(options_.kernels->name);
  const size_t wanted = options_.model.weight_bytes();
  const size_t bytes = std::min(wanted, options_.memory);
  if (bytes < wanted) {
    LeaveOut(fmt::format("the memory sweep over all weights (it read {} MB instead)", bytes >> 20),
             wanted);
  }
  {
    const auto sweep = MemorySweep::Make(loops, bytes, &team_);
    if (!sweep.ok()) return sweep.status();
    AddPeak(loops.name, "sweep", options_.threads, sweep->Measure(budget_));
  }
  auto sweep = MemorySweep::Make(loops, std::min(bytes, kShortSweepBytes), &team_);
  if (!sweep.ok()) return sweep.status();
  sweep_.emplace(*std::move(sweep));
  return {};
}

void KernelsBench::LeaveOut(const std::string& what, size_t bytes) {
  SetAbout();
  rows_->Add("left_out", fmt::format("{} needs {} MB of memory, {} are free for it", what,
                                     bytes >> 20, options_.memory >> 20));
}

void KernelsBench::AddConditions() {
  rows_->Add("barrier_ns", BarrierNanoseconds(&team_));
  rows_->Add("sweep_bytes_per_s", sweep_->Measure(short_budget_).per_second);
}

void KernelsBench::AddTiming(const Timing& timing, const Work& work) {
  rows_->Add("repetitions", timing.repetitions);
  rows_->Add("phases", timing.phases);
  rows_->Add("median_us", timing.median * 1e6);
  rows_->Add("min_us", timing.least * 1e6);
  rows_->Add("max_us", timing.most * 1e6);
  if (work.int8_ops > 0) rows_->Add("int8_ops", work.int8_ops);
  if (work.f32_ops > 0) rows_->Add("f32_ops", work.f32_ops);
  if (work.bytes > 0) rows_->Add("bytes", work.bytes);
}

Status KernelsBench::MeasureProducts(const char* part, const std::string& model,
                                     const MatMulShape& shape) {
  const std::vector<int> rows = RowsOf(shape);
  if (rows.empty()) return {};  // Plan has noted it.
  const int most = *std::ranges::max_element(rows);
  const size_t bytes = MatMulBench::MemoryFor(shape, most, rotate_bytes_, options_.threads);
  const std::string cell =
      fmt::format("model={}; name={}; type={}; k={}; n={}; count={}; logits={}", model, shape.label,
                  kernels::WeightTypeName(shape.type), shape.k, fmt::join(shape.n, "+"),
                  shape.count, shape.logits ? 1 : 0);
  if (bytes > options_.memory) {
    done_ += static_cast<int>(rows.size());
    LeaveOut(
        fmt::format("{} {} ({})", shape.label, shape.Size(), kernels::WeightTypeName(shape.type)),
        bytes);
    rows_->SetCell(part, options_.kernels->name, cell);
    rows_->Add("left_out", 1);
    return {};
  }
  auto bench = MatMulBench::Make(shape, most, rotate_bytes_, *options_.kernels, &team_);
  if (!bench.ok()) return bench.status();
  for (const int count : rows) {
    Tell(fmt::format("{} {} {}, {} rows", kernels::WeightTypeName(shape.type), shape.label,
                     shape.Size(), count));
    rows_->SetCell(part, options_.kernels->name, fmt::format("{}; rows={}", cell, count));
    rows_->Add("dealt", (*bench)->ByRows(count) ? "rows" : "columns");
    AddConditions();
    AddTiming((*bench)->Measure(count, budget_), MatMulBench::WorkOf(shape, count));
  }
  return {};
}

Status KernelsBench::MeasureAttention(const AttentionCase& problem) {
  Tell(fmt::format("attention, {} sequences of {} rows, context {}", problem.sequences,
                   problem.rows, problem.context));
  const AttentionShape& shape = options_.model.attention;
  const size_t bytes = AttentionBench::LeastPoolBytes(shape, problem, rotate_bytes_);
  if (bytes > options_.memory) {
    LeaveOut(fmt::format("attention of {} sequences of {} rows, context {},", problem.sequences,
                         problem.rows, problem.context),
             bytes);
    return {};
  }
  auto bench =
      AttentionBench::Make(shape, problem, rotate_bytes_, std::min(options_.memory, kMostPoolBytes),
                           *options_.kernels, &team_);
  if (!bench.ok()) return bench.status();
  rows_->SetCell("attention", options_.kernels->name,
                 fmt::format("model={}; type={}; head_dim={}; kv_heads={}; group={}; rows={}; "
                             "sequences={}; context={}",
                             options_.model.name, kernels::KvTypeName(shape.kv_type),
                             shape.head_dim, shape.num_kv_heads, shape.group, problem.rows,
                             problem.sequences, problem.context));
  AddConditions();
  AddTiming((*bench)->Measure(budget_), AttentionBench::WorkOf(shape, problem));
  return {};
}

}  // namespace

Status MeasureKernels(
    const KernelsOptions& options, Rows* rows,
    const std::function<void(const std::string& what, int done, int total)>& progress) {
  try {
    return KernelsBench(options, rows, progress).Run();
  } catch (const std::exception& e) {  // No memory, or no more threads.
    return Status(StatusCode::kResourceExhausted,
                  std::string("cannot measure the kernels: ") + e.what());
  }
}

}  // namespace ropeway::bench
