#include "core/sequence_state.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace ropeway::core {
namespace {

using S = SequenceState;
using E = SequenceEvent;

TEST(SequenceStateTest, TheTableIsTheWholeTruth) {
  // Written a second time, by state, so that a change of the table has to be made twice.
  const std::map<S, std::map<E, S>> expected = {
      {S::kWaiting,
       {{E::kStart, S::kPrefilling},
        {E::kFetch, S::kFetching},
        {E::kAbort, S::kFinished},
        {E::kFail, S::kFinished}}},
      {S::kFetching,
       {{E::kFetched, S::kPrefilling},
        {E::kPreempt, S::kPreempted},
        {E::kAbort, S::kFinished},
        {E::kFail, S::kFinished}}},
      {S::kPrefilling,
       {{E::kCaughtUp, S::kDecoding},
        {E::kPreempt, S::kPreempted},
        {E::kEnd, S::kFinished},
        {E::kAbort, S::kFinished},
        {E::kFail, S::kFinished}}},
      {S::kDecoding,
       {{E::kPreempt, S::kPreempted},
        {E::kEnd, S::kFinished},
        {E::kAbort, S::kFinished},
        {E::kFail, S::kFinished}}},
      {S::kPreempted,
       {{E::kResume, S::kPrefilling},
        {E::kFetch, S::kFetching},
        {E::kAbort, S::kFinished},
        {E::kFail, S::kFinished}}},
      {S::kFinished, {}},
  };
  for (size_t state = 0; state < kNumSequenceStates; ++state) {
    for (size_t event = 0; event < kNumSequenceEvents; ++event) {
      const auto s = static_cast<S>(state);
      const auto e = static_cast<E>(event);
      const auto& moves = expected.at(s);
      const auto it = moves.find(e);
      const auto want = it == moves.end() ? std::nullopt : std::optional<S>(it->second);
      EXPECT_EQ(NextState(s, e), want) << SequenceEventName(e) << " while " << SequenceStateName(s);
    }
  }
}

TEST(SequenceStateTest, EveryStateIsReachedAndEveryOtherThanFinishedIsLeft) {
  std::set<S> reached = {S::kWaiting};
  std::set<S> left;
  std::set<std::pair<S, E>> moves;
  for (const SequenceTransition& t : SequenceTransitions()) {
    reached.insert(t.to);
    left.insert(t.from);
    EXPECT_TRUE(moves.insert({t.from, t.event}).second) << "two rows for one move";
  }
  EXPECT_EQ(reached.size(), kNumSequenceStates);
  EXPECT_EQ(left.size(), kNumSequenceStates - 1);
  EXPECT_FALSE(left.contains(S::kFinished));
}

TEST(SequenceMoverTest, MovesAndCounts) {
  SequenceMover mover;
  S state = S::kWaiting;
  for (E event : {E::kStart, E::kCaughtUp, E::kPreempt, E::kResume, E::kCaughtUp, E::kEnd}) {
    mover.Move(1, &state, event);
  }
  EXPECT_EQ(state, S::kFinished);
  const auto count = [&](S from, E event) {
    return mover.counts()[static_cast<size_t>(from)][static_cast<size_t>(event)];
  };
  EXPECT_EQ(count(S::kPrefilling, E::kCaughtUp), 2U);
  EXPECT_EQ(count(S::kDecoding, E::kEnd), 1U);
  EXPECT_EQ(count(S::kWaiting, E::kAbort), 0U);
}

TEST(SequenceMoverDeathTest, AnIllegalMoveEndsTheProcessAndSaysWhich) {
  SequenceMover mover;
  S state = S::kFinished;
  EXPECT_DEATH(mover.Move(42, &state, E::kStart),
               "illegal move of sequence 42: start while finished");
}

}  // namespace
}  // namespace ropeway::core
