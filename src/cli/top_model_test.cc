#include "cli/top_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ropeway::cli {
namespace {

constexpr const char* kHello =
    R"({"version":"0.1.0","kind":"engine","models":["m"],"slots":3,"strategy":"continuous"})";

std::string TopFrame(const std::string& steps, const std::string& requests,
                     const std::string& ended = "") {
  return fmt::format(
      R"({{"at":1.0,"steps":[{}],"steps_left_out":0,"requests":[{}],"requests_left_out":2,
          "ended":[{}],"queue":{{"blocked_by":"max_num_seqs","classes":{{
            "high":{{"waiting":1,"running":2,"wait":0.50}},
            "medium":{{"waiting":0,"running":0,"wait":0.00}},
            "low":{{"waiting":7,"running":0,"wait":9.00}}}},
            "tenants":[{{"name":"acme","waiting":8,"running":2}}],"tenants_left_out":0}},
          "blocks":{{"free":10,"held":20,"cached":30,"disk":40}},
          "rates":{{"prompt":4.3,"output":17.7,"busy":0.111}},
          "minute":{{"ttft_ms":{{"count":3,"p50":56.57,"p95":60.00,"p99":70.00}},"late":1}},
          "hour":{{"ttft_ms":{{"count":9,"p50":1.00,"p95":2.00,"p99":3.00}},"late":5}}}})",
      steps, requests, ended);
}

std::string Row(int id, const std::string& state, const std::string& more = "") {
  return fmt::format(
      R"({{"id":{},"tenant":"acme","class":"high","state":"{}","age":0.5,"position":null,"prompt":10{}}})",
      id, state, more);
}

TopModel Greeted() {
  TopModel model;
  EXPECT_TRUE(model.Take("hello", kHello).ok());
  return model;
}

std::vector<int64_t> Ids(const TopModel& model) {
  std::vector<int64_t> ids;
  for (const TopRequest& request : model.requests) ids.push_back(request.id);
  return ids;
}

TEST(TopModel, AFrameIsTaken) {
  TopModel model = Greeted();
  EXPECT_EQ(model.frames(), 0);
  ASSERT_TRUE(model.Take("frame", TopFrame("", Row(1, "running"))).ok());
  EXPECT_EQ(model.frames(), 1);
  EXPECT_EQ(model.models, std::vector<std::string>{"m"});
  EXPECT_EQ(model.slots, 3);
  EXPECT_EQ(model.requests_left_out, 2);
  EXPECT_EQ(model.blocked_by, "max_num_seqs");
  EXPECT_EQ(model.classes[0].running, 2);
  EXPECT_EQ(model.classes[2].waiting, 7);
  EXPECT_DOUBLE_EQ(model.classes[2].wait, 9.0);
  ASSERT_EQ(model.tenants.size(), 1U);
  EXPECT_EQ(model.tenants[0].name, "acme");
  EXPECT_EQ(model.free_blocks + model.held_blocks + model.cached_blocks + model.disk_blocks, 100);
  EXPECT_DOUBLE_EQ(model.output_rate, 17.7);
  EXPECT_EQ(model.minute.ttft.count, 3);
  EXPECT_DOUBLE_EQ(model.hour.ttft.p99, 3.0);
  EXPECT_EQ(model.hour.late, 5);
  EXPECT_FALSE(model.requests[0].output.has_value());
}

TEST(TopModel, StepsSayHowFarARequestIs) {
  TopModel model = Greeted();
  const auto after = [&](const std::string& rows, const std::string& state) {
    EXPECT_TRUE(
        model.Take("frame", TopFrame(R"({"step":1,"rows":[)" + rows + "]}", Row(1, state))).ok());
    return model.requests.at(0);
  };
  EXPECT_EQ(after("[1,0,0,8]", "running").computed, 8);
  EXPECT_EQ(model.requests[0].output, 0);
  EXPECT_EQ(after("[1,0,8,2]", "running").computed, 10);
  EXPECT_EQ(model.requests[0].output, 1);  // The step that completes the prompt samples one.
  EXPECT_EQ(after("[1,1,10,1],[2,1,50,1]", "running").output, 2);
  // It was preempted and its first tokens are computed anew: its answer is not shorter.
  EXPECT_EQ(after("[1,0,0,4]", "preempted").computed, 4);
  EXPECT_EQ(model.requests[0].output, 2);
  EXPECT_TRUE(model.knows_steps());
  // What is known of a request is forgotten with it.
  ASSERT_TRUE(model.Take("frame", TopFrame("", "")).ok());
  EXPECT_FALSE(model.knows_steps());
}

TEST(TopModel, RequestsAreSortedByStateThenPositionClassAndAge) {
  TopModel model = Greeted();
  const auto row = [](int id, const char* state, const char* priority, double age,
                      const std::string& position) {
    return fmt::format(
        R"({{"id":{},"tenant":"","class":"{}","state":"{}","age":{},"position":{},"prompt":1}})",
        id, priority, state, age, position);
  };
  const std::string rows =
      row(1, "encoding", "high", 9, "null") + "," + row(2, "waiting", "low", 9, "1") + "," +
      row(3, "waiting", "low", 1, "0") + "," + row(4, "preempted", "low", 1, "null") + "," +
      row(5, "running", "low", 9, "null") + "," + row(6, "running", "high", 1, "null") + "," +
      row(7, "running", "high", 2, "null") + "," + row(8, "strange", "high", 2, "null");
  ASSERT_TRUE(model.Take("frame", TopFrame("", rows)).ok());
  EXPECT_EQ(Ids(model), (std::vector<int64_t>{7, 6, 5, 4, 3, 2, 1, 8}));
}

