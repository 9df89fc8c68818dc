// One request as its client saw it.
#ifndef ROPEWAY_LOADGEN_REQUEST_RECORD_H_
#define ROPEWAY_LOADGEN_REQUEST_RECORD_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ropeway::loadgen {

// Why a request failed, beside http_error's kinds and "HTTP <status>": the stream had an error
// event.
inline constexpr char kErrorEvent[] = "error event";

// The phases of a request in a Ropeway server, in order. Answers have `ropeway.<phase>_ms`,
// /metrics the histograms `ropeway_request_<phase>_time_seconds`.
inline constexpr std::array<const char*, 5> kPhases = {"queue", "formation", "prefill", "decode",
                                                       "output"};

// Times are seconds of the monotonic clock. All but `due` count from the moment the request was
// due: in a closed loop when its user became free, in an open loop its arrival, so that waiting
// behind
// --max-concurrency is part of what is measured.
struct RequestRecord {
  int run_num = 0;             // From 1; 0 is the warm-up.
  int seq = 0;                 // From 0, in the order in which they were sent.
  int conversation = 0;        // The entry of the workload that it belongs to: seq without turns.
  int turn = 0;                // Within the conversation.
  int status = 0;              // HTTP status; 0: no answer.
  std::string error_kind;      // Empty: a whole answer arrived.
  std::string error;           // One sentence.
  double due = 0;              // After the run's start.
  double latency = 0;          // To the end of the answer, or to the failure.
  std::optional<double> ttft;  // To the first piece of text; only streams have one.
  std::vector<float> gaps;     // Between pieces of text.
  int64_t input_tokens = 0;    // As the server counted them (usage).
  int64_t output_tokens = 0;
  std::optional<int64_t> cached_tokens;  // Input tokens that it found in a cache, if it says.
  bool estimated = false;  // The server counted nothing: output_tokens is the number of pieces.
  std::optional<int64_t> batch_num;                          // The reply's ropeway.batch_num.
  std::optional<int64_t> batch;                              // ropeway.batch.
  std::optional<int64_t> batch_size;                         // ropeway.batch_size.
  std::array<std::optional<double>, kPhases.size()> phases;  // Seconds in each phase, by the reply.
  int tries = 1;                   // How many times it was sent; all but the last were rejected.
  std::optional<double> promised;  // That time by the first rejection (Retry-After), seconds.
  double waited = 0;               // From the first rejection to the last answer's head.
  std::string output;              // The text, if it is kept.

  bool ok() const { return error_kind.empty(); }
};

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_REQUEST_RECORD_H_
