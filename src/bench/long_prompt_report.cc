#include "bench/long_prompt_report.h"

#include <fmt/format.h>

#include <optional>

#include "bench/figure_report.h"

namespace ropeway {
namespace {

using namespace long_prompt;  // NOLINT(google-build-using-namespace): names of this file's subject.

std::vector<FigureColumn> Columns() {
  return {{"gaps between tokens", "itl_samples"},  // First: all rows have it.
          {"requests", "requests"},
          {"TTFT p50 s", "ttft_p50_s", 1, 3},
          {"TTFT p90 s", "ttft_p90_s", 1, 3},
          {"ITL p50 ms", "itl_p50_s", 1000, 1},
          {"ITL p90 ms", "itl_p90_s", 1000, 1},
          {"ITL p99 ms", "itl_p99_s", 1000, 1, "", "itl_samples"},
          {"prompt tokens each", "prompt_tokens_each"},
          {"output tok/s", "output_tok_per_s", 1, 1},
          {"seconds", "window_s", 1, 1},
          {"others % of CPUs", "others_cpu_share", 100, 1},
          {"generator % of CPUs", "generator_cpu_share", 100, 2}};
}

Verdict Itl(const Figures& f, const std::string& contestant) {
  const auto both = f.Median(kBoth, contestant, kOfStreams, "itl_p99_s");
  const auto alone = f.Median(kStreams, contestant, "", "itl_p99_s");
  const auto samples = f.Median(kBoth, contestant, kOfStreams, "itl_samples");
  Verdict verdict;
  verdict.title = fmt::format("{}: streams' ITL p99 beside long prompts over alone", contestant);
  verdict.measured = Ratio(both, alone);
  verdict.target = 3;
  verdict.at_most = true;
  if (both && alone) {
    verdict.how =
        fmt::format("{:.1f} / {:.1f} ms{}", *both * 1e3, *alone * 1e3, FewSamplesMark(samples));
  }
  return verdict;
}

// The long prompts' times to the first token: beside the streams, and with nothing else.
std::string LongTimes(const Figures& f) {
  std::string text;
  for (const std::string& contestant : f.Contestants(kBoth)) {
    const auto beside = f.Median(kBoth, contestant, kOfLong, "ttft_p50_s");
    const auto alone = f.Median(kIdle, contestant, "", "ttft_p50_s");
    if (!beside || !alone) continue;
    text += fmt::format(
        "- {}: the long prompts' median TTFT is {:.2f} s beside the streams and {:.2f} s on an "
        "idle "
        "engine\n",
        contestant, *beside, *alone);
  }
  return text;
}

}  // namespace

std::vector<Verdict> LongPromptVerdicts(const Figures& figures) {
  std::vector<Verdict> verdicts;
  for (const char* contestant : {kRopeway, kServer}) {
    if (figures.Rounds(kBoth, contestant) > 0) verdicts.push_back(Itl(figures, contestant));
  }
  return verdicts;
}

std::string LongPromptReport(const Figures& figures) {
  std::string text = ReportHead("Long prompts beside streams", figures);
  text += VerdictTable(LongPromptVerdicts(figures));
  if (const std::string times = LongTimes(figures); !times.empty()) text += "\n" + times;
  for (const char* part : {kStreams, kIdle}) {
    const std::string table = ContestantTable(figures, part, Columns());
    if (!table.empty()) text += fmt::format("\n## {}\n\n{}", part, table);
  }
  const std::string both = PlacesTable(figures, kBoth, "of", Columns());
  if (!both.empty()) text += fmt::format("\n## {}\n\n{}", kBoth, both);
  return text + kFewSamplesNote;
}

}  // namespace ropeway
