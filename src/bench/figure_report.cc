#include "bench/figure_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ropeway {
namespace {

std::string Cell(const Figures& figures, const std::string& part, const std::string& contestant,
                 const std::string& x, const FigureColumn& column) {
  const std::optional<double> value = figures.Median(part, contestant, x, column.metric);
  if (!value) return "";
  std::string text = fmt::format("{:.{}f}", *value * column.factor, column.decimals);
  if (column.samples.empty()) return text;
  return text + FewSamplesMark(figures.Median(part, contestant, x, column.samples));
}

// Leaves out the columns from `first` on that are empty in all rows.
std::string TableOfWhatIsThere(std::vector<std::string> head,
                               std::vector<std::vector<std::string>> rows, size_t first) {
  for (size_t i = head.size(); i-- > first;) {
    if (!std::all_of(rows.begin(), rows.end(), [i](const auto& row) { return row[i].empty(); })) {
      continue;
    }
    head.erase(head.begin() + static_cast<long>(i));
    for (auto& row : rows) row.erase(row.begin() + static_cast<long>(i));
  }
  return rows.empty() ? "" : MarkdownTable(head, rows);
}

std::vector<std::string> Parts(const Figures& figures) {
  std::vector<std::string> parts;
  for (const Figure& f : figures.all()) {
    if (f.part == kAboutPart) continue;
    if (std::find(parts.begin(), parts.end(), f.part) == parts.end()) parts.push_back(f.part);
  }
  return parts;
}

std::vector<std::string> AboutTexts(const Figures& figures, const std::string& metric) {
  std::vector<std::string> texts;
  for (const Figure& f : figures.all()) {
    if (f.part != kAboutPart || f.metric != metric) continue;
    if (std::find(texts.begin(), texts.end(), f.value) == texts.end()) texts.push_back(f.value);
  }
  return texts;
}

// The places of any of the columns, each once; not those without a name.
std::vector<std::string> PlacesOf(const Figures& figures, const std::string& part,
                                  const std::vector<FigureColumn>& columns) {
  std::vector<std::string> places;
  for (const FigureColumn& column : columns) {
    for (const std::string& x : figures.Places(part, column.metric)) {
      if (x.empty() || std::find(places.begin(), places.end(), x) != places.end()) continue;
      places.push_back(x);
    }
  }
  return places;
}

}  // namespace

std::string FewSamplesMark(std::optional<double> samples) {
  return samples && *samples >= kEnoughSamples ? "" : " *";
}

std::string ReportHead(const std::string& title, const Figures& figures) {
  std::string text = "# " + title + "\n\n";
  for (const char* metric : {"date", "machine", "version"}) {
    for (const std::string& value : AboutTexts(figures, metric)) {
      text += fmt::format("- {}: {}\n", metric, value);
    }
  }
  for (const std::string& part : Parts(figures)) {
    for (const std::string& contestant : figures.Contestants(part)) {
      const int rounds = figures.Rounds(part, contestant);
      text += fmt::format("- {}, {}, {} round{}", part, contestant, rounds, rounds == 1 ? "" : "s");
      const std::string command = figures.Text(part, contestant, "command");
      if (!command.empty()) text += fmt::format(": `{}`", command);
      const std::string load = figures.Text(part, contestant, "load");
      if (!load.empty()) text += "; " + load;
      text += "\n";
    }
  }
  return text + "\n";
}

std::string ContestantTable(const Figures& figures, const std::string& part,
                            const std::vector<FigureColumn>& columns) {
  const std::vector<std::string> contestants = figures.Contestants(part);
  std::vector<std::string> head = {"contestant"};
  for (const FigureColumn& column : columns) head.push_back(column.title);
  std::vector<std::vector<std::string>> rows;
  for (const std::string& contestant : contestants) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(contestant);
    for (const FigureColumn& column : columns) {
      row.push_back(Cell(figures, part, contestant, column.x, column));
    }
  }
  return TableOfWhatIsThere(std::move(head), std::move(rows), 1);
}

std::string PlacesTable(const Figures& figures, const std::string& part, const std::string& name,
                        const std::vector<FigureColumn>& columns) {
  std::vector<std::string> head = {"contestant", name};
  for (const FigureColumn& column : columns) head.push_back(column.title);
  std::vector<std::vector<std::string>> rows;
  const std::vector<std::string> places = PlacesOf(figures, part, columns);
  for (const std::string& contestant : figures.Contestants(part)) {
    for (const std::string& x : places) {
      const bool any = std::any_of(columns.begin(), columns.end(), [&](const FigureColumn& column) {
        return figures.Median(part, contestant, x, column.metric).has_value();
      });
      if (!any) continue;
      std::vector<std::string>& row = rows.emplace_back();
      row = {contestant, x};
      for (const FigureColumn& column : columns) {
        row.push_back(Cell(figures, part, contestant, x, column));
      }
    }
  }
  return TableOfWhatIsThere(std::move(head), std::move(rows), 2);
}

std::string PlaceTable(const Figures& figures, const std::string& part, const std::string& name,
                       const FigureColumn& column) {
  std::vector<std::string> head = {name};
  for (const std::string& contestant : figures.Contestants(part)) head.push_back(contestant);
  std::vector<std::vector<std::string>> rows;
  for (const std::string& x : figures.Places(part, column.metric)) {
    if (x.empty()) continue;
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(x);
    for (size_t i = 1; i < head.size(); ++i) row.push_back(Cell(figures, part, head[i], x, column));
  }
  return rows.empty() ? "" : column.title + "\n\n" + MarkdownTable(head, rows);
}

}  // namespace ropeway