TEST(TopModel, EndedRequestsAreKeptOnceAndTheNewestFirst) {
  TopModel model = Greeted();
  const auto ended = [](int first, int last) {
    std::string list;
    for (int i = first; i <= last; ++i) {
      list += fmt::format(R"({}{{"number":{},"id":{},"reason":"stop","output":5}})",
                          i == first ? "" : ",", i, i + 100);
    }
    return list;
  };
  ASSERT_TRUE(model.Take("frame", TopFrame("", "", ended(1, 3))).ok());
  ASSERT_TRUE(model.Take("frame", TopFrame("", "", ended(2, 4))).ok());
  ASSERT_EQ(model.ended.size(), 4U);
  EXPECT_EQ(model.ended[0].id, 104);
  EXPECT_EQ(model.ended[3].id, 101);
  ASSERT_TRUE(model.Take("frame", TopFrame("", "", ended(5, 400))).ok());
  EXPECT_EQ(model.ended.size(), TopModel::kMostEnded);
  EXPECT_EQ(model.ended[0].id, 500);
  // A server that was started again counts anew.
  ASSERT_TRUE(model.Take("hello", kHello).ok());
  ASSERT_TRUE(model.Take("frame", TopFrame("", "", ended(1, 1))).ok());
  EXPECT_EQ(model.ended.size(), 1U);
}

TEST(TopModel, BackendsOfAGateway) {
  TopModel model;
  ASSERT_TRUE(
      model.Take("hello", R"({"version":"1","kind":"gateway","models":[],"slots":0})").ok());
  std::string frame = TopFrame("", Row(1, "running", R"(,"backend":"one")"));
  frame.insert(frame.size() - 1, R"(,"backends":[{"model":"m","name":"one","state":"up",
      "reason":null,"in_flight":2,"concurrency":{"limit":4,"learned":true},
      "latency_ms":{"p50":12.5,"p99":null},"sent":9,"completed":8,"retries":1,"resumptions":3,
      "failures":{"unreachable":1,"busy":2,"broken":0,"rejected":0,"timeouts":1,"ejections":7}}])");
  ASSERT_TRUE(model.Take("frame", frame).ok());
  EXPECT_TRUE(model.gateway());
  EXPECT_EQ(model.requests[0].backend, "one");
  ASSERT_EQ(model.backends.size(), 1U);
  const TopBackend& one = model.backends[0];
  EXPECT_EQ(one.limit, 4);
  EXPECT_DOUBLE_EQ(one.p50, 12.5);
  EXPECT_DOUBLE_EQ(one.p99, 0.0);
  EXPECT_EQ(one.failures, 4);
  EXPECT_EQ(one.resumptions, 3);
}

TEST(TopModel, TextsLoseControlCharactersAndAreCut) {
  TopModel model = Greeted();
  const std::string row =
      R"({"id":1,"tenant":"a\u001b[2Jb\u009bc\u202ed\ne","class":"high","state":"running"},)"
      R"({"id":2,"tenant":")" +
      std::string(5000, 'x') + R"(","class":"high","state":"running"})";
  ASSERT_TRUE(model.Take("frame", TopFrame("", row)).ok());
  EXPECT_EQ(model.requests[0].tenant,
            "a\xEF\xBF\xBD[2Jb\xEF\xBF\xBD"
            "c\xEF\xBF\xBD"
            "d\xEF\xBF\xBD"
            "e");
  EXPECT_EQ(model.requests[1].tenant.size(), TopModel::kMostNameBytes + 3);
}

TEST(TopModel, WhatIsNoRopewayIsAnError) {
  const auto error = [](const char* type, const std::string& data, bool greeted) {
    TopModel model = greeted ? Greeted() : TopModel();
    return std::string(model.Take(type, data).message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(error("frame", TopFrame("", ""), false), HasSubstr("not `hello`"));
  EXPECT_THAT(error("hello", R"({"kind":"engine"})", false), HasSubstr("version"));
  EXPECT_THAT(error("hello", "{", false), HasSubstr("an event of the server"));
  EXPECT_THAT(error("frame", R"({"at":1})", true), HasSubstr("no `requests`"));
  EXPECT_THAT(error("frame", "[]", true), HasSubstr("no `requests`"));
  // Events that a later server adds are skipped.
  TopModel model;
  EXPECT_TRUE(model.Take("", "x").ok());
  EXPECT_TRUE(model.Take("weather", "{").ok());
}

TEST(TopModel, ValuesOfAnyKindDoNoHarm) {
  for (const char* value : {"null", "1e300", "-5", "\"text\"", "[]", "[1]", "{}", "true", "[[]]"}) {
    TopModel model = Greeted();
    std::string frame = "{";
    for (const char* key : {"at", "steps", "requests", "requests_left_out", "ended", "queue",
                            "blocks", "rates", "minute", "hour", "backends"}) {
      frame += fmt::format(R"({}"{}":{})", frame.size() > 1 ? "," : "", key, value);
    }
    EXPECT_TRUE(model.Take("frame", frame + "}").ok()) << value;
    EXPECT_GE(model.requests_left_out, 0) << value;
    std::string inner = TopFrame(fmt::format(R"({{"rows":[[{0},{0},{0},{0}],{0}]}},{0})", value),
                                 fmt::format(R"({{"id":{0},"age":{0},"prompt":{0}}},{0})", value));
    EXPECT_TRUE(model.Take("frame", inner).ok()) << value;
  }
}

}  // namespace
}  // namespace ropeway::cli
