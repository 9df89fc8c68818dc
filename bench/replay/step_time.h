// What a device takes for a step, in virtual time.
#ifndef ROPEWAY_BENCH_REPLAY_STEP_TIME_H_
#define ROPEWAY_BENCH_REPLAY_STEP_TIME_H_

#include <cstdint>

#include "base/clock.h"
#include "core/batch.h"

namespace ropeway {

// A straight line: so much for the step, for each sequence that decodes, for each token of a
// prefill chunk, and for each position that one of these attends to. The defaults are those of two
// Zen 4 cores and SmolLM2-135M (docs/performance.md).
struct StepTime {
  Duration step = std::chrono::microseconds(1000);
  Duration decode = std::chrono::microseconds(650);
  Duration decode_position = std::chrono::nanoseconds(750);
  Duration prefill = std::chrono::microseconds(385);
  Duration prefill_position = std::chrono::nanoseconds(240);

  // Of positions [start, start + tokens) of one sequence.
  Duration OfChunk(int64_t start, int64_t tokens) const;
  Duration OfDecode(int64_t position) const;
  Duration OfBatch(const Batch& batch) const;
  // Of a whole request alone, of whose prompt `cached` tokens are there, without the steps' own.
  Duration OfRequest(int64_t prompt, int64_t cached, int64_t output) const;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_REPLAY_STEP_TIME_H_
