#include "cli/batch_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropeway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(BatchTracker, ABatchIsDoneWhenALaterOneBeganAndAllOfItEnded) {
  BatchTracker tracker;
  for (const RequestId id : {1, 2}) tracker.OnToken(id);     // Step 5.
  for (const RequestId id : {1, 2, 3}) tracker.OnToken(id);  // Step 6.
  tracker.OnEnd(1, 5);
  EXPECT_THAT(tracker.TakeEnded(), IsEmpty());  // 2 runs on.
  tracker.OnToken(3);                           // Step 7.
  tracker.OnEnd(2, 5);
  EXPECT_THAT(tracker.TakeEnded(), ElementsAre(Pair(5, ElementsAre(1, 2))));
  tracker.OnEnd(3, 6);
  EXPECT_THAT(tracker.TakeEnded(), ElementsAre(Pair(6, ElementsAre(3))));
}

TEST(BatchTracker, ABatchIsNotDoneWhileOthersMayJoinIt) {
  BatchTracker tracker;
  tracker.OnToken(1);
  tracker.OnEnd(1, 5);
  EXPECT_THAT(tracker.TakeEnded(), IsEmpty());
  tracker.OnToken(2);
  tracker.OnEnd(2, 5);
  tracker.OnToken(3);  // Perhaps the same step.
  EXPECT_THAT(tracker.TakeEnded(), IsEmpty());
  tracker.OnToken(3);
  EXPECT_THAT(tracker.TakeEnded(), IsEmpty());  // 3 runs, and may have shared the step.
  tracker.OnEnd(3, 6);
  tracker.Close();
  EXPECT_THAT(tracker.TakeEnded(),
              ElementsAre(Pair(5, ElementsAre(1, 2)), Pair(6, ElementsAre(3))));
}

TEST(BatchTracker, AnOpenGroupThatEndedIsDoneWhenTheNextStepBegins) {
  BatchTracker tracker;
  tracker.OnToken(1);
  tracker.OnToken(2);
  tracker.OnToken(1);  // The next step.
  tracker.OnEnd(1, 5);
  tracker.OnEnd(2, 5);
  EXPECT_THAT(tracker.TakeEnded(), ElementsAre(Pair(5, ElementsAre(1, 2))));
  EXPECT_THAT(tracker.TakeEnded(), IsEmpty());
}

TEST(BatchTracker, RequestsWithoutATokenAreDoneAtOnce) {
  BatchTracker tracker;
  tracker.OnToken(1);
  tracker.OnEnd(2, 0);
  EXPECT_THAT(tracker.TakeEnded(), ElementsAre(Pair(0, ElementsAre(2))));
}

}  // namespace
}  // namespace ropeway
