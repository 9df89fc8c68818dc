// GET /admin/events over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/event_feed.h"
#include "server/event_frame.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kGet = "GET /admin/events HTTP/1.1\r\nHost: localhost\r\n\r\n";

// A client that watches.
class EventClient {
 public:
  explicit EventClient(uint16_t port, const std::string& header = "") : client_(port) {
    client_.Send("GET /admin/events HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n");
    head_ = client_.ReadHead();
  }

  int status() const { return head_.status; }
  const ClientReply& head() const { return head_; }

  // The data of the next event of this name.
  json Next(const std::string& event) {
    const std::string begin = "event: " + event + "\ndata: ";
    while (true) {
      const size_t at = text_.find(begin);
      const size_t end = at == std::string::npos ? at : text_.find("\n\n", at);
      if (end != std::string::npos) {
        const std::string data = text_.substr(at + begin.size(), end - at - begin.size());
        text_.erase(0, end + 2);
        return json::parse(data);
      }
      const std::string more = client_.ReadSome();
      if (more.empty()) return nullptr;
      text_ += more;
    }
  }

  // Everything until the stream's end.
  std::string Rest() {
    while (true) {
      const std::string more = client_.ReadSome();
      if (more.empty() || text_.find("\r\n0\r\n\r\n") != std::string::npos) return text_;
      text_ += more;
    }
  }

 private:
  TestClient client_;
  ClientReply head_;
  std::string text_;
};

service::Activity SomeActivity() {
  service::Activity activity;
  activity.now = std::chrono::milliseconds(100);
  core::StepTrace step;
  step.step = 7;
  step.begin = std::chrono::milliseconds(60);
  step.end = std::chrono::milliseconds(70);
  step.forward = std::chrono::milliseconds(9);
  step.content.items = {{3, core::StepContent::Kind::kPrefill, 16, 32},
                        {4, core::StepContent::Kind::kDecode, 99, 1}};
  step.content.preempted = {5};
  activity.steps = {step};
  service::EndedRequest ended;
  ended.number = 2;
  ended.id = 9;
  ended.tenant = "<script>\"a\"";
  ended.priority = Priority::kLow;
  ended.reason = FinishReason::kLength;
  ended.usage = {.prompt_tokens = 40, .completion_tokens = 8, .cached_tokens = 16};
  ended.times.queue = std::chrono::milliseconds(5);
  activity.ended = {ended};
  activity.ttft.minute = {.count = 3, .p50 = 0.05, .p95 = 0.2, .p99 = 0.25};
  activity.late.minute.count = 1;
  activity.disk_blocks = 11;
  return activity;
}

class HttpEventsTest : public ServerTest {};

TEST_F(HttpEventsTest, AFrameSaysWhatHappened) {
  backend_.set_activity(SomeActivity());
  EngineStats stats;
  stats.kv_blocks_free = 1;
  stats.kv_blocks_held = 2;
  stats.kv_blocks_cached = 3;
  stats.max_batch_size = 16;
  backend_.set_stats(stats);
  EventClient client(port());
  ASSERT_EQ(client.status(), 200);
  EXPECT_THAT(client.head().headers.at("content-type"), HasSubstr("text/event-stream"));
  const json hello = client.Next("hello");
  EXPECT_EQ(hello["kind"], "engine");
  EXPECT_EQ(hello["slots"], 16);
  EXPECT_EQ(hello["models"], json::array({"fake-model"}));
  const json frame = client.Next("frame");
  ASSERT_EQ(frame["steps"].size(), 1U);
  const json& step = frame["steps"][0];
  EXPECT_EQ(step["step"], 7);
  EXPECT_EQ(step["ago_ms"], 40.0);
  EXPECT_EQ(step["ms"], 10.0);
  EXPECT_EQ(step["rows"], json::parse("[[3,0,16,32],[4,1,99,1]]"));
  EXPECT_EQ(step["preempted"], json::array({5}));
  const json& ended = frame["ended"][0];
  EXPECT_EQ(ended["tenant"], "<script>\"a\"");
  EXPECT_EQ(ended["class"], "low");
  EXPECT_EQ(ended["reason"], "length");
  EXPECT_EQ(ended["cached"], 16);
  EXPECT_EQ(ended["queue_ms"], 5.0);
  EXPECT_EQ(frame["blocks"], json::parse(R"({"free":1,"held":2,"cached":3,"disk":11})"));
  EXPECT_EQ(frame["minute"]["ttft_ms"]["p95"], 200.0);
  EXPECT_EQ(frame["minute"]["late"], 1);
  EXPECT_EQ(frame["hour"]["ttft_ms"]["count"], 0);
  EXPECT_FALSE(frame.contains("backends"));
  // What was shown is not shown again.
  const json next = client.Next("frame");
  EXPECT_EQ(next["steps"].size(), 0U);
  EXPECT_EQ(next["ended"].size(), 0U);
}

