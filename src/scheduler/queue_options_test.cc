#include "scheduler/queue_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace ropeway::scheduler {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::ElementsAre;

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

TEST(QueueOptionsTest, ClassesHavePartsWhereTheyComeFirst) {
  const auto parts = [](const char* policy, bool strict) {
    return ClassPartsOf(
        {.policy = policy, .class_shares = {60, 30, 10}, .strict_priority = strict});
  };
  EXPECT_THAT(parts("priority", false), ElementsAre(0.6, 0.3, 0.1));
  EXPECT_THAT(parts("priority+fair", false), ElementsAre(0.6, 0.3, 0.1));
  EXPECT_THAT(parts("priority+fair", true), Each(0.0)) << "a higher class always goes first";
  EXPECT_THAT(parts("fair+priority", false), Each(0.0)) << "the class only breaks ties";
  EXPECT_TRUE(HasClasses({.policy = "priority+sjf", .strict_priority = true}));
  EXPECT_FALSE(HasClasses({.policy = "sjf+priority"}));
}

}  // namespace
}  // namespace ropeway::scheduler
