#include "server/answer_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/run_inbox.h"

namespace ropeway::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class AnswerQueueTest : public testing::Test {
 protected:
  // A run tells the inbox, which it keeps, of itself.
  ~AnswerQueueTest() override { inbox_->Close(); }

  std::shared_ptr<StoredRun> Run(const std::string& id, const std::string& tenant = "t",
                                 Priority priority = Priority::kLow) {
    auto request = std::make_shared<StoredRequest>();
    request->id = id;
    request->tenant = tenant;
    request->head.priority = priority;
    request->background = true;
    StoredRun::Parts parts;
    parts.inbox = inbox_;
    return std::make_shared<StoredRun>(std::move(request), 1, std::move(parts));
  }

  void Add(const std::shared_ptr<StoredRun>& run) {
    WaitingAnswer waiting;
    waiting.run = run;
    queue_.Add(std::move(waiting));
  }

  std::vector<std::string> TakeDue() {
    std::vector<std::string> ids;
    for (const WaitingAnswer& waiting : queue_.TakeDue(now_)) {
      ids.push_back(waiting.run->request().id);
      given_.push_back(waiting.run);
      waiting.run->SetIds({0}, {7});
    }
    return ids;
  }

  // What the backend says of a run that it was given.
  static void Admit(const std::shared_ptr<StoredRun>& run) {
    run->MakeSink(0, {})->OnAdmitted(1, {});
  }
  void Reject(const std::shared_ptr<StoredRun>& run) {
    run->MakeSink(0, {})->OnEnd(
        1, Outcome::Failed(Status(StatusCode::kResourceExhausted, "The queue is full.")));
    std::vector<StoredChoice> had;
    EXPECT_TRUE(run->TakeLost(&had));
    Add(run);
  }

  std::shared_ptr<RunInbox> inbox_ = std::make_shared<RunInbox>();
  AnswerQueue queue_;
  AnswerQueue::TimePoint now_ = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<StoredRun>> given_;
};

TEST_F(AnswerQueueTest, TheOldestIsFirstWheneverItComes) {
  const std::shared_ptr<StoredRun> one = Run("1");
  const std::shared_ptr<StoredRun> two = Run("2");
  const std::shared_ptr<StoredRun> three = Run("3");
  Add(two);
  Add(three);
  Add(one);
  EXPECT_TRUE(queue_.HasWaiting({"t", Priority::kLow}));
  EXPECT_FALSE(queue_.HasWaiting({"t", Priority::kHigh}));
  queue_.Remove(*two);
  EXPECT_THAT(TakeDue(), ElementsAre("1", "3"));
  EXPECT_FALSE(queue_.HasWaiting({"t", Priority::kLow}));
}

TEST_F(AnswerQueueTest, AFewAreTriedAtOnce) {
  for (int i = 0; i < 20; ++i) Add(Run(std::to_string(i)));
  EXPECT_EQ(TakeDue().size(), AnswerQueue::kMostTried);
  EXPECT_THAT(TakeDue(), IsEmpty()) << "nothing is known of those";
  Admit(given_[0]);
  Admit(given_[1]);
  EXPECT_THAT(TakeDue(), ElementsAre("8", "9"));
}

TEST_F(AnswerQueueTest, RejectionsMakePausesThatGrow) {
  const std::shared_ptr<StoredRun> run = Run("1");
  Add(run);
  for (std::chrono::milliseconds pause = AnswerQueue::kTick; pause < AnswerQueue::kMostPause;
       pause *= 2) {
    EXPECT_THAT(TakeDue(), ElementsAre("1")) << pause.count();
    Reject(run);
    EXPECT_THAT(TakeDue(), IsEmpty());
    now_ += pause - std::chrono::milliseconds(1);
    EXPECT_THAT(TakeDue(), IsEmpty()) << pause.count();
    now_ += std::chrono::milliseconds(1);
  }
  // Once one is taken, there is room.
  EXPECT_THAT(TakeDue(), ElementsAre("1"));
  Add(Run("2"));
  Admit(run);
  EXPECT_THAT(TakeDue(), ElementsAre("2"));
}

TEST_F(AnswerQueueTest, AnInboxThatIsClosedKeepsNoRun) {
  std::shared_ptr<StoredRun> run = Run("1");
  const std::weak_ptr<StoredRun> alive = run;
  inbox_->Add(run);
  inbox_->Close();
  inbox_->Add(std::move(run));
  EXPECT_TRUE(alive.expired());
}

TEST_F(AnswerQueueTest, OthersAreNotHeldUp) {
  const std::shared_ptr<StoredRun> run = Run("1");
  Add(run);
  TakeDue();
  Reject(run);
  Add(Run("2", "another"));
  Add(Run("3", "t", Priority::kHigh));
  EXPECT_THAT(TakeDue(), testing::UnorderedElementsAre("2", "3"));
  now_ += AnswerQueue::kTick;
  EXPECT_THAT(TakeDue(), ElementsAre("1"));
}

TEST_F(AnswerQueueTest, AllAreTakenOut) {
  Add(Run("1"));
  Add(Run("2", "another"));
  EXPECT_EQ(queue_.TakeAll().size(), 2U);
  EXPECT_THAT(TakeDue(), IsEmpty());
}

}  // namespace
}  // namespace ropeway::server
