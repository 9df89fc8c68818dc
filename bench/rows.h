// The one form in which ropeway-bench prints measurements: CSV rows that bench/'s Python reads.
#ifndef ROPEWAY_BENCH_ROWS_H_
#define ROPEWAY_BENCH_ROWS_H_

#include <functional>
#include <string>
#include <string_view>

#include "base/words.h"

namespace ropeway::bench {

// Writes `part,system,round,x,metric,value`, a header first. The round is always 1;
// callers that repeat a measurement number them. Thread rule: one thread at a time.
class Rows {
 public:
  // `write` receives whole lines.
  explicit Rows(std::function<void(const std::string& text)> write) : write_(std::move(write)) {
    write_("part,system,round,x,metric,value\n");
  }

  // The cell of the rows that follow. `x`: "name=value; name=value" where several things vary.
  void SetCell(std::string_view part, std::string_view system, std::string_view x) {
    cell_ = base::CsvField(part) + "," + base::CsvField(system) + ",1," + base::CsvField(x) + ",";
  }
  void Add(std::string_view metric, std::string_view value) {
    write_(cell_ + base::CsvField(metric) + "," + base::CsvField(value) + "\n");
  }
  void Add(std::string_view metric, double value);  // Six significant digits or more.

 private:
  const std::function<void(const std::string&)> write_;
  std::string cell_;
};

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_ROWS_H_
