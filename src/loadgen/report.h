// What a run leaves behind: its summary as text and as JSON, and its requests as CSV and JSON
// lines.
#ifndef ROPEWAY_LOADGEN_REPORT_H_
#define ROPEWAY_LOADGEN_REPORT_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "loadgen/summary.h"

namespace ropeway::loadgen {

// The content of a summary.
struct Report {
  std::string url;
  std::string endpoint;
  std::string model;
  std::string load;    // "closed loop, 16 users".
  std::string work;    // The workload, as Workload::Describe says.
  std::string answer;  // "streamed, end tokens ignored, temperature 0".
  std::vector<std::string> notes;
  GoodputLimits goodput;
  Summary all;
  std::vector<Summary> runs;
  int cpus = 1;
};

// Above this share of the CPUs the generator slows down a server on the same machine.
inline constexpr double kMaxCpuShare = 0.05;

// Several lines of text.
std::string ReportText(const Report& report);
// One JSON object; docs/benchmarks.md names its members.
std::string ReportJson(const Report& report);

// The requests of all runs as files.
using PromptOf = std::function<std::string(const RequestRecord& record)>;

// Writes a header and one line per request, by run_num and then seq, lines ended by CRLF as RFC
// 4180 has it. Unknown values are empty. docs/benchmarks.md says what each column means.
void WriteCsv(const std::vector<RunResult>& runs, const PromptOf& prompt_of, std::ostream* out);

// Writes JSON lines: for each run an object with "begin" (of the machine's monotonic clock), then
// one per request with all that is known of it. docs/benchmarks.md lists the members.
void WriteRecords(const std::vector<RunResult>& runs, const PromptOf& prompt_of, std::ostream* out);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_REPORT_H_
