// The requests of all runs as a table.
#ifndef ROPEWAY_BENCH_CSV_WRITER_H_
#define ROPEWAY_BENCH_CSV_WRITER_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "bench/summary.h"

namespace ropeway {

// Writes a header and one line per request, by run_num and then seq, lines ended by CRLF as RFC
// 4180 has it. What is unknown is empty. `prompt_of(run_num, seq)` is a request's prompt. The
// phases' times are a run's means over `priority`, or over all classes. docs/benchmarks.md says
// what each column means.
void WriteCsv(const std::vector<RunResult>& runs,
              const std::function<std::string(int, int)>& prompt_of,
              std::optional<Priority> priority, std::ostream* out);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_CSV_WRITER_H_
