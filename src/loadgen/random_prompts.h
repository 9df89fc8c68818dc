// Random prompts of a given length, which no prefix cache holds.
#ifndef ROPEWAY_LOADGEN_RANDOM_PROMPTS_H_
#define ROPEWAY_LOADGEN_RANDOM_PROMPTS_H_

#include <cstdint>
#include <vector>

#include "loadgen/prompt.h"

namespace ropeway::loadgen {

// Makes the prompt of each request as a pure function of (seed, run, seq), so that none is stored.
// Thread rule: const, thread-safe.
class RandomPrompts {
 public:
  // Ids are drawn from here: above the special tokens and below the vocabularies' usual sizes.
  static constexpr int32_t kFirstId = 1000;
  static constexpr int32_t kLastId = 29999;

  // With `as_ids` a prompt is a list of ids, and its length exact. Otherwise it is a text of short
  // common words, each of which nearly every vocabulary has as one token; `overhead` tokens of the
  // length are the server's own (chat template, begin-of-text), as ProbeServer measured them.
  RandomPrompts(uint64_t seed, bool as_ids, int overhead)
      : seed_(seed), as_ids_(as_ids), overhead_(overhead) {}

  // A prompt of `tokens` tokens (a text has at least one word) without max_tokens.
  // REQUIRES: tokens >= 1.
  Prompt Make(int run_num, int seq, int tokens) const;

 private:
  const uint64_t seed_;
  const bool as_ids_;
  const int overhead_;
};

// Arrival times of `count` requests in seconds: the first at 0, the gaps exponentially distributed
// with mean 1 / rate (a Poisson process), by inversion: -ln(1 - u) / rate. The same seed and run
// give the same times. REQUIRES: rate > 0.
std::vector<double> PoissonArrivals(uint64_t seed, int run_num, int count, double rate);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_RANDOM_PROMPTS_H_
