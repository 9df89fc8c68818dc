// The requests of all runs as files.
#ifndef ROPEWAY_LOADGEN_CSV_WRITER_H_
#define ROPEWAY_LOADGEN_CSV_WRITER_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "loadgen/summary.h"

namespace ropeway::loadgen {

using PromptOf = std::function<std::string(const RequestRecord& record)>;

// Writes a header and one line per request, by run_num and then seq, lines ended by CRLF as RFC
// 4180 has it. Unknown values are empty. docs/benchmarks.md says what each column means.
void WriteCsv(const std::vector<RunResult>& runs, const PromptOf& prompt_of, std::ostream* out);

// Writes JSON lines: for each run an object with "begin" (of the machine's monotonic clock), then
// one per request with all that is known of it. docs/benchmarks.md lists the members.
void WriteRecords(const std::vector<RunResult>& runs, const PromptOf& prompt_of, std::ostream* out);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_CSV_WRITER_H_
