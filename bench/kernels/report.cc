#include "bench/kernels/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace ropeway {
namespace {

constexpr size_t kLabelWidth = 34;
constexpr size_t kUnitWidth = 8;
constexpr size_t kCellWidth = 7;
// (largest - smallest) / median of a figure's repetitions on a machine that does nothing else.
constexpr double kQuietSpread = 0.25;

// Three digits, as far as the number has them before its point.
std::string Figure(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : (size < 99.95 ? 1 : 0));
}

// One line of a table: what is on its left, what its figures are, and the figures.
std::string Line(const std::string& label, const std::string& unit,
                 const std::vector<std::string>& cells) {
  std::string line = fmt::format("{:<{}}{:<{}}", label, kLabelWidth, unit, kUnitWidth);
  for (const std::string& cell : cells) line += fmt::format("{:>{}}", cell, kCellWidth);
  return line + "\n";
}

template <typename T, typename Fn>
std::vector<std::string> Cells(const std::vector<T>& values, Fn fn) {
  std::vector<std::string> cells;
  cells.reserve(values.size());
  for (const T& value : values) cells.push_back(fn(value));
  return cells;
}

// Runs of neighbours that `same` holds for.
template <typename T, typename Same>
std::vector<std::vector<T>> Runs(const std::vector<T>& values, Same same) {
  std::vector<std::vector<T>> runs;
  for (const T& value : values) {
    if (runs.empty() || !same(runs.back().front(), value)) runs.emplace_back();
    runs.back().push_back(value);
  }
  return runs;
}

std::string Percent(double share) { return fmt::format("{:.0f}%", share * 100); }

std::string Header(const Results& results) {
  const Setting& setting = results.setting;
  const Range barrier = BarrierRange(results);
  const Range spread = SpreadRange(results);
  std::string text = fmt::format(
      "CPU {}; kernels {}; threads {}; barrier {:.0f} ns (mostly {:.0f} to {:.0f})\n"
      "model {}\nrepetitions of a figure differ by {} in the median, mostly by less than {}{}\n",
      setting.cpu, setting.isa, setting.threads, barrier.median, barrier.low, barrier.high,
      setting.model, Percent(spread.median), Percent(spread.high),
      spread.median > kQuietSpread ? ": something else is using this machine" : "");
  if (!setting.cold) {
    text += "quick: few cases, each too short and too small for a figure to be worth anything\n";
  }
  for (const std::string& line : results.left_out) text += "left out: " + line + "\n";
  return text;
}

std::string Peaks(const Results& results) {
  std::string text =
      "\nThe machine's limits (operations: the best repetition; memory: the median)\n";
  for (const PeakResult& peak : results.peaks) {
    const bool sweep = peak.what == "sweep";
    const std::string what =
        sweep ? fmt::format("memory, reading {:.1f} MB", peak.work / 1e6)
              : fmt::format("{} {}", peak.isa,
                            peak.what == "int8" ? "int8 dot product" : "f32 multiply-add");
    text += fmt::format("  {:<32}{} {:<8}{:>8} {}\n", what, peak.threads,
                        peak.threads == 1 ? "thread" : "threads", Figure(peak.per_second() / 1e9),
                        sweep ? "GB/s" : (peak.what == "int8" ? "GOPS" : "GFLOPS"));
  }
  const Range sweep = SweepRange(results);
  text += fmt::format(
      "Shares below are of {} GOPS (i), {} GFLOPS (f), and memory (m) as fast as it was read just "
      "before\neach figure, mostly {} to {} GB/s, but at most 50: the least time that these allow "
      "for the "
      "operations and\nfor the bytes, over the time taken.\n",
      Figure(results.limits.int8_ops / 1e9), Figure(results.limits.f32_ops / 1e9),
      Figure(sweep.low / 1e9), Figure(sweep.high / 1e9));
  return text;
}

std::string ProductLines(const std::vector<MatMulResult>& run, bool per_row) {
  const MatMulShape& shape = run.front().shape;
  std::string text = Line(
      fmt::format("{} {}", shape.label, shape.Size()), "GOPS",
      Cells(run, [](const MatMulResult& r) { return Figure(r.ops() / r.timing.median / 1e9); }));
  const std::string times = shape.count == 1 ? "" : fmt::format(", {} times", shape.count);
  text += Line(fmt::format("  {}{}", WeightTypeName(shape.type), times), "GB/s",
               Cells(run, [](const MatMulResult& r) {
                 return Figure(r.work.bytes / r.timing.median / 1e9);
               }));
  if (per_row) {
    text += Line("", "us/row", Cells(run, [](const MatMulResult& r) {
                   return Figure(r.timing.median / r.rows * 1e6);
                 }));
  }
  return text + Line("", "share",
                     Cells(run, [](const MatMulResult& r) { return FormatShare(r.reached); }));
}

