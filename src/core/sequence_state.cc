#include "core/sequence_state.h"

#include <string>

#include "base/check.h"

namespace ropeway::core {
namespace {

using S = SequenceState;
using E = SequenceEvent;

constexpr SequenceTransition kTransitions[] = {
    {S::kWaiting, E::kStart, S::kPrefilling},     {S::kWaiting, E::kFetch, S::kFetching},
    {S::kWaiting, E::kAbort, S::kFinished},       {S::kWaiting, E::kFail, S::kFinished},

    {S::kFetching, E::kFetched, S::kPrefilling},  {S::kFetching, E::kPreempt, S::kPreempted},
    {S::kFetching, E::kAbort, S::kFinished},      {S::kFetching, E::kFail, S::kFinished},

    {S::kPrefilling, E::kCaughtUp, S::kDecoding}, {S::kPrefilling, E::kPreempt, S::kPreempted},
    {S::kPrefilling, E::kEnd, S::kFinished},      {S::kPrefilling, E::kAbort, S::kFinished},
    {S::kPrefilling, E::kFail, S::kFinished},

    {S::kDecoding, E::kPreempt, S::kPreempted},   {S::kDecoding, E::kEnd, S::kFinished},
    {S::kDecoding, E::kAbort, S::kFinished},      {S::kDecoding, E::kFail, S::kFinished},

    {S::kPreempted, E::kResume, S::kPrefilling},  {S::kPreempted, E::kFetch, S::kFetching},
    {S::kPreempted, E::kAbort, S::kFinished},     {S::kPreempted, E::kFail, S::kFinished},
};

}  // namespace

const char* SequenceStateName(SequenceState state) {
  static constexpr const char* kNames[] = {"waiting",  "fetching",  "prefilling",
                                           "decoding", "preempted", "finished"};
  return kNames[static_cast<size_t>(state)];
}

const char* SequenceEventName(SequenceEvent event) {
  static constexpr const char* kNames[] = {"start",  "caught_up", "fetch", "fetched", "preempt",
                                           "resume", "end",       "abort", "fail"};
  return kNames[static_cast<size_t>(event)];
}

std::span<const SequenceTransition> SequenceTransitions() { return kTransitions; }

std::optional<SequenceState> NextState(SequenceState from, SequenceEvent event) {
  for (const SequenceTransition& t : kTransitions) {
    if (t.from == from && t.event == event) return t.to;
  }
  return std::nullopt;
}

void SequenceMover::Move(uint64_t id, SequenceState* state, SequenceEvent event) {
  const std::optional<SequenceState> to = NextState(*state, event);
  if (!to.has_value()) {
    base::Check({StatusCode::kInternal, "illegal move of sequence " + std::to_string(id) + ": " +
                                            SequenceEventName(event) + " while " +
                                            SequenceStateName(*state)});
  }
  ++counts_[static_cast<size_t>(*state)][static_cast<size_t>(event)];
  *state = *to;
}

}  // namespace ropeway::core
