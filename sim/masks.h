// Requests whose output is held to a constraint: which ones, to what, and what their masks take.
#ifndef ROPEWAY_SIM_MASKS_H_
#define ROPEWAY_SIM_MASKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "core/constraint.h"
#include "core/sequence.h"
#include "engine/test_constraint.h"
#include "plant.h"

namespace ropeway::sim {

struct MaskSetup {
  uint64_t seed = 0;
  double share = 0;     // Requests that are held to a constraint ...
  int32_t longest = 1;  // ... of as many tokens, at most, before its end ...
  int group = 1;        // ... which so many ids in a row have in common.
};

// Some seeds have such requests. Drawn by itself, so that the rest of a seed's setup is what it
// would be without.
MaskSetup DrawMasks(uint64_t seed, Plant plant, int32_t longest);

// Gives the request its constraint, if it has one. Drawn by itself, too.
void Constrain(const MaskSetup& setup, core::CoreRequest* request);

// The constraint that Constrain gave; null: none.
inline const engine::TestConstraint* ConstraintOf(const core::CoreRequest& request) {
  return static_cast<const engine::TestConstraint*>(request.constraint.get());
}

// What an output is made of, token by token, where `request` may have a constraint.
class ConstrainedTokens {
 public:
  explicit ConstrainedTokens(const core::CoreRequest& request);

  // The next token, where an executor without masks would sample `free`. Nullopt: there is none,
  // for the output is over, or the mask fails or allows none.
  std::optional<TokenId> Next(TokenId free);

 private:
  std::unique_ptr<core::ConstraintState> state_;  // Null: no constraint.
  std::vector<uint32_t> words_;
};

// Whether an output of `length` tokens that the constraint allows is over.
bool EndsOutput(const engine::TestConstraint& constraint, int32_t length);

// What the state of a request's constraint did.
struct MaskWork {
  enum class Kind : uint8_t {
    kMask,
    kAcceptAgain,  // Of an id that was generated before a preemption, or by another engine.
    kAccept,       // Of the id that was sampled under its mask.
  };
  RequestId request = 0;
  Kind kind = Kind::kMask;
  base::Duration took{};
};

// The constraints as the core gets them: their work takes virtual time, and `plant` is in them.
class SimMasks {
 public:
  // `clock` must outlive it, and it must outlive the constraints.
  SimMasks(base::VirtualClock* clock, Plant plant) : clock_(clock), plant_(plant) {}

  // Takes what Constrain made for the request. Requests of one group have one constraint, as the
  // choices of a request do.
  std::shared_ptr<const core::Constraint> Timed(RequestId request,
                                                std::shared_ptr<const core::Constraint> constraint);

  // The work since the last call, in order.
  std::vector<MaskWork> TakeWork() { return std::exchange(work_, {}); }

 private:
  class Timer;

  base::VirtualClock* const clock_;
  const Plant plant_;
  std::vector<MaskWork> work_;
  std::map<uint64_t, std::shared_ptr<const core::Constraint>> groups_;  // By their seeds.
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_MASKS_H_
