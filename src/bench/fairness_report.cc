#include "bench/fairness_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/figure_report.h"
#include "bench/statistics.h"

namespace ropeway {
namespace {

using namespace fairness;  // NOLINT(google-build-using-namespace): names of this file's subject.

Verdict LightTtft(const Figures& f, const char* part, const char* metric, const char* words) {
  const auto fcfs = f.Median(part, kFcfs, kLight, metric);
  const auto fair = f.Median(part, kFair, kLight, metric);
  const auto count = f.Median(part, kFair, kLight, "requests");
  Verdict verdict;
  verdict.title = fmt::format("{}: light clients' {} TTFT, fcfs over fair", part, words);
  verdict.measured = Ratio(fcfs, fair);
  verdict.target = 10;
  if (fcfs && fair && count) {
    verdict.how = fmt::format("{:.3f} / {:.3f} s, {:.0f} requests{}", *fcfs, *fair, *count,
                              FewSamplesMark(count));
  }
  return verdict;
}

// The median over the pairs: fair over fcfs.
Verdict Throughput(const Figures& f, const char* part, double target) {
  std::vector<double> ratios;
  for (int round = 1; round <= f.Rounds(part, kFair); ++round) {
    const auto ratio = Ratio(f.Value(part, kFair, round, "", "tok_per_s"),
                             f.Value(part, kFcfs, round, "", "tok_per_s"));
    if (ratio) ratios.push_back(*ratio);
  }
  Verdict verdict;
  verdict.title = fmt::format("{}: tokens/s, fair over fcfs", part);
  verdict.target = target;
  if (ratios.empty()) return verdict;
  const Distribution pairs = Describe(ratios);
  verdict.measured = pairs.p50;
  verdict.how = fmt::format("{} pair{}, from {:.4f} to {:.4f}", pairs.count,
                            pairs.count == 1 ? "" : "s", pairs.min, pairs.max);
  if (part == std::string(kMeasured) && pairs.count < kEnoughPairs) {
    verdict.how += fmt::format(" (fewer than {} pairs)", kEnoughPairs);
  }
  return verdict;
}

Verdict Gap(const Figures& f, const char* part) {
  const auto gap = f.Median(part, kFair, "", "service_gap");
  const auto bound = f.Median(part, kFair, "", "gap_bound");
  const auto windows = f.Median(part, kFair, "", "gap_windows");
  const auto fcfs = f.Median(part, kFcfs, "", "service_gap");
  Verdict verdict;
  verdict.title = fmt::format("{}: largest service gap over VTC's bound", part);
  verdict.measured = Ratio(gap, bound);
  verdict.target = 1;
  verdict.at_most = true;
  if (gap && bound && windows) {
    verdict.how = fmt::format("{:.0f} / {:.0f} units, {:.0f} windows", *gap, *bound, *windows);
    if (fcfs) verdict.how += fmt::format("; fcfs {:.0f}", *fcfs);
  }
  return verdict;
}

std::vector<FigureColumn> Columns() {
  return {{"requests", "requests"},
          {"work offered", "offered_work"},
          {"TTFT p50 s", "ttft_p50_s", 1, 3},
          {"TTFT p90 s", "ttft_p90_s", 1, 3},
          {"TTFT p99 s", "ttft_p99_s", 1, 3, "", "requests"},
          {"latency p50 s", "latency_p50_s", 1, 2},
          {"tokens/s", "tok_per_s", 1, 1},
          {"work/s while requests arrive", "work_per_s", 1, 1},
          {"service gap", "service_gap"},
          {"bound", "gap_bound"},
          {"windows of +- s", "gap_half_window_s", 1, 1},
          {"arrivals s", "arrivals_s", 1, 1},
          {"wall s", "wall_s", 1, 1},
          {"preemptions", "preemptions"},
          {"others % of CPUs", "others_cpu_share", 100, 1},
          {"generator % of CPUs", "generator_cpu_share", 100, 2}};
}

}  // namespace

std::vector<Verdict> FairnessVerdicts(const Figures& figures) {
  std::vector<Verdict> verdicts;
  for (const auto& [part, target] : {std::pair(kMeasured, 0.97), std::pair(kSimulated, 0.99)}) {
    if (figures.Contestants(part).empty()) continue;
    verdicts.push_back(LightTtft(figures, part, "ttft_p50_s", "median"));
    verdicts.push_back(LightTtft(figures, part, "ttft_p90_s", "p90"));
    verdicts.push_back(Throughput(figures, part, target));
    verdicts.push_back(Gap(figures, part));
  }
  return verdicts;
}

std::string FairnessReport(const Figures& figures) {
  std::string text = ReportHead("Fair shares of tenants", figures);
  text += VerdictTable(FairnessVerdicts(figures));
  for (const char* part : {kMeasured, kSimulated}) {
    const std::string table = ContestantTable(figures, part, Columns());
    if (table.empty()) continue;
    text += fmt::format("\n## {}\n\n{}\nBy clients:\n\n{}", part, table,
                        PlacesTable(figures, part, "clients", Columns()));
  }
  return text + kFewSamplesNote;
}

}  // namespace ropeway
