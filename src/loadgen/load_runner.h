// One run of load: requests, or conversations of several, sent to a server.
#ifndef ROPEWAY_LOADGEN_LOAD_RUNNER_H_
#define ROPEWAY_LOADGEN_LOAD_RUNNER_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "loadgen/summary.h"
#include "net/http_client.h"

namespace ropeway::loadgen {

// Redraws a bar on a terminal; elsewhere prints a line from time to time.
// Thread rule: one thread at a time.
class Progress {
 public:
  // Writes to `out`, which must outlive it.
  Progress(std::FILE* out, bool is_terminal) : out_(out), is_terminal_(is_terminal) {}

  struct State {
    std::string label;
    int total = 0;
    int done = 0;  // Failures included.
    int failed = 0;
    int in_flight = 0;
    double seconds = 0;  // Since the run's start.
  };

  // Seconds between two calls of Show.
  double interval() const { return is_terminal_ ? 0.25 : 5; }
  void Show(const State& state);
  // The last state; the next output begins on a line of its own.
  void End(const State& state);

  static std::string Line(const State& state, int bar_width);

 private:
  std::FILE* const out_;
  const bool is_terminal_;
};

// The turns of a conversation that are sent: [first, end). A plain request is one turn.
struct Turns {
  int first = 0;
  int end = 1;
};

// The requests of a run and their times. The functions are called on the runner's thread when a
// request is sent.
struct LoadPlan {
  int count = 1;                 // Conversations.
  std::vector<double> arrivals;  // Open loop: when each is due, in seconds, rising. Empty: closed.
  int concurrency = 1;           // Conversations in progress at most: in a closed loop the users.
  double timeout = 300;          // Seconds, of each request, from its sending.
  double duration = 0;           // Seconds after which nothing is sent; 0: no limit.
  bool keep_text = false;        // Records get the answers' texts.
  // So often a rejected request (429 or 503) is sent again, each time after its Retry-After.
  int retries = 0;
  // Conversations only: mean seconds before each later message of a user, exponentially
  // distributed, and seconds between the first messages of two users.
  double think_time = 0;
  double user_interval = 0;
  uint64_t seed = 1;  // For the think times.

  std::string path;  // "/completions"
  std::function<Turns(int seq)> turns_of = [](int) { return Turns(); };
  // The request's body. `answers` has the texts of all earlier turns; "" for turns before `first`.
  std::function<std::string(int seq, int turn, const std::vector<std::string>& answers)> body_of;
  std::function<const net::HttpClient*(int seq)> client_of;  // The client outlives the run.
};

// Runs the load on the caller's thread until every request has ended, and returns the records in
// the order in which the requests were sent. A turn that fails ends its conversation. SIGINT and
// SIGTERM end the run at once: requests in flight get http_error::kInterrupted. SIGUSR1 ends it in
// good order: nothing more is sent, and what is in flight is waited for. The handlers of these
// signals are the runner's while it runs; a second SIGINT or SIGTERM ends the process. `progress`
// may be null; `label` names the run in it.
RunResult RunLoad(const LoadPlan& plan, int run_num, Progress* progress, const std::string& label);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_LOAD_RUNNER_H_
