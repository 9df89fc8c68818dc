// `ropeway perplexity`: the perplexity of a model on a text.
#ifndef ROPEWAY_CLI_PERPLEXITY_H_
#define ROPEWAY_CLI_PERPLEXITY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "flags/flag.h"

namespace ropeway::cli {

// Tokens [begin, end) of the text are a prompt, whose tokens from `scored` on are scored.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  size_t scored = 0;
};

// Windows of `context` tokens, each `stride` after the one before; the last ends with the text. A
// token is scored once, in the first window that holds it, so each one after the first window has
// at least context - stride tokens before it. The text's first token has none and is not scored.
// REQUIRES: 1 <= stride < context. Empty where the text has fewer than 2 tokens.
std::vector<Window> MakeWindows(size_t tokens, size_t context, size_t stride);

// Perplexity = exp(-mean of the log-probs), and its standard error by the delta method:
// perplexity * (sample standard deviation of the log-probs) / sqrt(count).
class Perplexity {
 public:
  void Add(double logprob);  // Natural logarithm.

  size_t count() const { return count_; }
  double value() const;           // REQUIRES: count() >= 1.
  double standard_error() const;  // 0 for fewer than 2.

 private:
  // Welford's recurrence: no difference of two large sums.
  size_t count_ = 0;
  double mean_ = 0.0;
  double squares_ = 0.0;
};

struct PerplexityFlags {
  PerplexityFlags() { engine.log.level = "warn"; }

  EngineFlags engine;
  std::string file;
  int context = 512;
  int stride = 0;  // 0: half of the context.
};

// The command. `flags` must outlive it.
flags::Command PerplexityCommand(PerplexityFlags* flags);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_PERPLEXITY_H_
