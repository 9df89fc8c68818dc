// Figures as pages of Markdown.
#ifndef ROPEWAY_BENCH_FIGURE_REPORT_H_
#define ROPEWAY_BENCH_FIGURE_REPORT_H_

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
};

// The title, the machine, the dates, and for each part and contestant its rounds and command line.
std::string ReportHead(const std::string& title, const Figures& figures);

// A row for each contestant of `part`: its rounds, and the medians of `columns`; columns of which
// nobody has a figure are left out. "" where the part was not run.
std::string ContestantTable(const Figures& figures, const std::string& part,
                            const std::vector<FigureColumn>& columns);

// A row for each place of `part` where `column.metric` was measured, a column for each contestant;
// column.x is not used. `name`: of the places. "" where nothing was.
std::string PlaceTable(const Figures& figures, const std::string& part, const std::string& name,
                       const FigureColumn& column);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_FIGURE_REPORT_H_
