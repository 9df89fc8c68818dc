// What was measured, as tables for a person.
#ifndef ROPEWAY_BENCH_KERNELS_REPORT_H_
#define ROPEWAY_BENCH_KERNELS_REPORT_H_

#include <string>

#include "bench/kernels/results.h"

namespace ropeway {

// The machine and its limits, then a table for each model, the vocabularies and attention. What was
// not measured has no table.
std::string FormatReport(const Results& results);

// "96%m": a share and, as one letter, what it is of (m memory, i int8, f f32).
std::string FormatShare(const Reached& reached);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_KERNELS_REPORT_H_
