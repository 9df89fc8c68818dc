#include "service/registry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ropeway::service {
namespace {

using State = RequestState;
using std::chrono::milliseconds;
using std::chrono::seconds;

using Requests = Registry<ActiveRequest>;

std::shared_ptr<ActiveRequest> Add(Requests* requests, const std::string& tenant = "") {
  auto request = std::make_shared<ActiveRequest>();
  request->request.tenant = tenant;
  EXPECT_TRUE(requests->Add(request).ok());
  return request;
}

TEST(RegistryTest, GivesIdsInOrderAndFindsWhatIsUnderWay) {
  Requests requests("the test");
  const auto first = Add(&requests);
  const auto second = Add(&requests);
  EXPECT_EQ(first->id, 1U);
  EXPECT_EQ(second->id, 2U);
  EXPECT_EQ(requests.Find(2), second);
  EXPECT_EQ(requests.Find(3), nullptr);
  EXPECT_EQ(requests.Oldest(), first);
  EXPECT_EQ(requests.All(), (std::vector<std::shared_ptr<ActiveRequest>>{first, second}));
  requests.Erase(1);
  EXPECT_EQ(requests.Oldest(), second);
  EXPECT_EQ(Add(&requests)->id, 3U);
}

TEST(RegistryTest, TakesNoMoreOnceItIsClosed) {
  Requests requests("the test");
  EXPECT_TRUE(requests.CheckOpen().ok());
  requests.Close();
  EXPECT_EQ(requests.CheckOpen().code(), StatusCode::kUnavailable);
  const Status status = requests.Add(std::make_shared<ActiveRequest>());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the test is stopping and accepts no new requests");
  EXPECT_EQ(requests.Oldest(), nullptr);
  EXPECT_EQ(requests.queued(), 0);
}

TEST(RegistryTest, DrainWaitsUntilAllAreErased) {
  Requests requests("the test");
  const auto never = [] { FAIL() << "nothing is to be cancelled"; };
  EXPECT_TRUE(requests.Drain(seconds(0), never).ok());
  const RequestId id = Add(&requests)->id;
  std::thread eraser([&] { requests.Erase(id); });
  EXPECT_TRUE(requests.Drain(seconds(60), never).ok());
  eraser.join();
}

TEST(RegistryTest, DrainCancelsWhatIsLeft) {
  Requests requests("the test");
  Add(&requests);
  Add(&requests);
  const Status status = requests.Drain(milliseconds(1), [&] {
    for (const auto& request : requests.All()) requests.Erase(request->id);
  });
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "2 requests had to be cancelled at the deadline");
}

TEST(RegistryTest, TellsWhereRequestsAreAndCountsThemByClass) {
  Requests requests("the test");
  const auto waits = Add(&requests, "a");
  const auto runs = Add(&requests, "b");
  const auto encodes = Add(&requests, "a");
  const auto over = Add(&requests, "a");
  waits->arrival = seconds(2);
  waits->Move(State::kEncoding, State::kWaiting);
  runs->Move(State::kEncoding, State::kWaiting);
  runs->Move(State::kWaiting, State::kRunning);
  over->End();

  const std::vector<RequestInfo> infos = requests.Infos(seconds(5), {9, waits->id, runs->id});
  ASSERT_EQ(infos.size(), 3U);
  EXPECT_EQ(infos[0].id, waits->id);
  EXPECT_EQ(infos[0].tenant, "a");
  EXPECT_EQ(infos[0].age_seconds, 3.0);
  EXPECT_EQ(infos[0].queue_position, 1) << "behind one that has ended";
  EXPECT_EQ(infos[1].queue_position, -1) << "it runs by now";
  EXPECT_EQ(infos[2].state, State::kEncoding);
  EXPECT_EQ(infos[2].queue_position, -1) << "it is not in the queue";

  QueueInfo all;
  requests.CountByClass(nullptr, &all);
  EXPECT_EQ(all.classes[1].waiting, 2);
  EXPECT_EQ(all.classes[1].running, 1);
  const std::string tenant = "b";
  QueueInfo its;
  requests.CountByClass(&tenant, &its);
  EXPECT_EQ(its.classes[1].waiting, 0);
  EXPECT_EQ(its.classes[1].running, 1);
}

}  // namespace
}  // namespace ropeway::service
