// What was measured, as a table for programs.
#ifndef ROPEWAY_BENCH_KERNELS_CSV_H_
#define ROPEWAY_BENCH_KERNELS_CSV_H_

#include <string>

#include "bench/kernels/results.h"

namespace ropeway {

// A header and one line for each measurement, ended by LF, fields quoted as RFC 4180 has it; what a
// kind of line does not have is empty. docs/benchmarks.md says what each column means.
std::string FormatCsv(const Results& results);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_KERNELS_CSV_H_
