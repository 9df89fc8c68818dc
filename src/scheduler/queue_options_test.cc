#include "scheduler/queue_options.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace ropeway::scheduler {
namespace {

using std::chrono::milliseconds;

TEST(QueueOptionsTest, TheDefaultsStandAndWhatCannotIsNamed) {
  const auto field_of = [](void (*change)(QueueOptions*)) {
    QueueOptions options;
    change(&options);
    const Status status = CheckQueueOptions(options);
    EXPECT_EQ(status.message().rfind(status.field(), 0), 0U) << status.message();
    return status.ok() ? "accepted" : status.field();
  };
  EXPECT_EQ(field_of([](QueueOptions*) {}), "accepted");
  EXPECT_EQ(field_of([](QueueOptions* o) { o->policy = "none"; }), "policy");
  EXPECT_EQ(field_of([](QueueOptions* o) { o->class_shares[0] = 71; }), "class_shares");
  EXPECT_EQ(field_of([](QueueOptions* o) { o->max_wait = milliseconds(0); }), "max_wait");
  EXPECT_EQ(field_of([](QueueOptions* o) { o->max_queued_requests = 0; }), "max_queued_requests");
  EXPECT_EQ(field_of([](QueueOptions* o) { o->max_queued_tokens = 0; }), "max_queued_tokens");
  EXPECT_EQ(field_of([](QueueOptions* o) { o->ttft_limits[2] = milliseconds(0); }), "ttft_limits");
  EXPECT_EQ(field_of([](QueueOptions* o) { o->latency_limits[0] = milliseconds(-1); }),
            "latency_limits");
}

}  // namespace
}  // namespace ropeway::scheduler
