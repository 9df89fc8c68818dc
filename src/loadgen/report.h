// The summary as text and as JSON.
#ifndef ROPEWAY_LOADGEN_REPORT_H_
#define ROPEWAY_LOADGEN_REPORT_H_

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

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_REPORT_H_
