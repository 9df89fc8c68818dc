// Asks a server one prompt many times, amid other requests.
#ifndef ROPEWAY_BENCH_SAMENESS_SERVER_H_
#define ROPEWAY_BENCH_SAMENESS_SERVER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "bench/answer_tally.h"
#include "ropeway/status.h"

namespace ropeway {

struct SamenessServerOptions {
  std::string base_url;  // As ParseBaseUrl takes it.
  std::string model;     // Empty: the first one of /v1/models.
  std::string api_key;   // Empty: none.
  bool insecure = false;

  std::string prompt;
  int asks = 1;
  int output_tokens = 64;  // Of each ask.
  int concurrency = 16;    // Requests in flight at most.
  double company = 1;      // Other requests per ask, on average.
  uint64_t seed = 1;       // Of the company.
  double timeout = 300;    // Seconds for one ask.
  double max_seconds = 0;  // No ask is begun after so long; 0: no such limit.
};

struct SamenessServerResult {
  std::string model;
  AnswerTally tally;
  int company = 0;  // Other requests sent.
  int left = 0;     // Of these, those that left before their answer was complete, as planned.
  bool ignore_eos = false;  // The server knows the field, so end tokens ended no answer.
};

// Sends the prompt at temperature 0 as a plain completion, first alone, then amid company: random
// texts of 1 to 256 words for 1 to 96 tokens at random temperatures, some of which go away early.
// All in flight at once have a thread and a connection each; pauses of random length make the
// number in flight vary. `on_answer(answered)` is called from those threads, one at a time.
// Blocks. Fails with kUnavailable, and why, if the server is not there or an ask fails three times.
StatusOr<SamenessServerResult> AskServer(const SamenessServerOptions& options,
                                         const std::function<void(int answered)>& on_answer);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_SAMENESS_SERVER_H_
