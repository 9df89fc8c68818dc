// POST /api/pull over real sockets, with a function in the place of the registry.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "server/model_pulls.h"
#include "server/test_failing_new.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A registry whose pulls do as the test says. Shared with the pulls, which may outlive a server.
struct Registry {
  std::mutex mutex;
  std::condition_variable changed;
  bool held = false;                // Pulls wait behind their first pieces.
  bool lingers = false;             // Pulls that are given up do not end.
  Status failure;                   // How they end, unless it is OK.
  bool fails_at_once = false;       // Before they tell anything.
  std::vector<std::string> pulled;  // The names that were asked for.
  std::atomic<int> given_up{0};

  void Hold(bool hold) {
    const std::lock_guard lock(mutex);
    held = hold;
    changed.notify_all();
  }
  void Linger(bool linger) {
    const std::lock_guard lock(mutex);
    lingers = linger;
    changed.notify_all();
  }
  std::vector<std::string> names() {
    const std::lock_guard lock(mutex);
    return pulled;
  }

  StatusOr<std::string> Pull(const std::string& name,
                             const std::function<bool(PullProgress)>& tell) {
    {
      const std::lock_guard lock(mutex);
      pulled.push_back(name);
      if (fails_at_once) return failure;
    }
    tell({"pulling manifest"});
    bool wanted = true;
    for (uint64_t done = 0; done <= 100 && wanted; done += 20) {
      wanted = tell({"pulling f", "sha256:1", 100, done});
      std::unique_lock lock(mutex);
      while (held && wanted) {
        changed.wait_for(lock, std::chrono::milliseconds(5));
        lock.unlock();
        wanted = tell({"pulling f", "sha256:1", 100, done});
        lock.lock();
      }
    }
    if (!wanted) {
      ++given_up;
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !lingers; });
      return Status(StatusCode::kCancelled, "nobody waits");
    }
    if (!failure.ok()) return failure;
    return "file-of-" + name;
  }
};

class HttpPullTest : public ServerTest {
 protected:
  void SetUp() override { StartPulling({}); }
  void TearDown() override {
    registry_->Hold(false);
    registry_->Linger(false);
    ServerTest::TearDown();
  }

  void StartPulling(ServerOptions options) {
    options.pull_model = [registry = registry_](const std::string& name, const auto& tell) {
      return registry->Pull(name, tell);
    };
    StartServer(options);
  }

  ClientReply Pull(const std::string& members, const std::string& headers = "") {
    TestClient client(port());
    client.Send(PostBytes("/api/pull", "{" + members + "}", headers));
    return client.Read();
  }
  static std::vector<json> PullLines(const std::string& body) {
    std::vector<json> lines;
    std::istringstream in(body);
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }
  static std::string PullError(const ClientReply& reply) {
    const json body = json::parse(reply.body);
    EXPECT_EQ(body.size(), 1U) << reply.body;
    return body.value("error", "");
  }

  const std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
};

TEST_F(HttpPullTest, TellsHowFarItIs) {
  ClientReply reply = Pull(R"("model":"sea:latest","insecure":false)");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers["content-type"], "application/x-ndjson");
  const std::vector<json> lines = PullLines(reply.body);
  ASSERT_GE(lines.size(), 4U) << reply.body;
  EXPECT_EQ(lines.front(), (json{{"status", "pulling manifest"}}));
  EXPECT_EQ(
      lines[lines.size() - 3],
      json::parse(R"({"status":"pulling f","digest":"sha256:1","total":100,"completed":100})"));
  EXPECT_THAT(lines[lines.size() - 2]["status"].get<std::string>(),
              HasSubstr("ropeway serve --model file-of-sea"));
  EXPECT_EQ(lines.back(), (json{{"status", "success"}}));
  EXPECT_EQ(registry_->names(), std::vector<std::string>{"sea"});
}

TEST_F(HttpPullTest, OrOnlyThatItIsDone) {
  ClientReply reply = Pull(R"("name":"sea","stream":false)");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers["content-type"], "application/json");
  EXPECT_EQ(json::parse(reply.body), (json{{"status", "success"}}));
}

