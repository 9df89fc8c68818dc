// Figures as pages of Markdown.
#ifndef ROPEWAY_BENCH_FIGURE_REPORT_H_
#define ROPEWAY_BENCH_FIGURE_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/figures.h"
#include "bench/verdict.h"

namespace ropeway {

// The part of figures that say where and when they were measured.
inline constexpr char kAboutPart[] = "about";

struct FigureColumn {
  std::string title;
  std::string metric;
  double factor = 1;
  int decimals = 0;
  std::string x = {};
  // The metric that says of how many samples it is: with fewer than kEnoughSamples it is marked
  // with a star. "": it is not marked.
  std::string samples = {};
};

inline constexpr double kEnoughSamples = 200;
// What the star means; stands below a page's tables.
inline constexpr char kFewSamplesNote[] = "\n\\* of fewer than 200 samples\n";
// A star where `samples` are too few, or not told; else nothing.
std::string FewSamplesMark(std::optional<double> samples);

// The title, the machine, the dates, and for each part and contestant its rounds and command line.
std::string ReportHead(const std::string& title, const Figures& figures);

// A row for each contestant of `part`: its rounds, and the medians of `columns`; columns of which
// nobody has a figure are left out. "" where the part was not run.
std::string ContestantTable(const Figures& figures, const std::string& part,
                            const std::vector<FigureColumn>& columns);

// A row for each place of `part` and contestant where columns[0].metric was measured; column.x is
// not used. `name`: of the places. "" where nothing was.
std::string PlacesTable(const Figures& figures, const std::string& part, const std::string& name,
                        const std::vector<FigureColumn>& columns);

// A row for each place of `part` where `column.metric` was measured, a column for each contestant;
// column.x is not used. `name`: of the places. "" where nothing was.
std::string PlaceTable(const Figures& figures, const std::string& part, const std::string& name,
                       const FigureColumn& column);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_FIGURE_REPORT_H_
