// `ropeway bench serve`: puts load on any OpenAI-compatible server and reports its latencies and
// throughput. Its flags, as given and checked against each other.
#ifndef ROPEWAY_LOADGEN_LOAD_OPTIONS_H_
#define ROPEWAY_LOADGEN_LOAD_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flags/flag.h"
#include "loadgen/summary.h"
#include "net/base_url.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::loadgen {

// The command's flags as given; RunBenchServe checks them against each other. docs/benchmarks.md.
struct BenchServeFlags {
  std::string base_url = "http://127.0.0.1:8080";
  std::string model;                     // Empty: the first one of /v1/models.
  std::string endpoint = "completions";  // Or "chat".
  std::string api_key;                   // Sent as a bearer token; empty: none.
  std::string client_keys;               // File with the keys of a trace's clients, one a line.
  bool insecure = false;                 // https: accept any certificate.

  int users = 0;            // Closed loop: requests in flight; 0: 1.
  int max_concurrency = 0;  // Requests in flight at most, in either loop; 0: no further bound.
  double request_rate = 0;  // Open loop: arrivals per second; 0: closed loop.
  int num_prompts = 64;     // Requests (or conversations) of one run.
  int runs = 1;
  int warmup = 0;            // Requests before the first run, in no metric.
  double duration = 0;       // Seconds after which a run sends nothing; 0: no limit.
  double think_time = 0;     // Mean seconds before each later message of a conversation.
  double user_interval = 0;  // Seconds between the first messages of two users.

  int input_tokens = 128;      // Length of random prompts.
  int output_tokens = 64;      // Length of each answer, unless the data set says it.
  std::string dataset;         // JSON lines with texts; empty: random prompts.
  std::string trace;           // CSV or JSON lines with lengths and arrivals; empty: none.
  std::string conversations;   // JSON lines with chats of several turns; empty: none.
  double trace_speed = 1;      // The trace's clock runs so many times as fast.
  int max_request_tokens = 0;  // Leaves out longer entries of a trace; 0: as the server says.
  std::string prompt_format = "auto";  // How random prompts are sent: "ids", "text" or "auto".
  std::string ignore_eos = "auto";     // "on", "off", or "auto": on unless there is a data set.
  std::string priority;                // "high", "medium" or "low"; empty: the field is not sent.
  uint64_t seed = 1;
  double temperature = 0;
  bool stream = true;
  double timeout = 300;  // Seconds from sending a request to the end of its answer.
  int retries = 0;       // How often a rejected request is sent again, after Retry-After.

  std::vector<std::string> goodput;  // Such as "ttft:500ms", "tpot:50ms", "e2e:10s".
  std::string csv;                   // Files to write; empty: none.
  std::string json;
  std::string records;
  bool progress = true;
};

// The command; `flags` must outlive it.
flags::Command BenchServeCommand(BenchServeFlags* flags);

// Runs the load and prints the summary to stdout; progress, warnings and errors go to stderr.
// Blocks until all requests ended or Ctrl-C came. Returns the program's exit code: 0 if at least
// one measured request succeeded; 1 if none did, or if a flag or a file is wrong or cannot be
// written. Thread rule: one call at a time in a process: it takes SIGINT, SIGTERM and SIGUSR1 while
// it runs.
int RunBenchServe(const BenchServeFlags& flags);

struct LoadOptions {
  BenchServeFlags flags;  // As given.
  net::BaseUrl url;
  bool chat = false;
  std::optional<bool> prompt_ids;  // None: ask the server.
  bool ignore_eos = true;
  std::optional<Priority> priority;
  GoodputLimits goodput;
};

// kInvalidArgument: one sentence, with the flag's name, on the first flag that is wrong.
// BenchServeCommand checks the bounds of single flags.
StatusOr<LoadOptions> CheckFlags(const BenchServeFlags& flags);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_LOAD_OPTIONS_H_
