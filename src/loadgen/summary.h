// The metrics of one run, or of all.
#ifndef ROPEWAY_LOADGEN_SUMMARY_H_
#define ROPEWAY_LOADGEN_SUMMARY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "loadgen/request_record.h"
#include "loadgen/server_metrics.h"
#include "loadgen/statistics.h"
#include "ropeway/status.h"

namespace ropeway::loadgen {

// The limits within which a request counts as good; seconds.
struct GoodputLimits {
  std::optional<double> ttft;
  std::optional<double> tpot;
  std::optional<double> e2e;

  bool any() const { return ttft || tpot || e2e; }
};

// Reads limits such as {"ttft:500ms", "tpot:50ms", "e2e:10s"}; units us, ms, s; ms if there is
// none.
StatusOr<GoodputLimits> ParseGoodput(const std::vector<std::string>& limits);

// The records of one run, and its time and CPU time.
struct RunResult {
  std::vector<RequestRecord> records;  // By seq.
  double wall_seconds = 0;
  double cpu_seconds = 0;   // The generator's own, user and system.
  base::TimePoint begin{};  // Of RealClock; `due` counts from here.
  bool interrupted = false;
  std::optional<ServerMetrics> server;  // If it has them.
};

// Tokens and distributions are of the requests that succeeded. Times in seconds.
struct Summary {
  int64_t succeeded = 0;
  int64_t failed = 0;
  int64_t interrupted = 0;                   // By Ctrl-C: neither of the two.
  std::map<std::string, int64_t> errors;     // Failures by kind.
  std::map<std::string, std::string> first;  // And the first sentence of each kind.
  double wall_seconds = 0;
  double cpu_seconds = 0;
  double cpu_share = 0;  // cpu_seconds / (wall_seconds * the machine's CPUs).
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  int64_t estimated = 0;  // Requests whose tokens the server did not count.
  Distribution input_lengths;
  Distribution output_lengths;
  Distribution ttft;
  Distribution itl;   // Of all gaps between pieces of text, of all requests together.
  Distribution tpot;  // Per request: (latency - ttft) / (output_tokens - 1), from two tokens on.
  Distribution e2e;
  int64_t good = 0;                 // Requests within all limits.
  int64_t retried = 0;              // Requests that were sent again, as a rejection told them,
  int most_tries = 1;               // and how often one of them was sent.
  Distribution waited_to_promised;  // Of those that succeeded: their wait over what they were told.
  std::optional<ServerMetrics> server;

  double PerSecond(int64_t count) const {
    return wall_seconds > 0 ? static_cast<double>(count) / wall_seconds : 0;
  }
};

// A request's time per output token after the first; none for fewer than two tokens or no stream.
std::optional<double> TimePerOutputToken(const RequestRecord& record);

// Puts `runs` together: their times are summed, since they follow each other. `cpus`: the
// machine's.
Summary Summarize(const std::vector<const RunResult*>& runs, const GoodputLimits& limits, int cpus);

// CPUs of this machine.
int MachineCpus();

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_SUMMARY_H_
