// What one seed stands for: the engine's limits, the load and the faults, all drawn from it.
#ifndef ROPEWAY_SIM_SETUP_H_
#define ROPEWAY_SIM_SETUP_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device_profile.h"
#include "engine/engine_core.h"
#include "masks.h"
#include "plant.h"
#include "policy/scheduling_policy.h"

namespace ropeway::sim {

// Fault points, each with its effect:
//   slow_step         the step takes 100 times as long
//   device_lost       the executor fails, once and for all
//   lost_in_need      the executor fails in the step after a preemption
//   short_of_memory   the executor has no memory for a step
//   memory_gone       the executor has none for more steps than the core tries
//   wrong_answer      the executor leaves out a sampled token, which counts as a lost device
//   delayed_inbox     what has arrived is delivered a step later
//   burst             the next requests arrive together
//   clock_jump        an hour passes
//   cancel_at_once    a request is cancelled before its first step
//   cancel_twice      a cancel is delivered twice
//   cancel_at_end     a cancel arrives before the step that would end the request
//   cancel_preempted  a cancel arrives after a preemption
//   cancel_after_end  a cancel arrives after the end
//   cancel_fetching   a cancel arrives while a request waits for the tier
//   jump_fetching     an hour passes while a request waits for the tier
//   duplicate_id      a request with an id in use arrives
//   kill              the process ends without notice and starts again on the same tier; clients
//                     send again what had no end, or go on where it was cut
// The fault points of SimTier come besides.
struct TierSetup {
  bool on = false;
  int32_t blocks = 0;          // It holds.
  int32_t most_pending = 0;    // Blocks it takes before they are flushed.
  base::Duration read_time{};  // Of a block.
};

// What a hostile tenant does; two honest ones are there besides (TenantChecks).
enum class Hostile {
  kNone,
  kMany,      // Many choices of one prompt at once, with long outputs.
  kLong,      // Sequences that fill the pool, not the slots.
  kSampling,  // Sampling that takes longer than all else.
  kFlood,     // Many short requests, sent again at once where they are rejected.
  kEncoding,  // Texts that take long to encode.
  kPrompts,   // Long prompts with short outputs; kBusy's work is prompts too.
};

// Longer than any run.
inline constexpr std::chrono::milliseconds kNoMaxWait = std::chrono::hours(24 * 365);
inline constexpr int64_t kNoMaxQueuedTokens = std::numeric_limits<int64_t>::max();

// First come, first served, without any limit of the queue or of prompts.
engine::EngineCoreOptions PlainCore();

struct Setup {
  uint64_t seed = 0;
  Plant plant = Plant::kNone;
  engine::EngineCoreOptions core = PlainCore();  // Without is_end; see IsEnd.
  int32_t blocks = 0;
  int num_requests = 0;
  // Closed loop: the number of users. Each sends its next request when its last one ended.
  // 0: open loop, requests arrive by the clock whether or not the engine keeps up.
  int users = 0;
  int64_t mean_gap_us = 0;  // Open loop: mean time between two arrivals.
  int32_t longest_prompt = 0;
  int32_t longest_output = 0;
  double cancel_share = 0;    // Requests with a cancel at a random moment.
  double stop_share = 0;      // Requests that the output side ends at a stop string.
  double huge_share = 0;      // Requests that can never fit.
  double deadline_share = 0;  // Requests with a deadline.
  double score_share = 0;     // Requests with prompt log-probs.
  double zero_share = 0;      // Requests that want no token.
  int tenants = 1;            // They share no blocks.
  double turn_share = 0;      // Requests that go on from what an earlier one had.
  MaskSetup masks;
  core::DeviceProfile device;  // As SimExecutor::Init returns it.
  TierSetup tier;
  // Each class always has so many more requests than slots; see SchedulingChecks' shares.
  bool backlog = false;
  Hostile hostile = Hostile::kNone;
  // With a hostile tenant: requests that each tenant has under way; the next one is sent when one
  // ended. What is rejected is sent again after Retry-After, or, by one that does not obey, at
  // once.
  std::array<int, kNumSimTenants> users_of{};
  bool obeys = true;
  std::map<std::string, double> faults;  // Probabilities.
};

Setup MakeSetup(uint64_t seed, Plant plant);

// The setup's policy, or what its plant makes of it.
std::unique_ptr<policy::SchedulingPolicy> MakeSimPolicy(const Setup& setup);

// First come, first served, one step after the other: the order is known from outside.
inline bool InOrderOfArrival(const Setup& setup) {
  const SchedulingOptions& scheduling = setup.core.scheduler;
  return setup.core.queue.policy == "fcfs" && setup.core.queue.max_wait == kNoMaxWait &&
         scheduler::IsContinuous(scheduling) && scheduling.long_prefill_threshold == 0 &&
         scheduling.batch_control.name == "fixed";
}

// One line with all of it.
std::string Describe(const Setup& setup);

// About one token in a hundred ends a sequence.
inline bool IsEnd(TokenId token) { return token % 101 == 7; }

// What sampling a token of such a request takes.
base::Duration SamplingTime(const SamplingParams& params);

// With a hostile tenant: what encoding the request's text takes, and a piece of that, at most.
base::Duration EncodingTime(const Setup& setup, RequestId id);
inline constexpr base::Duration kSimEncodingPiece = std::chrono::milliseconds(1);

// A request as the seed has it. Request k is the same whatever happened before it.
struct SimRequest {
  core::CoreRequest request;
  base::TimePoint at{};  // Open loop.
  bool can_fit = true;
  std::optional<base::Duration> cancel_after;    // After its arrival.
  std::optional<base::Duration> deadline_after;  // After its arrival.
  int32_t stop_after = 0;  // Tokens after which a stop string is complete; 0: none.
};

// The tenant that sends it, whose root its blocks' names have.
int TenantOf(const Setup& setup, RequestId id);
core::BlockName RootOf(int tenant);

// The tokens that TestExecutor generates for the request, up to `count`, wherever it would end.
// With a constraint there may be fewer: up to its end, or to a mask that fails or allows none.
std::vector<TokenId> Generated(const Setup& setup, const core::CoreRequest& request, int64_t count);

// `index` counts from 0; the request's id is index + 1. REQUIRES: open-loop callers ask in order,
// with the time of the one before as `previous`.
SimRequest MakeRequest(const Setup& setup, int index, base::TimePoint previous);

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_SETUP_H_
