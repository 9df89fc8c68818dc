// What one request asks.
#ifndef ROPEWAY_BENCH_PROMPT_H_
#define ROPEWAY_BENCH_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/request.h"

namespace ropeway {

// Exactly one of text, ids and messages is used.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
  std::string messages;  // A JSON array of chat messages.
  int max_tokens = 0;    // 0: the request names no bound.

  // As the CSV shows it: the text, or the JSON of ids or messages.
  std::string Shown() const;
};

// What all requests of a load have in common.
struct RequestShape {
  std::string model;
  bool chat = false;
  bool stream = true;
  bool ignore_eos = false;
  double temperature = 0;
  std::optional<Priority> priority;  // Absent: the field is not sent.
};

// The body of a request. `seed` is sent where the temperature is not 0.
std::string RequestBody(const RequestShape& shape, const Prompt& prompt, uint64_t seed);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_PROMPT_H_
