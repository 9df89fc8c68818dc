// Requests that are sent, or were submitted, together: what becomes of one is its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gateway/test_scripted_backend.h"

namespace ropeway::gateway {
namespace {

using testing::HasSubstr;
using Record = RecordingSink::Record;

TEST(GatewayBatchTest, AMemberThatFailsTouchesNoOther) {
  const auto backend = std::make_shared<ScriptedBackend>([](const Request& request) {
    BackendScript script{.tokens = 20};
    const uint64_t seed = request.sampling.seed.value_or(0);
    if (seed == 1) script.fail_after = 3;
    if (seed == 2) {
      script.fail_after = 0;
      script.failure = Outcome::Failed(FailureKind::kRejected,
                                       {StatusCode::kInvalidArgument, "too long", "prompt"});
    }
    if (seed == 3) script.hang_after = 2;
    return script;
  });
  ScriptedGateway gateway({backend}, [](GatewayConfig* config) {
    config->dispatch.batching.dispatch = "batch";
    config->dispatch.batching.max_batch_size = 5;
    config->dispatch.batching.max_batch_wait = std::chrono::minutes(1);
    config->dispatch.failover.idle_timeout = std::chrono::seconds(1);
  });
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const auto submit_five = [&](uint64_t first_seed) {
    sinks.clear();
    for (uint64_t i = 0; i < 5; ++i) {
      sinks.push_back(gateway.Submit(ScriptedRequest("p", first_seed + i)));
    }
  };
  const auto expect_whole = [&](size_t index, uint64_t seed, uint64_t batch) {
    const Record record = sinks[index]->WaitEnd();
    EXPECT_EQ(record.text, ExpectedText(ScriptedRequest("p", seed), 20)) << seed;
    ASSERT_TRUE(record.finish.has_value()) << record.status.message();
    EXPECT_EQ(record.finish->batch_num, batch);
    EXPECT_EQ(record.finish->batch_size, 5);
  };

  submit_five(1);
  const Record broken = sinks[0]->WaitEnd();
  EXPECT_EQ(broken.deltas, 3);
  EXPECT_EQ(broken.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(broken.status.message(), HasSubstr("backend a: it broke"));
  const Record rejected = sinks[1]->WaitEnd();
  EXPECT_EQ(rejected.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(rejected.status.field(), "prompt");
  expect_whole(3, 4, 1);
  expect_whole(4, 5, 1);
  const Record hung = sinks[2]->WaitEnd();
  EXPECT_EQ(hung.status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(hung.deltas, 2);

  // The batch has ended with its last member, whatever that one's end was.
  submit_five(11);
  for (size_t i = 0; i < 5; ++i) expect_whole(i, 11 + i, 2);
  EXPECT_EQ(gateway->Stats().total_batches, 2U);
  EXPECT_EQ(gateway->Stats().total_requests, 10U);
  EXPECT_EQ(backend->started(), 10) << "nothing was sent twice";
}

// Whatever becomes of the first of them.
TEST(GatewayBatchTest, EachOfASubmissionIsAdmittedAfterAWhile) {
  const auto backend = std::make_shared<ScriptedBackend>(
      [](const Request&) { return BackendScript{.hang_after = 0}; });
  ScriptedGateway gateway({backend}, [](GatewayConfig* config) {
    config->admit_after = std::chrono::milliseconds(100);
  });
  std::vector<SinkRequest> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t choice = 0; choice < 3; ++choice) {
    Request request = ScriptedRequest();
    request.choice = choice;
    sinks.push_back(std::make_shared<RecordingSink>());
    requests.push_back({std::move(request), sinks.back()});
  }
  const StatusOr<std::vector<RequestId>> ids = gateway->SubmitAll(std::move(requests));
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  EXPECT_TRUE(gateway->Cancel((*ids)[0]).ok());
  sinks[0]->WaitEnd();
  for (size_t i = 1; i < sinks.size(); ++i) {
    EXPECT_TRUE(sinks[i]->WaitAdmitted());
    EXPECT_EQ(sinks[i]->record().deltas, 0);
  }
}

}  // namespace
}  // namespace ropeway::gateway
