#include "bench/prefixes_report.h"

#include <fmt/format.h>

#include <optional>

#include "bench/figure_report.h"
#include "bench/queue_growth.h"

namespace ropeway {
namespace {

using namespace prefixes;  // NOLINT(google-build-using-namespace): names of this file's subject.

Verdict RateOver(const Figures& f, const char* other, const char* title, double target) {
  const auto ours = f.Median(kShared, kOn, "", "output_tok_per_s");
  const auto theirs = f.Median(kShared, other, "", "output_tok_per_s");
  Verdict verdict{title, Ratio(ours, theirs), target, false, ""};
  if (ours && theirs) verdict.how = fmt::format("{:.1f} / {:.1f} tok/s", *ours, *theirs);
  return verdict;
}

Verdict PrefilledOnce(const Figures& f) {
  const auto prefilled = f.Median(kShared, kOn, "", "prefilled_tokens");
  const auto bound = f.Median(kShared, kOn, "", "prompt_and_tails_tokens");
  Verdict verdict{"shared prompt: prefilled tokens over one prompt and the tails",
                  Ratio(prefilled, bound), 1, true, ""};
  if (prefilled && bound) verdict.how = fmt::format("{:.0f} / {:.0f} tokens", *prefilled, *bound);
  return verdict;
}

Verdict InfiniteShare(const Figures& f) {
  return {"curves: share of input tokens that a cache without bounds finds",
          f.Median(kCurves, kInfinite, "", "hit_share"), 0.37, false,
          "37.4 % in whole blocks of the trace"};
}

Verdict Growth(const Figures& f, const char* contestant, bool grows) {
  const auto share = f.Median(kSlice, contestant, "", "drain_share");
  Verdict verdict{fmt::format("slice, {}: time to drain over the arrivals' time ({})", contestant,
                              grows ? "the queue grows" : "the queue is stable"),
                  share, grows ? kGrowsFrom : kStableTo, !grows, ""};
  const auto first = f.Median(kSlice, contestant, "1", "in_flight");
  const auto last = f.Median(kSlice, contestant, "4", "in_flight");
  if (first && last) {
    verdict.how = fmt::format("in flight, first and last quarter: {:.1f}, {:.1f}", *first, *last);
  }
  return verdict;
}

std::vector<FigureColumn> SharedColumns() {
  return {{"requests", "requests"},
          {"failed", "failed"},
          {"output tok/s", "output_tok_per_s", 1, 1},
          {"TTFT p50 s", "ttft_p50_s", 1, 3},
          {"TTFT p90 s", "ttft_p90_s", 1, 3},
          {"prompt tokens", "prompt_tokens"},
          {"prefilled", "prefilled_tokens"},
          {"one prompt and the tails", "prompt_and_tails_tokens"},
          {"wall s", "wall_s", 1, 1},
          {"others % of CPUs", "others_cpu_share", 100, 1},
          {"generator % of CPUs", "generator_cpu_share", 100, 2}};
}

std::vector<FigureColumn> SliceColumns() {
  return {{"requests", "requests"},
          {"failed", "failed"},
          {"offered / capacity", "offered_load", 1, 2},
          {"arrivals s", "arrivals_s", 1, 0},
          {"to drain s", "drain_s", 1, 1},
          {"in flight, 1st quarter", "in_flight", 1, 1, "1"},
          {"2nd", "in_flight", 1, 1, "2"},
          {"3rd", "in_flight", 1, 1, "3"},
          {"4th", "in_flight", 1, 1, "4"},
          {"TTFT p50 s", "ttft_p50_s", 1, 3},
          {"TTFT p90 s", "ttft_p90_s", 1, 3},
          {"cached %", "cached_share", 100, 1},
          {"from the pool %", "pool_share", 100, 1},
          {"from disk %", "disk_share", 100, 1},
          {"infinite cache %", "infinite_share", 100, 1},
          {"others % of CPUs", "others_cpu_share", 100, 1}};
}

}  // namespace

std::vector<Verdict> PrefixVerdicts(const Figures& figures) {
  std::vector<Verdict> verdicts;
  if (!figures.Contestants(kShared).empty()) {
    verdicts.push_back(
        RateOver(figures, kLlama, "shared prompt: output tok/s over llama-server", 20));
    verdicts.push_back(
        RateOver(figures, kOff, "shared prompt: output tok/s over the cache off", 5));
    verdicts.push_back(PrefilledOnce(figures));
  }
  if (!figures.Contestants(kCurves).empty()) verdicts.push_back(InfiniteShare(figures));
  if (!figures.Contestants(kSlice).empty()) {
    verdicts.push_back(Growth(figures, kOff, true));
    verdicts.push_back(Growth(figures, kOn, false));
    verdicts.push_back(Growth(figures, kWarm, false));
  }
  return verdicts;
}

std::string PrefixesReport(const Figures& figures) {
  std::string text = ReportHead("Prompts that begin alike", figures);
  text += VerdictTable(PrefixVerdicts(figures));
  const auto section = [&text](const char* title, const std::string& table) {
    if (!table.empty()) text += fmt::format("\n## {}\n\n{}", title, table);
  };
  section("16 users behind one prompt", ContestantTable(figures, kShared, SharedColumns()));
  section("Hit ratio by size of the pool",
          PlaceTable(figures, kCurves, "pool, % of the working set",
                     {"Input tokens that were cached, %:", "hit_share", 100, 1}));
  section("Prefill work saved by size of the pool",
          PlaceTable(figures, kCurves, "pool, % of the working set",
                     {"Time to compute all prompts, by the cost formula, less that of what was "
                      "computed, %:",
                      "saved_share", 100, 1}));
  section("A slice of the trace on the real engine",
          ContestantTable(figures, kSlice, SliceColumns()));
  return text;
}

}  // namespace ropeway
