// The content of requests: given or random, and the times of random arrivals.
#ifndef ROPEWAY_LOADGEN_PROMPT_H_
#define ROPEWAY_LOADGEN_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::loadgen {

// Exactly one of text, ids, messages and input_tokens is used.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
  std::string messages;              // A JSON array of chat messages.
  int input_tokens = 0;              // A random prompt of this length stands for it.
  int max_tokens = 0;                // 0: the request names no bound.
  int client = 0;                    // The client that sends it, from 0.
  std::optional<Priority> priority;  // Overrides the load's.
  std::optional<double> arrival;     // Seconds after the run's start at which it is due.

  // As the CSV shows it: the text, or the JSON of ids or messages.
  std::string Shown() const;
};

// What all requests of a load share.
struct RequestShape {
  std::string model;
  bool chat = false;
  bool stream = true;
  bool ignore_eos = false;
  double temperature = 0;
  std::optional<Priority> priority;  // Absent: the field is not sent.
};

// The body of a request. `seed` is sent unless the temperature is 0.
std::string RequestBody(const RequestShape& shape, const Prompt& prompt, uint64_t seed);

// A chat of several turns. Turns before `first_turn` are only history.
struct Conversation {
  struct Turn {
    std::string user;
    std::string assistant;  // What later turns' history says was answered; "": the server's answer.
    int max_tokens = 1;
  };
  std::vector<Turn> turns;
  int first_turn = 0;
};

// The `messages` of the request for the answer to turn `turn`, with `answers` of the earlier turns.
std::string MessagesOf(const Conversation& conversation, int turn,
                       const std::vector<std::string>& answers);

// Makes the prompt of each request as a pure function of (seed, run, seq), so that none is stored.
// Thread rule: const, thread-safe.
class RandomPrompts {
 public:
  // Ids are drawn from here: above the special tokens and below the vocabularies' usual sizes.
  static constexpr int32_t kFirstId = 1000;
  static constexpr int32_t kLastId = 29999;

  // With `as_ids` a prompt is a list of ids, and its length exact. Otherwise it is a text of short
  // common words, which nearly every vocabulary has as one token each; `overhead` tokens of the
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

#endif  // ROPEWAY_LOADGEN_PROMPT_H_
