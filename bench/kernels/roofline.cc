#include "bench/kernels/roofline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>

#include "base/barrier_time.h"
#include "kernels/peaks.h"
#include "bench/kernels/attention_bench.h"
#include "bench/kernels/peak_bench.h"

namespace ropeway {
namespace {

// More than the third-level caches of common machines, as in the study that set the goals.
constexpr size_t kRotateBytes = size_t{90} << 20;
constexpr size_t kQuickRotateBytes = size_t{4} << 20;
// Kernels are held against the measured sweep, but at most this (issue 5): a second host placement
// has twice the bandwidth, which two cores cannot use.
constexpr double kMostBytesPerSecond = 50e9;
// Bytes of the sweep before each figure, at most: it must not take longer than the figure itself.
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

class Roofline {
 public:
  Roofline(const RooflineOptions& options,
           const std::function<void(const std::string&, int, int)>& progress)
      : options_(options),
        progress_(progress),
        budget_{options.quick ? 0.003 : options.seconds, options.quick ? 3 : 9},
        short_budget_{budget_.seconds / 10, 3},
        rotate_bytes_(RotateBytes(options.quick)),
        team_(options.threads) {}

  StatusOr<Results> Run() {
    Plan();
    results_.setting = {options_.cpu, options_.kernels->name, options_.model.name, options_.threads,
                        !options_.quick};
    if (Status status = MeasurePeaks(); !status.ok()) return status;
    for (const auto& [model, shape] : products_) {
      const Status status = MeasureProducts(model, shape, &results_.products);
      if (!status.ok()) return status;
    }
    for (const auto& [model, shape] : logits_) {
      const Status status = MeasureProducts(model, shape, &results_.logits);
      if (!status.ok()) return status;
    }
    for (const auto& problem : attention_) {
      if (Status status = MeasureAttention(problem); !status.ok()) return status;
    }
    return std::move(results_);
  }

 private:
  using Product = std::pair<std::string, MatMulShape>;  // A model's name, and its shape.

  void Plan();
  Status MeasurePeaks();
  Status MeasureSweep();
  // Says that `what` needs `bytes` of memory, more than there are for it.
  void LeaveOut(const std::string& what, size_t bytes);
  Conditions MeasureConditions();
  Reached CompareWith(const Conditions& conditions, const Work& work, double seconds) const;
  Status MeasureProducts(const std::string& model, const MatMulShape& shape,
                         std::vector<MatMulResult>* results);
  Status MeasureAttention(const AttentionCase& problem);
  std::vector<int> RowsOf(const MatMulShape& shape) const;
  void Tell(const std::string& what) {
    if (progress_) progress_(what, done_, total_);
    ++done_;
  }

