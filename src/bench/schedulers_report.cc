#include "bench/schedulers_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/figure_report.h"

namespace ropeway {
namespace schedulers {

std::string BatchPart(int size) { return fmt::format("batch of {}", size); }
std::string UsersPart(int users) { return fmt::format("{} users", users); }

}  // namespace schedulers

namespace {

using namespace schedulers;  // NOLINT(google-build-using-namespace): names of this file's subject.

constexpr char kRate[] = "output_tok_per_s";
constexpr char kVnni[] = "avx512vnni";

// Of continuous batching over `other`, at `users` that decode together. `target_vnni` is for
// machines with AVX-512 VNNI, `target` for others, where the decode speed grows less with the
// batch.
Verdict Over(const Figures& f, const std::string& part, int users, const char* other,
             double target_vnni, double target) {
  const auto ours = f.Median(part, kContinuous, "", kRate);
  const auto theirs = f.Median(part, other, "", kRate);
  const bool vnni = f.Text(part, kContinuous, "kernels") == kVnni;
  Verdict verdict;
  verdict.title = fmt::format("{}: output tok/s, continuous over {}", part, other);
  verdict.measured = Ratio(ours, theirs);
  verdict.target = vnni ? target_vnni : target;
  if (ours && theirs) verdict.how = fmt::format("{:.1f} / {:.1f} tok/s", *ours, *theirs);
  const auto ceiling =
      Ratio(f.Median(kCeiling, kContinuous, std::to_string(users), "decode_tok_per_s"),
            f.Median(kCeiling, kContinuous, "1", "decode_tok_per_s"));
  if (ceiling) {
    verdict.how += fmt::format("; ceiling {:.2f}: decode speed at {} / at 1", *ceiling, users);
  }
  return verdict;
}

Verdict PlaceShare(const Figures& f, const std::string& part) {
  Verdict verdict;
  verdict.title = fmt::format("{}: share of max_num_seqs used while requests wait", part);
  verdict.measured = f.Median(part, kContinuous, "", "place_share");
  verdict.target = 0.85;
  verdict.how = "continuous, from /metrics";
  return verdict;
}

bool Ran(const Figures& f, const std::string& part) { return !f.Contestants(part).empty(); }

std::vector<FigureColumn> Columns() {
  return {{"requests", "requests"},
          {"failed", "failed"},
          {"output tok/s", kRate, 1, 1},
          {"requests/s", "requests_per_s", 1, 2},
          {"TTFT p50 s", "ttft_p50_s", 1, 3},
          {"TTFT p90 s", "ttft_p90_s", 1, 3},
          {"TTFT p99 s", "ttft_p99_s", 1, 3, "", "requests"},
          {"ITL p50 ms", "itl_p50_s", 1000, 1},
          {"ITL p99 ms", "itl_p99_s", 1000, 1, "", "itl_samples"},
          {"latency p50 s", "latency_p50_s", 1, 3},
          {"latency p99 s", "latency_p99_s", 1, 3, "", "requests"},
          {"batches", "batches"},
          {"batch size", "batch_size", 1, 1},
          {"places used while some wait %", "place_share", 100, 1},
          {"busy %", "busy_share", 100, 1},
          {"rows a step", "rows_per_step", 1, 1},
          {"output tokens", "output_tokens"},
          {"wall s", "wall_s", 1, 1},
          {"others % of CPUs", "others_cpu_share", 100, 1},
          {"generator % of CPUs", "generator_cpu_share", 100, 2}};
}

// Throughput by size: a column for each contestant.
std::string BySize(const Figures& f, const std::vector<std::string>& parts) {
  std::vector<std::string> head = {"part"};
  for (const std::string& part : parts) {
    for (const std::string& contestant : f.Contestants(part)) {
      if (std::find(head.begin(), head.end(), contestant) == head.end()) head.push_back(contestant);
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string& part : parts) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(part);
    for (size_t i = 1; i < head.size(); ++i) {
      const auto rate = f.Median(part, head[i], "", kRate);
      row.push_back(rate ? fmt::format("{:.1f}", *rate) : "");
    }
  }
  return rows.empty() ? "" : MarkdownTable(head, rows);
}

// All parts but the ceiling, in the order in which they first came.
std::vector<std::string> PartsOf(const Figures& f) {
  std::vector<std::string> parts;
  for (const Figure& figure : f.all()) {
    if (figure.part == kAboutPart || figure.part == kCeiling) continue;
    if (std::find(parts.begin(), parts.end(), figure.part) == parts.end()) {
      parts.push_back(figure.part);
    }
  }
  return parts;
}

}  // namespace

std::vector<Verdict> SchedulerVerdicts(const Figures& figures) {
  std::vector<Verdict> verdicts;
  if (const std::string part = BatchPart(16); Ran(figures, part)) {
    verdicts.push_back(Over(figures, part, 16, kPadded, 2.5, 2.5));
    verdicts.push_back(Over(figures, part, 16, kUnpadded, 1.5, 1.5));
    verdicts.push_back(Over(figures, part, 16, kSerial, 2.8, 1.7));
    verdicts.push_back(PlaceShare(figures, part));
  }
  if (Ran(figures, UsersPart(8))) {
    verdicts.push_back(Over(figures, UsersPart(8), 8, kSerial, 2.3, 1.7));
  }
  if (Ran(figures, UsersPart(6))) {
    verdicts.push_back(Over(figures, UsersPart(6), 6, kSerial, 2.0, 1.5));
  }
  return verdicts;
}

std::string SchedulersReport(const Figures& figures) {
  std::string text = ReportHead("Batching strategies", figures);
  text += VerdictTable(SchedulerVerdicts(figures));
  const std::vector<std::string> parts = PartsOf(figures);
  if (const std::string table = BySize(figures, parts); !table.empty()) {
    text += "\n## Output tok/s\n\n" + table;
  }
  const std::string ceiling = PlacesTable(
      figures, kCeiling, "decode together",
      {{"decode tok/s", "decode_tok_per_s", 1, 1}, {"ITL p50 ms", "itl_p50_s", 1000, 2}});
  if (!ceiling.empty()) {
    text += "\n## ceiling: what a batch brings to decoding alone\n\n" + ceiling;
  }
  for (const std::string& part : parts) {
    text += fmt::format("\n## {}\n\n{}", part, ContestantTable(figures, part, Columns()));
  }
  return text + kFewSamplesNote;
}

}  // namespace ropeway
