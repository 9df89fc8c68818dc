#include "service/intake.h"

#include <chrono>
#include <string>

#include "gtest/gtest.h"

namespace ropeway::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr base::TimePoint kArrival = seconds(5);

TEST(DeadlineOf, IsTheSmallerOfBothTimeouts) {
  Request request;
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(3)), seconds(8));
  request.timeout = seconds(2);
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(3)), seconds(7));
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(1)), seconds(6));
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(0)), seconds(7));
}

TEST(DeadlineOf, IsNeverWithoutATimeoutOrWithOneThatOverflows) {
  Request request;
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(0)), base::TimePoint::max());
  EXPECT_EQ(DeadlineOf(request, kArrival, milliseconds::max()), base::TimePoint::max());
  request.timeout = milliseconds::max();
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(0)), base::TimePoint::max());
  EXPECT_EQ(DeadlineOf(request, kArrival, seconds(3)), seconds(8));
}

TEST(TakeBytes, RejectsWhatTheTenantsShareLacks) {
  base::SharedBudget bytes(10'000);
  Request request;
  request.tenant = "a";
  request.prompt = std::string(20'000, 'x');
  base::SharedBudget::Hold alone;
  EXPECT_TRUE(TakeBytes(request, &bytes, &alone).ok());
  EXPECT_EQ(bytes.used(), 10'000);
  base::SharedBudget::Hold more;
  const Status status = TakeBytes(request, &bytes, &more);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(
      status.message(),
      "this request needs 10000 bytes, but the other requests of its tenant leave less free (the "
      "limit of all tenants together is 10000 bytes)");
  EXPECT_FALSE(more.taken());
}

TEST(TakeBytes, TakesOfARequestThatGrewWhatItLacks) {
  base::SharedBudget bytes(100'000);
  Request request;
  base::SharedBudget::Hold hold;
  ASSERT_TRUE(TakeBytes(request, &bytes, &hold).ok());
  const int64_t before = hold.amount();
  request.prompt = std::string(1'000, 'x');
  ASSERT_TRUE(TakeBytes(request, &bytes, &hold).ok());
  EXPECT_GE(hold.amount(), before + 1'000);
  const int64_t most = hold.amount();
  request.prompt = std::string();
  ASSERT_TRUE(TakeBytes(request, &bytes, &hold).ok());
  EXPECT_EQ(hold.amount(), most);
}

TEST(QueueFull, SaysWhoseRequestsItHoldsAndWhenToRetry) {
  base::SharedBudget places(4);
  base::SharedBudget::Hold one;
  base::SharedBudget::Hold other;
  ASSERT_TRUE(places.Take("a", 1, &one));
  ASSERT_TRUE(places.Take("b", 1, &other));
  QueueOptions options;
  options.max_queued_requests = 2;
  const Status status = QueueFull(places, scheduler::LoadView(), {.tenant = "a"}, options);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "the queue is full: it holds 2 requests, 1 of the same sender (max_queued_requests 2)");
  EXPECT_EQ(status.retry_after_seconds(), 1);
}

}  // namespace
}  // namespace ropeway::service