TEST_F(HttpEventsTest, RequestsAreShownWithoutTheirTexts) {
  backend_.set_script(EndlessTexts(10));
  TestClient generation(port());
  generation.Send(PostBytes("/v1/completions", R"({"prompt":"SECRET","stream":true})"));
  EXPECT_EQ(generation.ReadHead().status, 200);
  EventClient client(port());
  client.Next("hello");
  const json frame = client.Next("frame");
  ASSERT_EQ(frame["requests"].size(), 1U);
  EXPECT_EQ(frame["requests"][0]["state"], "running");
  EXPECT_EQ(frame["requests"][0]["class"], "medium");
  EXPECT_EQ(frame["requests"][0]["position"], nullptr);
  EXPECT_EQ(frame["queue"]["tenants"][0]["running"], 1);
  EXPECT_THAT(frame.dump(), Not(HasSubstr("SECRET")));
  EXPECT_THAT(frame.dump(), Not(HasSubstr("xxxx")));
}

TEST_F(HttpEventsTest, NothingIsDoneWithoutAWatcher) {
  std::this_thread::sleep_for(2 * EventFeed::kPeriod);
  EXPECT_EQ(backend_.looks(), 0);
  {
    EventClient client(port());
    client.Next("frame");
    EXPECT_TRUE(backend_.watched());
  }
  EXPECT_TRUE(Eventually([&] { return !backend_.watched(); }));
  const int looks = backend_.looks();
  std::this_thread::sleep_for(3 * EventFeed::kPeriod);
  EXPECT_EQ(backend_.looks(), looks);
}

TEST_F(HttpEventsTest, AFrameIsMadeOnceForAllWhoWatch) {
  backend_.set_script(EndlessScript);  // Something happens all the time.
  TestClient generation(port());
  generation.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
  EXPECT_EQ(generation.ReadHead().status, 200);
  std::vector<std::unique_ptr<EventClient>> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(std::make_unique<EventClient>(port()));
  for (const auto& client : clients) client->Next("frame");
  const int before = backend_.looks();
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(5 * EventFeed::kPeriod);
  const auto periods = (std::chrono::steady_clock::now() - begin) / EventFeed::kPeriod;
  EXPECT_LE(backend_.looks() - before, periods + 1);
  json at;
  for (const auto& client : clients) {
    const json frame = client->Next("frame");
    EXPECT_TRUE(frame.contains("at"));
  }
}

TEST_F(HttpEventsTest, WatchersAreBounded) {
  std::vector<std::unique_ptr<EventClient>> clients;
  for (size_t i = 0; i < EventFeed::kMostWatchers; ++i) {
    clients.push_back(std::make_unique<EventClient>(port()));
    ASSERT_EQ(clients.back()->status(), 200);
  }
  TestClient one_more(port());
  one_more.Send(kGet);
  const ClientReply reply = one_more.Read();
  EXPECT_EQ(reply.status, 429);
  EXPECT_THAT(reply.body, HasSubstr("at most 32"));
  clients.pop_back();
  EXPECT_TRUE(Eventually([&] { return EventClient(port()).status() == 200; }));
}

