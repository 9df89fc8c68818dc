#include "bench/replay/step_time.h"

namespace ropeway {

Duration StepTime::OfChunk(int64_t start, int64_t tokens) const {
  // Each token attends to those before it and to itself.
  const int64_t positions = tokens * start + tokens * (tokens + 1) / 2;
  return prefill * tokens + prefill_position * positions;
}

Duration StepTime::OfDecode(int64_t position) const {
  return decode + decode_position * (position + 1);
}

Duration StepTime::OfBatch(const Batch& batch) const {
  Duration cost = step;
  for (const BatchItem& item : batch.items) {
    const auto tokens = static_cast<int64_t>(item.tokens.size());
    cost += tokens == 1 ? OfDecode(item.start) : OfChunk(item.start, tokens);
  }
  return cost;
}

Duration StepTime::OfRequest(int64_t prompt, int64_t cached, int64_t output) const {
  // The first token of the answer comes with the prompt's last step.
  const int64_t decodes = output - 1;
  const int64_t positions = decodes * (prompt + 1) + decodes * (decodes - 1) / 2;
  return OfChunk(cached, prompt - cached) + decode * decodes + decode_position * positions;
}

}  // namespace ropeway
