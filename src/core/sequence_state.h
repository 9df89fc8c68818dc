// The states of a sequence and every legal move between them, in one table (sequence_state.cc).
//
// clang-format off
// | state      | owner                                        | exit                            | bound                                       |
// | ---------- | -------------------------------------------- | ------------------------------- | ------------------------------------------- |
// | waiting    | the scheduler's queue                        | start, fetch, abort, fail       | those ranked before it; each ends within    |
// |            |                                              |                                 | its max_tokens                              |
// | fetching   | the scheduler's running list; holds all      | fetched, preempt, abort, fail   | the read's time limit                       |
// |            | blocks of its ids, some being read           |                                 |                                             |
// | prefilling | the scheduler's running list; holds all      | caught up, end, preempt, abort, | its ids: at least one is computed per step  |
// |            | blocks of its ids                            | fail                            |                                             |
// | decoding   | the scheduler's running list; holds its      | end, preempt, abort, fail       | max_tokens steps                            |
// |            | blocks                                       |                                 |                                             |
// | preempted  | the scheduler's queue; holds no block, has   | resume, fetch, abort, fail      | as waiting: it keeps its arrival order      |
// |            | claims on cached ones                        |                                 |                                             |
// | finished   | none: destroyed at once                      |                                 |                                             |
// clang-format on
#ifndef ROPEWAY_CORE_SEQUENCE_STATE_H_
#define ROPEWAY_CORE_SEQUENCE_STATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ropeway::core {

enum class SequenceState : uint8_t {
  kWaiting,
  kFetching,
  kPrefilling,
  kDecoding,
  kPreempted,
  kFinished
};
inline constexpr size_t kNumSequenceStates = 6;

enum class SequenceEvent : uint8_t {
  kStart,     // Gets a slot and its blocks for the first time.
  kCaughtUp,  // All its known ids are computed and the next one is sampled.
  kFetch,     // Gets a slot and blocks, and waits for some of them to be read from a tier.
  kFetched,   // The read is over; blocks that it did not bring are computed.
  kPreempt,   // Gives its slot and blocks to another sequence; its ids stay.
  kResume,    // Gets a slot and blocks again; positions no longer cached are computed anew.
  kEnd,       // Sampled an end token or its last allowed token; or its prompt is computed and it
              // wants no token.
  kAbort,     // Ended from outside: a cancel, or a stop string seen by the output side.
  kFail,      // Cannot go on: device lost, deadline over, memory short, or no logits.
};
inline constexpr size_t kNumSequenceEvents = 9;

const char* SequenceStateName(SequenceState state);
const char* SequenceEventName(SequenceEvent event);

// One legal move.
struct SequenceTransition {
  SequenceState from;
  SequenceEvent event;
  SequenceState to;
};

// All legal moves; any other is a bug.
std::span<const SequenceTransition> SequenceTransitions();

// Where `event` leads from `from`; nullopt for an illegal move.
std::optional<SequenceState> NextState(SequenceState from, SequenceEvent event);

// How often each move was made: [state before][event].
using TransitionCounts = std::array<std::array<uint64_t, kNumSequenceEvents>, kNumSequenceStates>;

// Makes the moves and counts them. One per engine core, which owns it.
// Thread rule: the engine thread.
class SequenceMover {
 public:
  // Moves sequence `id` from `*state` by `event`. An illegal move ends the process (base/check.h),
  // in every build: no input can cause one, and the blocks of such a sequence would have no owner.
  void Move(uint64_t id, SequenceState* state, SequenceEvent event);

  const TransitionCounts& counts() const { return counts_; }

 private:
  TransitionCounts counts_{};
};

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_SEQUENCE_STATE_H_
