// One run of load: who asks when, and what came back.
#ifndef ROPEWAY_BENCH_LOAD_RUNNER_H_
#define ROPEWAY_BENCH_LOAD_RUNNER_H_

#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "bench/progress.h"
#include "bench/summary.h"
#include "net/http_client.h"

namespace ropeway {

struct LoadShape {
  int count = 1;                 // Requests.
  std::vector<double> arrivals;  // Open loop: when each is due, in seconds, rising. Empty: closed.
  int concurrency = 1;           // In flight at most: in a closed loop the users.
  double timeout = 300;          // Seconds, of each request, from its sending.
  bool keep_text = false;        // Of the answers.
  // Once it is asked to stop, a closed loop sends nothing further, and the run ends with the
  // answers that it waits for; `count` is then a bound alone.
  std::stop_token stop = {};
};

// Runs one load on one thread, the caller's.
class LoadRunner {
 public:
  using BodyOf = std::function<std::string(int seq)>;
  using ClientOf = std::function<const HttpClient*(int seq)>;

  // `client` must outlive it, and so must `progress`, which may be null. Each body is made when its
  // request is sent.
  LoadRunner(const HttpClient* client, std::string path, LoadShape shape, BodyOf body_of,
             Progress* progress);

  // Each request goes out by a client of its own (another key): by `client_of(seq)`, which must
  // outlive the run.
  void set_client_of(ClientOf client_of) { client_of_ = std::move(client_of); }

  // Blocks until every request has ended; or, after SIGINT or SIGTERM, until those in flight are
  // broken off, which then have http_error::kInterrupted; those not yet sent are in no record.
  // While it runs the process's handlers of these two signals are its own; a second signal ends the
  // process. `label`: of the progress.
  RunResult Run(int run_num, const std::string& label);

 private:
  const HttpClient* const client_;
  const std::string path_;
  const LoadShape shape_;
  const BodyOf body_of_;
  ClientOf client_of_;  // Empty: client_.
  Progress* const progress_;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_LOAD_RUNNER_H_
