// What a benchmark of several parts measured, one figure a line, in a file that later runs go on
// with.
#ifndef ROPEWAY_BENCH_FIGURES_H_
#define ROPEWAY_BENCH_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

#include "ropeway/status.h"

namespace ropeway {

// The columns of the file, in this order.
struct Figure {
  std::string part;        // What was done.
  std::string contestant;  // By whom.
  int round = 1;           // From 1; figures of several rounds are put together by their median.
  std::string x;           // Where on the part's axis: a turn, a size of the pool; often "".
  std::string metric;
  std::string value;  // A number or a text.
};

// Thread rule: one thread at a time.
class Figures {
 public:
  void Add(Figure figure) { all_.push_back(std::move(figure)); }
  void Add(const Figure& where, const std::string& metric, double value);
  void Add(const Figure& where, const std::string& metric, const std::string& value);

  const std::vector<Figure>& all() const { return all_; }

  // Over the rounds; none where there is no such figure.
  std::optional<double> Median(const std::string& part, const std::string& contestant,
                               const std::string& x, const std::string& metric) const;
  // Of one round alone.
  std::optional<double> Value(const std::string& part, const std::string& contestant, int round,
                              const std::string& x, const std::string& metric) const;
  // The last one.
  std::string Text(const std::string& part, const std::string& contestant,
                   const std::string& metric) const;

  // The different values, in the order in which they first came.
  std::vector<std::string> Contestants(const std::string& part) const;
  std::vector<std::string> Places(const std::string& part, const std::string& metric) const;
  // Rounds that the contestant has had; 0: none.
  int Rounds(const std::string& part, const std::string& contestant) const;

  // A header and a line for each figure, quoted as RFC 4180 says.
  std::string Csv() const;
  // Fails with kNotFound, or with kInvalidArgument and the line's number.
  static StatusOr<Figures> ReadCsv(const std::string& path);

 private:
  std::vector<Figure> all_;
};

// A line of CSV as RFC 4180 has it, without the end of the line; nothing where a quote is not
// closed.
std::optional<std::vector<std::string>> SplitCsvLine(const std::string& line);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_FIGURES_H_
