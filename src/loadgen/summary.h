// The metrics of one run, or of all.
#ifndef ROPEWAY_LOADGEN_SUMMARY_H_
#define ROPEWAY_LOADGEN_SUMMARY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "loadgen/request_record.h"
#include "net/base_url.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::loadgen {

// The p-th quantile, p in [0, 1], of values in rising order, linear between the two nearest: with
// n values the index is h = (n - 1) p, and the result v[floor h] + (h - floor h) (v[floor h + 1] -
// v[floor h]). This is numpy's default ("linear"; Hyndman and Fan 1996, definition 7).
// REQUIRES: values not empty.
double Quantile(const std::vector<double>& sorted, double p);

// The distribution of one metric. All values are 0 if count is 0.
struct Distribution {
  size_t count = 0;
  double mean = 0;
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

Distribution Describe(std::vector<double> values);

// Sums over the requests that ended.
struct ServerMetrics {
  struct Sum {
    double seconds = 0;
    double count = 0;
  };
  std::array<std::array<Sum, kPhases.size()>, kNumPriorities> phases{};  // By class and phase.
  std::optional<double> batches;

  // Mean seconds of a phase for one class; none if no request is counted.
  std::optional<double> Mean(Priority of, size_t phase) const;
  // Requests of this class.
  double Count(Priority of) const;

  void Add(const ServerMetrics& other);
};

// The server's counts since its start, from the text of /metrics; none without such metrics.
std::optional<ServerMetrics> ReadServerMetrics(std::string_view page);

// The increase between two pages; none if one is missing, or the server was restarted meanwhile.
std::optional<ServerMetrics> Between(const std::optional<ServerMetrics>& before,
                                     const std::optional<ServerMetrics>& after);

// The sum of a metric's series whose labels hold `label`; none if `page` has none.
std::optional<double> MetricSum(std::string_view page, std::string_view name,
                                std::string_view label);

// The text of a server's /metrics; "" if it has none. Blocks.
std::string FetchMetrics(const net::BaseUrl& url, const std::string& api_key, bool insecure);

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
  base::TimePoint begin{};  // RealClock's time; `due` counts from here.
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
  Distribution itl;   // Gaps between pieces of text, of all requests together.
  Distribution tpot;  // Per request: (latency - ttft) / (output_tokens - 1), from two tokens on.
  Distribution e2e;
  int64_t good = 0;                 // Requests within all limits.
  int64_t retried = 0;              // Requests that were sent again after a rejection.
  int most_tries = 1;               // The most times that one request was sent.
  Distribution waited_to_promised;  // Retried requests that succeeded: their wait / Retry-After.
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
