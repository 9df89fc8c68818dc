#include "bench/verdict.h"

#include <fmt/format.h>

#include <algorithm>

namespace ropeway {

std::optional<double> Ratio(std::optional<double> a, std::optional<double> b) {
  if (!a || !b || *b == 0) return std::nullopt;
  return *a / *b;
}

std::string VerdictTable(const std::vector<Verdict>& verdicts) {
  std::vector<std::vector<std::string>> rows;
  for (const Verdict& v : verdicts) {
    const std::optional<bool> met = v.met();
    rows.push_back({v.title, fmt::format("{} {:g}", v.at_most ? "<=" : ">=", v.target),
                    v.measured ? fmt::format("{:.3g}", *v.measured) : "not measured", v.how,
                    !met   ? ""
                    : *met ? "yes"
                           : "no"});
  }
  return MarkdownTable({"expected", "target", "measured", "of", "met"}, rows);
}

std::string MarkdownTable(const std::vector<std::string>& head,
                          const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < head.size(); ++i) {
    size_t width = std::max<size_t>(3, head[i].size());
    for (const auto& row : rows) width = std::max(width, row[i].size());
    widths.push_back(width);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (size_t i = 0; i < cells.size(); ++i) text += fmt::format(" {:<{}} |", cells[i], widths[i]);
    return text + "\n";
  };
  std::string text = line(head) + "|";
  for (const size_t width : widths) text += " " + std::string(width, '-') + " |";
  text += "\n";
  for (const auto& row : rows) text += line(row);
  return text;
}

}  // namespace ropeway
