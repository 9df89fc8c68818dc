#include "bench/priorities_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bench/figure_report.h"

namespace ropeway {
namespace {

using namespace priorities;  // NOLINT(google-build-using-namespace): names of this file's subject.

// p99 of the TTFT, in ms, at four fifths of the capacity.
constexpr std::array kOpenLimits = {80.0, 250.0, 450.0};
constexpr double kUrgentLimit = 100;
constexpr double kUrgentMediumLimit = 300;

// Who was measured of our engine.
std::string Ours(const Figures& f) {
  const std::vector<std::string> names = f.Contestants(kOpen);
  return std::find(names.begin(), names.end(), kServer) != names.end() ? kServer : kRopeway;
}

std::string Samples(std::optional<double> count) {
  return count ? fmt::format("{:.0f} samples{}", *count, FewSamplesMark(count)) : "";
}

std::optional<double> Milliseconds(std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  return *seconds * 1000;
}

Verdict Ttft(const Figures& f, const char* part, const char* cls, double limit_ms) {
  const std::string ours = Ours(f);
  Verdict verdict;
  verdict.title = fmt::format("{}: {} TTFT p99, ms", part, cls);
  verdict.measured = Milliseconds(f.Median(part, ours, cls, "ttft_p99_s"));
  verdict.target = limit_ms;
  verdict.at_most = true;
  verdict.how = Samples(f.Median(part, ours, cls, "requests"));
  return verdict;
}

Verdict UrgentTtft(const Figures& f, double factor) {
  const std::string ours = Ours(f);
  const auto unloaded = Milliseconds(f.Median(kUnloaded, ours, "", "ttft_p50_s"));
  const auto step = Milliseconds(f.Median(kAlone, ours, "", "itl_p50_s"));
  double limit = kUrgentLimit * factor;
  std::string how = fmt::format("limit: {:g} ms", limit);
  if (unloaded && step) {
    limit = std::max(limit, *unloaded + 2 * *step);
    how = fmt::format("limit: the larger of {:g} ms and unloaded {:.1f} + 2 steps of {:.1f} ms",
                      kUrgentLimit * factor, *unloaded, *step);
  }
  Verdict verdict = Ttft(f, kUrgent, "high", limit);
  verdict.how += "; " + how;
  return verdict;
}

// `metric` of low alone says what a step of the full batch takes.
Verdict UrgentItl(const Figures& f, const char* metric, const char* words) {
  const std::string ours = Ours(f);
  const auto high = f.Median(kUrgent, ours, "high", "itl_p99_s");
  const auto step = f.Median(kAlone, ours, "", metric);
  Verdict verdict;
  verdict.title = fmt::format("{}: high ITL p99 over {}", kUrgent, words);
  verdict.measured = Ratio(high, step);
  verdict.target = 1.3;
  verdict.at_most = true;
  if (high && step) verdict.how = fmt::format("{:.1f} / {:.1f} ms; ", *high * 1e3, *step * 1e3);
  verdict.how += Samples(f.Median(kUrgent, ours, "high", "itl_samples"));
  return verdict;
}

Verdict Work(const Figures& f) {
  const std::string ours = Ours(f);
  const auto both = f.Median(kUrgent, ours, "", "work_per_s");
  const auto alone = f.Median(kAlone, ours, "", "work_per_s");
  Verdict verdict;
  verdict.title = "low and urgent: work (1 x prompt + 1 x output tokens) over low alone";
  verdict.measured = Ratio(both, alone);
  verdict.target = 0.95;
  if (both && alone) verdict.how = fmt::format("{:.0f} / {:.0f} tokens/s", *both, *alone);
  return verdict;
}

Verdict Recomputed(const Figures& f) {
  const std::string ours = Ours(f);
  Verdict verdict{"low and urgent: tokens recomputed",
                  f.Median(kUrgent, ours, "", "recomputed_tokens"), 0, true, ""};
  if (const auto count = f.Median(kUrgent, ours, "", "preemptions")) {
    verdict.how = fmt::format("{:.0f} preemptions", *count);
  }
  return verdict;
}

Verdict Texts(const Figures& f) {
  const std::string ours = Ours(f);
  Verdict verdict{"low and urgent: texts of paused requests that differ from an unloaded run's",
                  f.Median(kUrgent, ours, "", "texts_different"), 0, true, ""};
  const auto compared = f.Median(kUrgent, ours, "", "texts_compared");
  const auto gap = f.Median(kUrgent, ours, "", "least_longest_gap_s");
  const auto longest = f.Median(kUrgent, ours, "", "longest_gap_s");
  if (compared && gap && longest) {
    verdict.how =
        fmt::format("the {:.0f} with the longest pauses between tokens: {:.2f} to {:.2f} s",
                    *compared, *gap, *longest);
  }
  return verdict;
}

std::vector<FigureColumn> Columns() {
  return {{"requests", "requests"},
          {"TTFT p50 ms", "ttft_p50_s", 1000, 1},
          {"TTFT p90 ms", "ttft_p90_s", 1000, 1},
          {"TTFT p99 ms", "ttft_p99_s", 1000, 1, "", "requests"},
          {"ITL p50 ms", "itl_p50_s", 1000, 1},
          {"ITL p99 ms", "itl_p99_s", 1000, 1, "", "itl_samples"},
          {"latency p50 s", "latency_p50_s", 1, 3},
          {"latency p99 s", "latency_p99_s", 1, 3, "", "requests"},
          {"offered / capacity", "offered_load", 1, 2},
          {"requests/s", "capacity_per_s", 1, 2},
          {"work tokens/s", "work_per_s", 1, 1},
          {"preemptions", "preemptions"},
          {"recomputed", "recomputed_tokens"},
          {"texts compared", "texts_compared"},
          {"different", "texts_different"},
          {"mean step ms", "mean_step_s", 1000, 1},
          {"others % of CPUs", "others_cpu_share", 100, 1},
          {"generator % of CPUs", "generator_cpu_share", 100, 2}};
}

}  // namespace

std::vector<Verdict> PriorityVerdicts(const Figures& figures, double limit_factor) {
  std::vector<Verdict> verdicts;
  if (!figures.Contestants(kOpen).empty()) {
    for (size_t i = 0; i < kOpenLimits.size(); ++i) {
      verdicts.push_back(Ttft(figures, kOpen, kClasses[i], kOpenLimits[i] * limit_factor));
    }
  }
  if (figures.Contestants(kUrgent).empty()) return verdicts;
  verdicts.push_back(UrgentTtft(figures, limit_factor));
  verdicts.push_back(Ttft(figures, kUrgent, "medium", kUrgentMediumLimit * limit_factor));
  verdicts.push_back(
      UrgentItl(figures, "itl_p50_s", "the full batch's decode step (low alone, p50)"));
  verdicts.push_back(
      UrgentItl(figures, "itl_p99_s", "the full batch's step with prompts (low alone, p99)"));
  verdicts.push_back(Work(figures));
  verdicts.push_back(Recomputed(figures));
  verdicts.push_back(Texts(figures));
  return verdicts;
}

std::string PrioritiesReport(const Figures& figures, double limit_factor) {
  std::string text = ReportHead("Classes of priority", figures);
  text += VerdictTable(PriorityVerdicts(figures, limit_factor));
  if (limit_factor != 1) text += fmt::format("\nLimits of TTFT are times {:g}.\n", limit_factor);
  for (const char* part : {kCapacity, kUnloaded, kOpen, kAlone, kUrgent}) {
    const std::string table = ContestantTable(figures, part, Columns());
    if (table.empty()) continue;
    text += fmt::format("\n## {}\n\n", part);
    const std::string classes = PlacesTable(figures, part, "class", Columns());
    text += classes.empty() ? table : classes + "\nAll together:\n\n" + table;
  }
  return text + kFewSamplesNote;
}

}  // namespace ropeway
