#include "bench/put_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "net/test_fake_server.h"

namespace ropeway {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class PutLoadTest : public testing::Test {
 protected:
  explicit PutLoadTest(FakeServer::Script script = WellBehaved) : server_(std::move(script)) {
    client_ = *HttpClient::Open(*ParseBaseUrl(server_.url()), "first-key", false);
    facts_.model = "fake";
    facts_.ignore_eos = true;
    facts_.overhead = 5;
  }

  LoadTarget target() const { return {client_.get(), &facts_}; }

  Load Small(int count, int in_flight) const {
    Load load;
    load.shape.count = count;
    load.shape.concurrency = in_flight;
    load.asked = [](int seq) {
      Asked asked{10 + seq, 2};
      if (seq % 2 == 0) asked.priority = Priority::kHigh;
      return asked;
    };
    return load;
  }

  std::vector<Json> Bodies() const {
    std::vector<Json> bodies;
    for (const FakeRequest& request : server_.requests())
      bodies.push_back(Json::parse(request.body));
    return bodies;
  }

  FakeServer server_;
  std::unique_ptr<HttpClient> client_;
  ServerFacts facts_;
};

TEST_F(PutLoadTest, AsksWhatTheLoadSays) {
  const auto run = PutLoad(target(), Small(3, 1));
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(run->records[2].input_tokens, 12);
  const std::vector<Json> bodies = Bodies();
  ASSERT_EQ(bodies.size(), 3U);
  EXPECT_EQ(bodies[0]["priority"], 0);  // As vLLM has it: lower is earlier.
  EXPECT_FALSE(bodies[1].contains("priority"));
  EXPECT_EQ(bodies[1]["max_tokens"], 2);
  EXPECT_EQ(bodies[1]["ignore_eos"], true);
  EXPECT_NE(bodies[0]["prompt"], bodies[1]["prompt"]);
  // The same load again is the same, another run of it is not.
  ASSERT_TRUE(PutLoad(target(), Small(1, 1)).ok());
  EXPECT_EQ(Bodies()[3], bodies[0]);
  Load other = Small(1, 1);
  other.run_num = 2;
  ASSERT_TRUE(PutLoad(target(), other).ok());
  EXPECT_NE(Bodies()[4]["prompt"], bodies[0]["prompt"]);
}

TEST_F(PutLoadTest, EachRequestMayHaveAClientOfItsOwn) {
  const auto second = *HttpClient::Open(*ParseBaseUrl(server_.url()), "second-key", false);
  Load load = Small(2, 1);
  load.client_of = [&](int seq) { return seq == 0 ? client_.get() : second.get(); };
  ASSERT_TRUE(PutLoad(target(), load).ok());
  EXPECT_THAT(server_.requests()[0].headers, HasSubstr("Bearer first-key"));
  EXPECT_THAT(server_.requests()[1].headers, HasSubstr("Bearer second-key"));
}

// Answers the foreground, which asks for three tokens, once two requests of the background have
// come: how soon the background's threads run is the machine's affair.
class BesideTest : public PutLoadTest {
 protected:
  BesideTest()
      : PutLoadTest([this](const FakeRequest& request) {
          if (request.method != "POST") return WellBehaved(request);
          if (Json::parse(request.body).value("max_tokens", 0) == 3) {
            background_runs_.wait();
          } else if (background_.fetch_add(1) < 2) {
            background_runs_.count_down();
          }
          return WellBehaved(request);
        }) {}

  std::latch background_runs_{2};
  std::atomic<int> background_ = 0;
};

TEST_F(BesideTest, TheBackgroundEndsWithTheForeground) {
  Load background = Small(100000, 2);
  Load foreground = Small(5, 1);
  foreground.run_num = 2;
  foreground.asked = [](int seq) { return Asked{10 + seq, 3}; };
  const auto runs = PutLoadBeside(target(), background, 0.1, foreground);
  ASSERT_TRUE(runs.ok()) << runs.status().message();
  EXPECT_EQ(runs->foreground.records.size(), 5U);
  EXPECT_GE(runs->background.records.size(), 2U);
  EXPECT_LT(runs->background.records.size(), 100000U);
  // Less what the background's thread needed to begin.
  EXPECT_GE(runs->offset(), 0.005);
  for (const RequestRecord& record : runs->background.records) EXPECT_TRUE(record.ok());
  EXPECT_EQ(server_.requests().size(), runs->background.records.size() + 5);
}

TEST_F(PutLoadTest, TheBackgroundAloneEndsInTime) {
  const auto run = PutLoadFor(target(), Small(100000, 2), 0.1);
  ASSERT_TRUE(run.ok());
  EXPECT_GE(run->wall_seconds, 0.005);
  EXPECT_LT(run->records.size(), 100000U);
}

TEST_F(PutLoadTest, ABackgroundThatIsStoppedBeforeItBeginsEnds) {
  std::stop_source stop;
  stop.request_stop();
  Load load = Small(5, 2);
  load.shape.stop = stop.get_token();
  const auto run = PutLoad(target(), load);
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->records.empty());
}

class RefusingTest : public PutLoadTest {
 protected:
  RefusingTest()
      : PutLoadTest([](const FakeRequest&) {
          return JsonReply(R"({"error":{"message":"no room"}})", 429);
        }) {}
};

TEST_F(RefusingTest, AFailedRequestFailsTheLoad) {
  const auto run = PutLoad(target(), Small(2, 2));
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.status().message(), HasSubstr("HTTP 429: no room"));
  EXPECT_FALSE(PutLoadFor(target(), Small(1000, 1), 0.2).ok());
}

}  // namespace
}  // namespace ropeway