// Whether or not there are others.
TEST_F(HttpEventsTest, TheFirstFrameHasTheLastRequests) {
  backend_.set_activity(SomeActivity());
  EventClient first(port());
  EXPECT_EQ(first.Next("frame")["ended"].size(), 1U);
  EXPECT_EQ(first.Next("frame")["ended"].size(), 0U);
  EventClient second(port());
  EXPECT_EQ(second.Next("hello")["process"].get<std::string>().size(), 16U);
  EXPECT_EQ(second.Next("frame")["ended"].size(), 1U);
  EXPECT_EQ(second.Next("frame")["ended"].size(), 0U);
  EXPECT_EQ(first.Next("frame")["ended"].size(), 0U);
}

// A client that reads nothing costs a few frames of memory, and delays no other.
TEST_F(HttpEventsTest, ASlowWatcherLosesFrames) {
  TestClient slow(port(), /*receive_buffer=*/1024);
  slow.Send(kGet);
  EventClient client(port());
  for (int i = 0; i < 5; ++i) {
    service::Activity activity = SomeActivity();
    activity.steps[0].step = static_cast<uint64_t>(i) + 8;
    backend_.set_activity(activity);
    json frame;
    do {
      frame = client.Next("frame");
      ASSERT_FALSE(frame.is_null());
    } while (frame["steps"].empty());
    EXPECT_EQ(frame["steps"][0]["step"], i + 8);
  }
}

TEST_F(HttpEventsTest, HeadHasNoBody) {
  TestClient client(port());
  client.Send("HEAD /admin/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::optional<std::string> reply = client.ReadToEnd();
  ASSERT_TRUE(reply.has_value());
  EXPECT_THAT(*reply, testing::StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(*reply, testing::EndsWith("\r\n\r\n"));
  EXPECT_EQ(backend_.looks(), 0);
}

TEST_F(HttpEventsTest, StoppingTheServerEndsTheStream) {
  EventClient client(port());
  client.Next("frame");
  server_->Stop(std::chrono::seconds(5));
  EXPECT_THAT(client.Rest(), testing::EndsWith("0\r\n\r\n"));
  EXPECT_FALSE(backend_.watched());
}

TEST_F(HttpEventsTest, WithKeysTheAdminAloneMayWatch) {
  ServerOptions options;
  options.api_keys = {{"one", "sk-one-key-1"}};
  options.admin_key = "admin-key-1";
  StartServer(options);
  EXPECT_EQ(EventClient(port()).status(), 401);
  EXPECT_EQ(EventClient(port(), Bearer("sk-one-key-1")).status(), 403);
  EXPECT_EQ(EventClient(port(), Bearer("admin-key-1")).status(), 200);
  options.api_keys.clear();
  StartServer(options);
  EXPECT_EQ(EventClient(port()).status(), 401);
  options.api_keys = {{"one", "sk-one-key-1"}};
  options.admin_key = "";
  StartServer(options);
  EXPECT_EQ(EventClient(port(), Bearer("sk-one-key-1")).status(), 403);
}

TEST(FrameEvent, IsBounded) {
  FrameParts parts;
  for (uint64_t i = 1; i <= 100; ++i) {
    core::StepTrace step;
    step.step = i;
    parts.activity.steps.push_back(step);
  }
  for (RequestId id = 1; id <= 600; ++id) {
    service::RequestInfo request;
    request.id = id;
    request.tenant = "tenant" + std::to_string(id % 40);
    parts.requests.push_back(request);
  }
  const std::string text = FrameEvent(parts);
  const json frame = json::parse(text.substr(text.find('{')));
  EXPECT_EQ(frame["steps"].size(), kMaxFrameSteps);
  EXPECT_EQ(frame["steps"][0]["step"], 37);
  EXPECT_EQ(frame["steps_left_out"], 36);
  EXPECT_EQ(frame["requests"].size(), kMaxFrameRequests);
  EXPECT_EQ(frame["requests_left_out"], 88);
  EXPECT_EQ(frame["queue"]["tenants"].size(), kMaxFrameTenants);
  EXPECT_EQ(frame["queue"]["tenants_left_out"], 8);
}

}  // namespace
}  // namespace ropeway::server
