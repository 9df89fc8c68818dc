// What the scheduler knows of a device before it has measured a step of it.
#ifndef ROPEWAY_CORE_DEVICE_PROFILE_H_
#define ROPEWAY_CORE_DEVICE_PROFILE_H_

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace ropeway::core {

// Returned by Executor::Init. The defaults are a small CPU's, as measured with SmolLM2-135M Q4_1 on
// 2 cores with AVX-512 VNNI (docs/scheduling_notes.md): 224 us for a prompt's token, 650 us for a
// decode among 16, 0.32 us for an attended position. Costs are in units: a unit is a token's work
// without attention (scheduler::StepCost).
struct DeviceProfile {
  // What the chunks of a step may cost beside decodes, above 0 (StepOptions::mixed_prefill_budget).
  // A request that arrives during a step waits for its end, so such steps shall be short; where
  // larger chunks are hardly cheaper per token, that decides.
  int mixed_prefill_budget = 32;
  // Where tenants have names, prompts make a step about this long at most.
  base::Duration longest_step = std::chrono::milliseconds(100);
  // First guesses, until steps tell: what attending to a position costs, and what a decode costs of
  // a prompt's token, as seconds of a unit. A decode is bound by memory and a large chunk is not.
  double attention_weight = 1.0 / 700;
  double decode_ratio = 3.0;
  // How the time of a step grows with its rows. Few rows are bound by memory: `spare` units more
  // cost such a step little; one of fewer than `telling_rows` rows tells nothing of a token's work;
  // and only from `efficient_step` units on the kernels are at full speed (docs/performance.md).
  double spare = 16;
  int32_t telling_rows = 32;
  double efficient_step = 64;
  // By how much a full chunk is faster than a lone decode, in units a second, at most. What is
  // slower is a stall, until several are.
  double speed_range = 32;
  // Tokens that are left of an urgent prompt, at most: a longer rest would delay the decodes by
  // more than it gains (scheduler::UrgentSteps).
  int32_t urgent_prompt = 128;
  // The device's memory that Init has taken. A CPU's weights are not in it: the model has them.
  int64_t memory_bytes = 0;
};

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_DEVICE_PROFILE_H_
