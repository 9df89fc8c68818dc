// What a benchmark was expected to show, beside what it showed.
#ifndef ROPEWAY_BENCH_VERDICT_H_
#define ROPEWAY_BENCH_VERDICT_H_

#include <optional>
#include <string>
#include <vector>

namespace ropeway {

struct Verdict {
  std::string title;
  std::optional<double> measured;  // None: not measured, so there is no verdict.
  double target = 0;
  bool at_most = false;  // Less is better.
  std::string how;       // The figures that `measured` was made of.

  std::optional<bool> met() const {
    if (!measured) return std::nullopt;
    return at_most ? *measured <= target : *measured >= target;
  }
};

// a / b; none where one is missing or b is 0.
std::optional<double> Ratio(std::optional<double> a, std::optional<double> b);

// A table in Markdown, a line each: expectation, target, measured, how, met.
std::string VerdictTable(const std::vector<Verdict>& verdicts);

// A table in Markdown whose columns are as wide as they need to be. Each row has as many cells as
// `head`.
std::string MarkdownTable(const std::vector<std::string>& head,
                          const std::vector<std::vector<std::string>>& rows);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_VERDICT_H_
