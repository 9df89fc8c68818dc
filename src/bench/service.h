// Who got how much of a server's work, and when.
#ifndef ROPEWAY_BENCH_SERVICE_H_
#define ROPEWAY_BENCH_SERVICE_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bench/request_record.h"

namespace ropeway {

struct ServiceWeights {
  double input = 1;   // Of a prompt's token that no cache gave.
  double output = 2;  // Of a generated token.
};

// The work that some requests got over time, and when one of them waited. A prompt counts as a
// whole when the answer's first piece comes; the output tokens count with their pieces, in equal
// parts. Requests that failed count nothing. Thread rule: const after Close().
class ServiceTrail {
 public:
  explicit ServiceTrail(const ServiceWeights& weights) : weights_(weights) {}

  // `offset`: seconds from this trail's zero to the begin of the record's run.
  void Add(const RequestRecord& record, double offset = 0);
  // After the last Add.
  void Close();

  // Within (begin, end]. REQUIRES: closed.
  double Between(double begin, double end) const;
  // At each moment of [begin, end] a request had arrived whose first piece had not come.
  // REQUIRES: closed.
  bool WaitedThrough(double begin, double end) const;

 private:
  const ServiceWeights weights_;
  std::vector<std::pair<double, double>> points_;  // Time, and the sum of all up to it.
  std::vector<std::pair<double, double>> waits_;   // Disjoint, rising.
};

// The same of all `records` of one run.
ServiceTrail TrailOf(const std::vector<RequestRecord>& records, const ServiceWeights& weights);

// Work per second of a closed loop while it was full: from a tenth of the time until the last
// request was sent to that moment; of all of it, where all were sent at once.
double SteadyRate(const std::vector<RequestRecord>& records, const ServiceWeights& weights);

struct ServiceGap {
  double largest = 0;  // Between two clients who both waited all through one window.
  double at = 0;       // The middle of that window, in seconds.
  int windows = 0;     // Windows with two such clients; 0: there is no gap to speak of.
};

// Over windows of [t - half, t + half] for t at each second of the run. `clients`: whose request
// each record is, from 0 on. Sheng et al. (OSDI 2024), section 4, bounds it for any window by
// 2 max(input x longest prompt, output x tokens of the running batch).
ServiceGap MeasureServiceGap(const std::vector<RequestRecord>& records,
                             std::span<const int> clients, double half,
                             const ServiceWeights& weights);

// The level L at which clients who ask for `demands` and get min(demand, L) each get `capacity`
// together (max-min fairness); the largest demand where there is enough for all.
double FairShare(std::vector<double> demands, double capacity);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_SERVICE_H_
