// Planted bugs: what the simulation must catch, to prove that it would see a real one. They sit in
// wrappers around the engine core (its policy, executor and event stream), never in production
// code.
#ifndef ROPEWAY_SIM_PLANT_H_
#define ROPEWAY_SIM_PLANT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine_core.h"
#include "policy/scheduling_policy.h"

namespace ropeway::sim {

enum class Plant {
  kNone,
  kLeak,            // A block is not given back.
  kLost,            // A request never ends.
  kDouble,          // A request ends twice.
  kStarve,          // A waiting request is passed for ever.
  kReorder,         // A later arrival starts first.
  kDiff,            // The text differs after a preemption (in SimExecutor).
  kScoredTwice,     // An id of a prompt is scored twice.
  kDeadlineMissed,  // A deadline is forgotten.
  kEarlyEnd,        // A request ends before its min_tokens.
  kPastStop,        // A request goes on after a stop id.
  kStaleBlock,      // A tier gives another block than it was asked for.
  kClaimLost,       // A preempted sequence loses a claim.
  kSharedTenant,    // Tenants share blocks.
  kPartialName,     // A partial block is named without its length.
  kClassStarved,    // A class goes last whatever its share.
  kShareIgnored,    // Classes have an order and no shares.
  kAgingForgotten,  // The scheduler is not told max_wait, so no request ages.
  kBatchJoined,     // Urgent requests join a running batch without the option.
  kVictimTwice,     // A preempted sequence is the next victim at once.
  kShortRope,       // A sequence keeps the short factors of RoPE, however long it grows.
  kResumedPrompt,   // What another engine generated of a request counts as its prompt.
  kStaleMask,       // A sequence keeps its first mask (in SimMasks).
  kLostConstraint,  // A resumed sequence's constraint begins anew (in SimMasks).
  // Something that a tenant uses is not charged:
  kTurnsForgotten,     // Nothing of kHostile's, so that it never gives way to another tenant.
  kBlocksUncharged,    // The blocks that it holds.
  kSamplingUncharged,  // What its sampling costs.
  kPromptsUncharged,   // What computing its prompts costs.
  kEncodingUncharged,  // What encoding its texts takes (in SimEncoder).
};

const char* PlantName(Plant plant);
// Of all plants, with spaces between.
std::string PlantNames();
std::optional<Plant> ParsePlant(std::string_view name);

// What `plant` makes of the policy.
std::unique_ptr<policy::SchedulingPolicy> PlantIn(Plant plant,
                                                  std::unique_ptr<policy::SchedulingPolicy> policy);

// The requests that plants single out.
inline constexpr RequestId kStarvedId = 4;
inline constexpr RequestId kLostId = 3;

// The tenants of a setup with a hostile one.
inline constexpr int kHostile = 0;
inline constexpr int kLight = 1;
inline constexpr int kBusy = 2;
inline constexpr int kNumSimTenants = 3;

// The request as the core gets it: without what `plant` forgets.
core::CoreRequest Forget(Plant plant, core::CoreRequest request);

// What `plant` makes of the core's events.
void Tamper(Plant plant, std::vector<engine::CoreEvent>* events);

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_PLANT_H_
