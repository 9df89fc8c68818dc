// Sequences for the tests of policies.
#ifndef ROPEWAY_POLICY_TEST_SEQUENCES_H_
#define ROPEWAY_POLICY_TEST_SEQUENCES_H_

#include <cstdint>
#include <string>

#include "core/sequence.h"

namespace ropeway::policy {

// A waiting sequence with the given arrival order.
inline core::Sequence WaitingSequence(uint64_t order, int32_t prompt_len = 16,
                                      int32_t max_tokens = 64) {
  core::Sequence sequence;
  sequence.request.id = order + 1;
  sequence.order = sequence.number = order;
  sequence.prompt_len = sequence.length = prompt_len;
  sequence.request.max_tokens = max_tokens;
  return sequence;
}

// A decoding sequence that has generated `generated` tokens.
inline core::Sequence RunningSequence(uint64_t order, int32_t prompt_len = 16,
                                      int32_t max_tokens = 64, int32_t generated = 1) {
  core::Sequence sequence = WaitingSequence(order, prompt_len, max_tokens);
  sequence.state = core::SequenceState::kDecoding;
  sequence.length += generated;
  sequence.computed = sequence.num_ids() - 1;
  return sequence;
}

}  // namespace ropeway::policy

#endif  // ROPEWAY_POLICY_TEST_SEQUENCES_H_
