// All that a load asks: how many requests, what each says, and when it is due.
#ifndef ROPEWAY_BENCH_WORKLOAD_H_
#define ROPEWAY_BENCH_WORKLOAD_H_

#include <string>
#include <vector>

#include "bench/load_options.h"
#include "bench/random_prompts.h"
#include "bench/server_probe.h"
#include "bench/work_file.h"

namespace ropeway {

// Random prompts, a data set or a trace. Thread rule: const after Open; thread-safe.
class Workload {
 public:
  // Reads the data set or trace, where the options name one.
  static StatusOr<Workload> Open(const LoadOptions& options, const ServerFacts& facts);

  // Requests of one run. A data set is asked from its beginning again when it is shorter than
  // --num-prompts; a trace ends where it ends.
  int count() const { return count_; }
  // When each is due, in seconds after the run's start; empty for a closed loop.
  std::vector<double> Arrivals(int run_num) const;
  // The request's prompt, the same at each call. REQUIRES: 0 <= seq.
  Prompt Make(int run_num, int seq) const;
  // One line for the report: "random prompts of 128 tokens, 64 tokens out".
  std::string Describe() const;

 private:
  Workload(const LoadOptions& options, const ServerFacts& facts)
      : flags_(options.flags),
        random_(flags_.seed, facts.prompt_ids, facts.overhead),
        prompt_ids_(facts.prompt_ids),
        count_(flags_.num_prompts) {}

  BenchServeFlags flags_;
  RandomPrompts random_;
  bool prompt_ids_ = false;
  int count_ = 0;
  std::vector<Prompt> dataset_;
  Trace trace_;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_WORKLOAD_H_