TEST_F(HttpPullTest, FailuresAreErrors) {
  registry_->failure = {StatusCode::kNotFound, "It is not in the registry.", "model"};
  registry_->fails_at_once = true;
  for (const char* stream : {"true", "false"}) {
    const ClientReply reply = Pull(std::string(R"("model":"sea","stream":)") + stream);
    EXPECT_EQ(reply.status, 404) << stream;
    EXPECT_EQ(PullError(reply), "It is not in the registry.");
  }
  registry_->fails_at_once = false;
  registry_->Hold(true);
  TestClient client(port());
  client.Send(PostBytes("/api/pull", R"({"model":"sea"})"));
  ClientReply reply = client.ReadHead();
  EXPECT_EQ(reply.status, 200);
  registry_->Hold(false);
  client.ReadBody(&reply);
  EXPECT_EQ(PullLines(reply.body).back(), (json{{"error", "It is not in the registry."}}));
  for (const char* bad : {"", R"("model":1)", R"("model":"sea","stream":1)"}) {
    EXPECT_EQ(Pull(bad).status, 400) << bad;
  }
  const std::string padding(ServerLimits().max_inline_body_bytes, 'x');
  EXPECT_EQ(Pull(R"("model":"sea","x":")" + padding + '"').status, 413);
}

// Only ":latest" stands for no tag.
TEST_F(HttpPullTest, OtherTagsAreAskedForAsTheyAre) {
  for (const char* name : {"sea:7b", "hf:owner/repo", "library/sea"}) {
    EXPECT_EQ(Pull(fmt::format(R"("model":"{}","stream":false)", name)).status, 200) << name;
  }
  EXPECT_THAT(registry_->names(), testing::ElementsAre("sea:7b", "hf:owner/repo", "library/sea"));
}

TEST_F(HttpPullTest, OneModelIsPulledAtATime) {
  registry_->Hold(true);
  TestClient first(port());
  first.Send(PostBytes("/api/pull", R"({"model":"sea"})"));
  ClientReply reply = first.ReadHead();
  const ClientReply other = Pull(R"("model":"river")");
  EXPECT_EQ(other.status, 503);
  EXPECT_THAT(PullError(other), HasSubstr("'sea' is being pulled"));
  // The same one is joined.
  TestClient second(port());
  second.Send(PostBytes("/api/pull", R"({"model":"sea","stream":true})"));
  ClientReply joined = second.ReadHead();
  registry_->Hold(false);
  first.ReadBody(&reply);
  second.ReadBody(&joined);
  for (const ClientReply* one : {&reply, &joined}) {
    EXPECT_EQ(PullLines(one->body).back(), (json{{"status", "success"}}));
  }
  EXPECT_EQ(registry_->names(), std::vector<std::string>{"sea"});
  EXPECT_EQ(Pull(R"("model":"river","stream":false)").status, 200) << "the next one";
}

// As Ollama's: what has come is kept for the next pull.
TEST_F(HttpPullTest, IsGivenUpWhenNobodyWaits) {
  registry_->Hold(true);
  TestClient first(port());
  first.Send(PostBytes("/api/pull", R"({"model":"sea"})"));
  first.ReadHead();
  TestClient second(port());
  second.Send(PostBytes("/api/pull", R"({"model":"sea"})"));
  second.ReadHead();
  first.Close();
  EXPECT_EQ(registry_->given_up, 0);
  second.Close();
  EXPECT_TRUE(Eventually([&] { return registry_->given_up == 1; }));
}

TEST_F(HttpPullTest, WhatIsBeingGivenUpIsNotJoinedButFollowed) {
  for (const char* name : {"sea", "river"}) {
    registry_->Hold(true);
    registry_->Linger(true);
    registry_->given_up = 0;
    TestClient first(port());
    first.Send(PostBytes("/api/pull", R"({"model":"sea"})"));
    first.ReadHead();
    first.Close();
    ASSERT_TRUE(Eventually([&] { return registry_->given_up == 1; }));
    TestClient second(port());
    second.Send(PostBytes("/api/pull", json{{"model", name}}.dump()));
    ClientReply reply = second.ReadHead();
    const ClientReply other = Pull(R"("model":"lake")");
    EXPECT_EQ(other.status, 503);
    EXPECT_THAT(PullError(other), HasSubstr("'" + std::string(name) + "' is being pulled"));
    registry_->Hold(false);
    registry_->Linger(false);
    second.ReadBody(&reply);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(PullLines(reply.body).back(), (json{{"status", "success"}})) << reply.body;
    EXPECT_EQ(registry_->names().back(), name);
  }
  EXPECT_EQ(registry_->names(), (std::vector<std::string>{"sea", "sea", "sea", "river"}));
}

// One that waits for its turn may be left, too.
TEST_F(HttpPullTest, WhatWaitsForItsTurnIsGivenUpWhenNobodyWaits) {
  registry_->Hold(true);
  registry_->Linger(true);
  for (const char* name : {"sea", "river"}) {
    TestClient client(port());
    client.Send(PostBytes("/api/pull", json{{"model", name}}.dump()));
    client.ReadHead();
    client.Close();
    ASSERT_TRUE(Eventually([&] { return registry_->given_up == 1; }));
  }
  std::unique_ptr<TestClient> last;
  ClientReply reply;
  ASSERT_TRUE(Eventually([&] {
    last = std::make_unique<TestClient>(port());
    last->Send(PostBytes("/api/pull", R"({"model":"lake"})"));
    reply = last->ReadHead();
    return reply.status == 200;
  })) << "the server learns of the leaving soon";
  registry_->Hold(false);
  registry_->Linger(false);
  last->ReadBody(&reply);
  EXPECT_EQ(PullLines(reply.body).back(), (json{{"status", "success"}})) << reply.body;
  EXPECT_EQ(registry_->names(), (std::vector<std::string>{"sea", "lake"}));
}

// Whichever allocation of the handler fails.
TEST_F(HttpPullTest, AFailureBeforeTheFirstByteIsAnswered) {
  constexpr char kIo[] = "ropeway-io";
  constexpr size_t kLong = 3000;  // Only copies of the name are so long, and bytes of the request.
  const std::string body = json{{"model", std::string(kLong, 'm')}, {"stream", false}}.dump();
  const auto fail = [&](int n) {
    FailAllocation(kIo, n, kLong);
    return TestClient(port()).Post("/api/pull", body);
  };
  EXPECT_EQ(fail(1 << 30).status, 200);
  const int made = FailAllocation(kIo, 0);
  int answered = 0;
  for (int n = 1; n <= made; ++n) {
    const ClientReply reply = fail(n);
    FailAllocation(kIo, 0);
    if (reply.status != 503) continue;
    ++answered;
    EXPECT_THAT(PullError(reply), HasSubstr("too little memory"));
  }
  EXPECT_GE(answered, 3);
  EXPECT_EQ(Pull(R"("model":"sea","stream":false)").status, 200);
}

TEST_F(HttpPullTest, AStopEndsIt) {
  registry_->Hold(true);
  TestClient client(port());
  client.Send(PostBytes("/api/pull", R"({"model":"sea"})"));
  client.ReadHead();
  server_->Stop();
  EXPECT_TRUE(Eventually([&] { return registry_->given_up == 1; }));
}

TEST_F(HttpPullTest, NeedsTheFlagAndTheAdminsKeyWhereThereAreKeys) {
  StartServer();
  const ClientReply off = Pull(R"("model":"sea")");
  EXPECT_EQ(off.status, 403);
  EXPECT_THAT(PullError(off), HasSubstr("--allow-pull"));
  ServerOptions options;
  options.admin_key = "the-admins-key";
  StartPulling(options);
  EXPECT_EQ(Pull(R"("model":"sea")").status, 401);
  options.api_keys = {{"one", "the-key-of-one"}};
  StartPulling(options);
  EXPECT_EQ(Pull(R"("model":"sea")").status, 401);
  EXPECT_EQ(Pull(R"("model":"sea")", Bearer("the-key-of-one")).status, 403);
  EXPECT_TRUE(registry_->names().empty());
  EXPECT_EQ(Pull(R"("model":"sea","stream":false)", Bearer("the-admins-key")).status, 200);
}

// No page in a browser may make the server fetch gigabytes.
TEST_F(HttpPullTest, NoPageOfAnotherOriginMayAsk) {
  const ClientReply reply = Pull(R"("model":"sea")", "Origin: https://evil.example\r\n");
  EXPECT_EQ(reply.status, 403);
  EXPECT_TRUE(registry_->names().empty());
}

}  // namespace
}  // namespace ropeway::server
