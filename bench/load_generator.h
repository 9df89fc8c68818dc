// A closed-loop load generator for OpenAI-compatible servers: each user asks, reads the whole
// streamed answer, and asks again.
#ifndef ROPEWAY_BENCH_LOAD_GENERATOR_H_
#define ROPEWAY_BENCH_LOAD_GENERATOR_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ropeway::bench {

struct LoadOptions {
  std::string host = "127.0.0.1";
  int port = 8080;
  int users = 16;     // Requests in flight.
  int requests = 64;  // In all; each user takes the next as it becomes free.
  int prompt_tokens = 90;
  int output_tokens = 64;     // Exactly: end tokens are ignored.
  uint64_t seed = 1;          // Of the prompts: random token ids, so that no cache can help.
  int first_token_id = 1000;  // Prompt ids are drawn from [first_token_id, last_token_id].
  int last_token_id = 40000;
};

// One request as the client saw it. Times in seconds.
struct LoadRecord {
  int seq = 0;
  int status = 0;            // HTTP status; 0: no answer.
  std::string error;         // Empty: a whole answer arrived.
  double start = 0;          // After the run's start.
  double ttft = 0;           // To the first chunk with text.
  double latency = 0;        // To the last byte.
  std::vector<double> gaps;  // Between chunks with text.
  int input_tokens = 0;      // As the server counted (usage).
  int output_tokens = 0;
};

struct LoadReport {
  std::vector<LoadRecord> records;  // By seq.
  double wall_seconds = 0;
  double cpu_seconds = 0;  // The generator's own, user and system.
};

// Runs the load with one thread a user. Blocks until all requests ended.
LoadReport RunClosedLoop(const LoadOptions& options);

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_LOAD_GENERATOR_H_
