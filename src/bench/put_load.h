// Loads of random prompts of chosen lengths and classes, alone or one beside the other.
#ifndef ROPEWAY_BENCH_PUT_LOAD_H_
#define ROPEWAY_BENCH_PUT_LOAD_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "bench/load_runner.h"
#include "bench/server_probe.h"
#include "bench/summary.h"
#include "net/http_client.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

// One request of a load.
struct Asked {
  int input_tokens = 1;
  int output_tokens = 1;
  std::optional<Priority> priority = {};  // Absent: none is named.
};

// What goes to a server: how many requests, when, and each one's lengths. The prompts are random
// words, and a function of (seed, run_num, seq).
struct Load {
  LoadShape shape;
  std::function<Asked(int seq)> asked;
  uint64_t seed = 1;
  int run_num = 1;  // Loads of one server with different numbers have different prompts.
  double temperature = 0;
  LoadRunner::ClientOf client_of = nullptr;  // Empty: the server's own.
  LoadRunner::BodyOf body_of = nullptr;      // In place of what `asked` and the numbers say.
};

// Where a load goes. What it points to must outlive the load.
struct LoadTarget {
  const HttpClient* client = nullptr;
  const ServerFacts* facts = nullptr;
};

// The body of one request of `load`.
std::string BodyOf(const LoadTarget& target, const Load& load, int seq);

// Blocks until the load is over. Fails where a request failed or Ctrl-C came.
StatusOr<RunResult> PutLoad(const LoadTarget& target, const Load& load);

struct TwoRuns {
  RunResult background;
  RunResult foreground;
  // Seconds from the background's begin to the foreground's.
  double offset() const { return ToSeconds(foreground.begin - background.begin); }
};

// Puts `background`, a closed loop, on the server, and `lead` seconds later `foreground`; when that
// is over the background sends nothing more. Blocks until both are over; fails as PutLoad does.
StatusOr<TwoRuns> PutLoadBeside(const LoadTarget& target, Load background, double lead,
                                const Load& foreground);

// The background alone for `seconds`.
StatusOr<RunResult> PutLoadFor(const LoadTarget& target, Load background, double seconds);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_PUT_LOAD_H_