std::string Products(const std::vector<MatMulResult>& results, bool per_row) {
  std::string text;
  const auto same_model = [](const MatMulResult& a, const MatMulResult& b) {
    return a.model == b.model;
  };
  const auto same_shape = [](const MatMulResult& a, const MatMulResult& b) {
    return a.shape.label == b.shape.label && a.shape.type == b.shape.type &&
           a.shape.k == b.shape.k && a.shape.n == b.shape.n;
  };
  for (const std::vector<MatMulResult>& model : Runs(results, same_model)) {
    text += fmt::format("\n{}: {}, {}\n", per_row ? "Logits by vocabulary" : "Matrix products",
                        model.front().model, "packing of the rows included");
    const auto shapes = Runs(model, same_shape);
    const auto longest = std::ranges::max_element(
        shapes, [](const auto& a, const auto& b) { return a.size() < b.size(); });
    text += Line("inputs x outputs", "rows",
                 Cells(*longest, [](const MatMulResult& r) { return fmt::format("{}", r.rows); }));
    for (const std::vector<MatMulResult>& run : shapes) text += ProductLines(run, per_row);
  }
  return text;
}

std::string WeightedTitle(const Results& results, const std::string& model) {
  const auto missing = std::ranges::count(results.products_left_out, model, &ProductLeftOut::model);
  const std::string what =
      missing == 0 ? "All products of a forward pass"
                   : fmt::format("Products of a forward pass without {} left out above", missing);
  return fmt::format("\n{}, weighted by time: {}\n", what, model);
}

// Behind a model's products: all of them together.
std::string Weighted(const Results& results) {
  std::string text;
  const auto same = [](const WeightedShare& a, const WeightedShare& b) {
    return a.model == b.model && a.with_output == b.with_output;
  };
  std::vector<WeightedShare> shares = WeightedShares(results);
  std::ranges::stable_sort(shares, [](const WeightedShare& a, const WeightedShare& b) {
    return a.model == b.model && a.with_output < b.with_output;
  });
  std::string model;
  for (const std::vector<WeightedShare>& run : Runs(shares, same)) {
    if (run.front().model != model) {
      model = run.front().model;
      text += WeightedTitle(results, model);
      text += Line("", "rows",
                   Cells(run, [](const WeightedShare& s) { return fmt::format("{}", s.rows); }));
    }
    text += Line(NameOf(run.front()), "GOPS",
                 Cells(run, [](const WeightedShare& s) { return Figure(s.ops_per_second / 1e9); }));
    text += Line("", "of peak",
                 Cells(run, [](const WeightedShare& s) { return Percent(s.peak_share); }));
    text += Line("", "share",
                 Cells(run, [](const WeightedShare& s) { return Percent(s.bound_share); }));
  }
  return text;
}

std::string Attention(const Results& results) {
  if (results.attention.empty()) return "";
  const AttentionShape& shape = results.attention.front().shape;
  std::string text = fmt::format(
      "\nAttention of one layer: {}, {} KV cache, {} KV heads of {} shared by {} query heads "
      "each\n",
      results.attention.front().model, KvTypeName(shape.kv_type), shape.num_kv_heads,
      shape.head_dim, shape.group);
  std::vector<AttentionResult> sorted = results.attention;
  std::ranges::stable_sort(sorted, [](const AttentionResult& a, const AttentionResult& b) {
    return std::pair(a.problem.rows, a.problem.sequences) <
           std::pair(b.problem.rows, b.problem.sequences);
  });
  const auto same = [](const AttentionResult& a, const AttentionResult& b) {
    return a.problem.rows == b.problem.rows && a.problem.sequences == b.problem.sequences;
  };
  const auto runs = Runs(sorted, same);
  text += Line("", "context", Cells(runs.front(), [](const AttentionResult& r) {
                 return fmt::format("{}", r.problem.context);
               }));
  for (const std::vector<AttentionResult>& run : runs) {
    const AttentionCase& problem = run.front().problem;
    const std::string label = problem.rows == 1
                                  ? fmt::format("decode, {} sequence{}", problem.sequences,
                                                problem.sequences == 1 ? "" : "s")
                                  : fmt::format("prefill, {} rows", problem.rows);
    text += Line(label, "GFLOPS", Cells(run, [](const AttentionResult& r) {
                   return Figure(r.work.f32_ops / r.timing.median / 1e9);
                 }));
    text += Line("", "GB/s", Cells(run, [](const AttentionResult& r) {
                   return Figure(r.work.bytes / r.timing.median / 1e9);
                 }));
    text +=
        Line("", "us",
             Cells(run, [](const AttentionResult& r) { return Figure(r.timing.median * 1e6); }));
    text += Line("", "share",
                 Cells(run, [](const AttentionResult& r) { return FormatShare(r.reached); }));
  }
  return text;
}

}  // namespace

std::string FormatShare(const Reached& reached) {
  return Percent(reached.share) + BoundName(reached.bound)[0];
}

std::string FormatReport(const Results& results) {
  return Header(results) + Peaks(results) + Products(results.products, false) + Weighted(results) +
         Products(results.logits, true) + Attention(results);
}

}  // namespace ropeway
