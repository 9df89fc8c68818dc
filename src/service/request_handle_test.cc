#include "service/request_handle.h"

#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ropeway::service {
namespace {

// Keeps the sink of the last request.
class OneRequestBackend final : public Backend {
 public:
  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override {
    if (!rejects.ok()) return rejects;
    sink = std::move(requests.front().sink);
    return std::vector<RequestId>{7};
  }
  Status Cancel(RequestId id) override {
    cancelled.push_back(id);
    if (on_cancel) on_cancel();
    return {};
  }
  void Probe(ProbeFn done) override { done(BackendFacts()); }

  Status rejects;
  std::shared_ptr<Sink> sink;
  std::vector<RequestId> cancelled;
  std::function<void()> on_cancel;
};

class RequestHandlesTest : public ::testing::Test {
 protected:
  OneRequestBackend backend_;
  std::optional<RequestHandles> handles_{std::in_place, &backend_};
};

TEST_F(RequestHandlesTest, TheHandleHasTheCollectedResultOnceEndedHasHadIt) {
  std::string streamed;
  std::optional<RequestHandle> handle;
  bool told = false;
  auto submitted = handles_->Submit(
      Request(),
      [&](RequestId, const Delta& delta) {
        streamed += delta.text;
        return true;
      },
      [&](const std::shared_ptr<const Result>& result) {
        EXPECT_EQ(result->text, "ab");
        EXPECT_FALSE(handle->Poll().has_value());
        told = true;
      });
  ASSERT_TRUE(submitted.ok());
  handle = *submitted;
  EXPECT_EQ(handle->id(), 7U);
  EXPECT_TRUE(backend_.sink->OnDelta(7, {.text = "a", .tokens = {}}));
  EXPECT_TRUE(backend_.sink->OnDelta(7, {.text = "b", .tokens = {}}));
  EXPECT_EQ(handle->Wait(std::chrono::nanoseconds(1)).status().code(),
            StatusCode::kDeadlineExceeded);
  Finish finish;
  finish.usage.completion_tokens = 2;
  backend_.sink->OnEnd(7, Outcome::Ended(finish));
  EXPECT_TRUE(told);
  EXPECT_EQ(streamed, "ab");
  const StatusOr<Result> result = handle->Wait();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->id, 7U);
  EXPECT_EQ(result->text, "ab");
  EXPECT_EQ(result->finish.usage.completion_tokens, 2);
}

TEST_F(RequestHandlesTest, AFailureKeepsWhatWasCollected) {
  const auto handle = handles_->Submit(Request(), nullptr);
  ASSERT_TRUE(handle.ok());
  backend_.sink->OnAdmitted(7, {.prompt_tokens = 5, .estimated = true});
  backend_.sink->OnDelta(7, {.text = "a", .tokens = {OutputToken()}});
  backend_.sink->OnEnd(7, Outcome::Failed(Status(StatusCode::kInternal, "broken")));
  const std::optional<Result> result = handle->Poll();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.message(), "broken");
  EXPECT_EQ(result->finish.reason, FinishReason::kFailed);
  EXPECT_EQ(result->finish.usage.prompt_tokens, 5);
  EXPECT_EQ(result->finish.usage.completion_tokens, 1);
  EXPECT_EQ(result->text, "a");
}

TEST_F(RequestHandlesTest, ARejectedRequestHasNoHandleAndItsSinkIsDropped) {
  backend_.rejects = Status(StatusCode::kNotFound, "no model");
  const auto witness = std::make_shared<int>();
  const auto handle = handles_->Submit(
      Request(), nullptr, [witness](const std::shared_ptr<const Result>&) { ADD_FAILURE(); });
  EXPECT_EQ(handle.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(witness.use_count(), 1);
}

TEST_F(RequestHandlesTest, AHandleReachesTheBackendUntilItIsToBeGone) {
  const auto handle = handles_->Submit(Request(), nullptr);
  ASSERT_TRUE(handle.ok());
  // What is called may call it again.
  backend_.on_cancel = [&] {
    if (backend_.cancelled.size() < 2) handle->Cancel();
  };
  handle->Cancel();
  EXPECT_THAT(backend_.cancelled, ::testing::ElementsAre(7U, 7U));
  handles_.reset();
  handle->Cancel();
  EXPECT_EQ(backend_.cancelled.size(), 2U);
}

TEST_F(RequestHandlesTest, TheDestructorWaitsForACancelThatRuns) {
  const auto handle = handles_->Submit(Request(), nullptr);
  ASSERT_TRUE(handle.ok());
  std::promise<void> runs;
  std::promise<void> may_end;
  std::atomic<bool> ended{false};
  backend_.on_cancel = [&] {
    runs.set_value();
    may_end.get_future().wait();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    ended = true;
  };
  std::thread cancels([&] { handle->Cancel(); });
  runs.get_future().wait();
  may_end.set_value();
  handles_.reset();
  EXPECT_TRUE(ended);
  cancels.join();
}

TEST(RequestHandle, RefersToNoRequestByDefault) {
  const RequestHandle none;
  none.Cancel();
  EXPECT_FALSE(none.Poll().has_value());
  EXPECT_EQ(none.Wait().status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ropeway::service