  const RooflineOptions& options_;
  const std::function<void(const std::string&, int, int)>& progress_;
  const TimingBudget budget_;
  const TimingBudget short_budget_;
  const size_t rotate_bytes_;
  WorkerTeam team_;
  std::optional<MemorySweep> sweep_;
  std::vector<std::string> tables_;  // Those that this CPU can run.
  std::vector<Product> products_;
  std::vector<Product> logits_;
  std::vector<AttentionCase> attention_;
  int done_ = 0;
  int total_ = 0;
  Results results_;
};

void Roofline::Plan() {
  for (const char* const* name = kTableNames; *name != nullptr; ++name) {
    if (PeakLoopsByName(*name) != nullptr) tables_.emplace_back(*name);
  }
  const ModelShapes& model = options_.model;
  const ModelShapes billion = OneBillionShapes(model.main_type(), model.output.type);
  if (options_.matmul) {
    for (const ModelShapes* shapes : {&model, &billion}) {
      for (const MatMulShape& shape : shapes->layers) products_.emplace_back(shapes->name, shape);
      products_.emplace_back(shapes->name, shapes->output);
      if (options_.quick) break;
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
  if (options_.rows.front() > options_.rule.logits_rows && (options_.matmul || options_.lm_head)) {
    results_.left_out.push_back(
        fmt::format("products that make logits, which are computed for at most {} rows together",
                    options_.rule.logits_rows));
  }
  total_ =
      static_cast<int>((options_.threads == 1 ? 2 : 4) * tables_.size() + 1 + attention_.size());
  for (const std::vector<Product>* list : {&products_, &logits_}) {
    for (const Product& product : *list) total_ += static_cast<int>(RowsOf(product.second).size());
  }
}

std::vector<int> Roofline::RowsOf(const MatMulShape& shape) const {
  std::vector<int> rows;
  for (const int count : options_.rows) {
    if (options_.quick && count != options_.rows.front() && count != 16) continue;
    if (!shape.logits || count <= options_.rule.logits_rows) rows.push_back(count);
  }
  return rows;
}

Status Roofline::MeasurePeaks() {
  WorkerTeam alone(1);
  for (const std::string& table : tables_) {
    const PeakLoops& loops = *PeakLoopsByName(table.c_str());
    for (WorkerTeam* team : {&alone, &team_}) {
      if (team == &team_ && options_.threads == 1) continue;
      for (const char* what : {"int8", "f32"}) {
        Tell(fmt::format("peak of {}, {}, threads: {}", table, what, team->size()));
        const bool int8 = std::strcmp(what, "int8") == 0;
        const Rate rate =
            int8 ? MeasureInt8(loops, team, budget_) : MeasureF32(loops, team, budget_);
        results_.peaks.push_back(
            {what, table, team->size(), rate.work, rate.timing, BarrierNanoseconds(&team_)});
        if (table != options_.kernels->name || team->size() != options_.threads) continue;
        (int8 ? results_.limits.int8_ops : results_.limits.f32_ops) = rate.per_second;
      }
    }
  }
  return MeasureSweep();
}

// Over as much as the model's weights are, or as there is memory for.
Status Roofline::MeasureSweep() {
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
    const Rate rate = sweep->Measure(budget_);
    results_.peaks.push_back({"sweep", loops.name, options_.threads, rate.work, rate.timing,
                              BarrierNanoseconds(&team_)});
    results_.limits.bytes = std::min(rate.per_second, kMostBytesPerSecond);
  }
  auto sweep = MemorySweep::Make(loops, std::min(bytes, kShortSweepBytes), &team_);
  if (!sweep.ok()) return sweep.status();
  sweep_.emplace(*std::move(sweep));
  return {};
}

void Roofline::LeaveOut(const std::string& what, size_t bytes) {
  results_.left_out.push_back(fmt::format("{} needs {} MB of memory, {} are free for it", what,
                                          bytes >> 20, options_.memory >> 20));
}

Conditions Roofline::MeasureConditions() {
  return {BarrierNanoseconds(&team_), sweep_->Measure(short_budget_).per_second};
}

// The share of the limits at hand, with the memory as fast as it was just before.
Reached Roofline::CompareWith(const Conditions& conditions, const Work& work,
                              double seconds) const {
  Limits limits = results_.limits;
  limits.bytes = std::min(conditions.sweep, kMostBytesPerSecond);
  return Compare(work, seconds, limits);
}

Status Roofline::MeasureProducts(const std::string& model, const MatMulShape& shape,
                                 std::vector<MatMulResult>* results) {
  const std::vector<int> rows = RowsOf(shape);
  if (rows.empty()) return {};  // Plan has said so.
  const int most = *std::ranges::max_element(rows);
  const size_t bytes =
      MatMulBench::MemoryFor(shape, most, rotate_bytes_, options_.rule, options_.threads);
  if (bytes > options_.memory) {
    done_ += static_cast<int>(rows.size());
    LeaveOut(fmt::format("{} {} ({})", shape.label, shape.Size(), WeightTypeName(shape.type)),
             bytes);
    if (results == &results_.products) results_.products_left_out.push_back({model, shape});
    return {};
  }
  auto bench =
      MatMulBench::Make(shape, most, rotate_bytes_, options_.rule, *options_.kernels, &team_);
  if (!bench.ok()) return bench.status();
  for (const int count : rows) {
    Tell(fmt::format("{} {} {}, {} rows", WeightTypeName(shape.type), shape.label, shape.Size(),
                     count));
    MatMulResult result{model, shape, count, (*bench)->ByRows(count), MeasureConditions(),
                        {},    {},    {}};
    result.timing = (*bench)->Measure(count, budget_);
    result.work = MatMulBench::WorkOf(shape, count);
    result.reached = CompareWith(result.conditions, result.work, result.timing.median);
    results->push_back(std::move(result));
  }
  return {};
}

Status Roofline::MeasureAttention(const AttentionCase& problem) {
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
                           options_.rule, *options_.kernels, &team_);
  if (!bench.ok()) return bench.status();
  AttentionResult result{options_.model.name, shape, problem, MeasureConditions(), {}, {}, {}};
  result.timing = (*bench)->Measure(budget_);
  result.work = AttentionBench::WorkOf(shape, problem);
  result.reached = CompareWith(result.conditions, result.work, result.timing.median);
  results_.attention.push_back(std::move(result));
  return {};
}

}  // namespace

StatusOr<Results> RunRoofline(
    const RooflineOptions& options,
    const std::function<void(const std::string& what, int done, int total)>& progress) {
  try {
    return Roofline(options, progress).Run();
  } catch (const std::exception& e) {  // No memory, or no more threads.
    return Status(StatusCode::kResourceExhausted,
                  std::string("cannot measure the kernels: ") + e.what());
  }
}

}  // namespace ropeway
