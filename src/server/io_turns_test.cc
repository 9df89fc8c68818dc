// What I/O threads do themselves is shared between tenants too, over real sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

// With one I/O thread. Each completion of tenant a holds it until the test permits that to end.
class IoTurnsTest : public ServerTest {
 protected:
  static constexpr const char* kA = "key-aaaaaaaa";
  static constexpr const char* kB = "key-bbbbbbbb";
  static constexpr const char* kPath = "/v1/completions";
  static constexpr const char* kSmall = R"({"prompt":"x"})";
  static constexpr int kClients = 40;
  // Turns of a, between which the thread sees what b has sent. Far more wait.
  static constexpr int kFew = 8;

  void SetUp() override {
    ServerOptions options;
    options.io_threads = 1;
    options.api_keys = {{.name = "a", .key = kA}, {.name = "b", .key = kB}};
    StartServer(options);
    backend_.set_script([this](const Request& request) {
      if (request.tenant == "a") {
        ++begun_;
        permits_.acquire();
      }
      FakeScript script;
      script.rejection = {StatusCode::kResourceExhausted, "There is no place."};
      return script;
    });
  }

  void TearDown() override {
    permits_.release(2 * kClients);
    ServerTest::TearDown();
  }

  static void SendGet(TestClient* client, const std::string& path, const char* key) {
    client->Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + Bearer(key) + "\r\n");
  }

  // A client that the server knows.
  std::unique_ptr<TestClient> Connect(const char* key) {
    auto client = std::make_unique<TestClient>(port());
    SendGet(client.get(), "/v1/models", key);
    EXPECT_EQ(client->Read().status, 200);
    return client;
  }

  // Clients of tenant a whose requests wait while the first one's holds the thread.
  std::vector<std::unique_ptr<TestClient>> BusyClients() {
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < kClients; ++i) clients.push_back(Connect(kA));
    for (const auto& client : clients) client->Send(PostBytes(kPath, kSmall, Bearer(kA)));
    EXPECT_TRUE(Eventually([this] { return begun_ == 1; }));
    return clients;
  }

  std::counting_semaphore<> permits_{0};
  std::atomic<int> begun_{0};
};

TEST_F(IoTurnsTest, ATenantsSmallRequestsHoldUpNoOther) {
  const auto client = Connect(kB);
  const auto busy = BusyClients();
  SendGet(client.get(), "/v1/queue", kB);
  permits_.release(kFew);
  EXPECT_EQ(client->Read().status, 200);
  client->Send(PostBytes(kPath, kSmall, Bearer(kB)));
  permits_.release(kFew);
  EXPECT_EQ(client->Read().status, 429);
  EXPECT_LE(begun_, 2 * kFew + 1) << "the others still wait";
  permits_.release(kClients);
  for (const auto& each : busy) EXPECT_EQ(each->Read().status, 429);
  EXPECT_EQ(begun_, kClients);
}

TEST_F(IoTurnsTest, ANewcomerIsAcceptedBetweenFewTurns) {
  const auto busy = BusyClients();
  std::vector<std::unique_ptr<TestClient>> before;
  for (int i = 0; i < 30; ++i) before.push_back(std::make_unique<TestClient>(port()));
  TestClient client(port());
  SendGet(&client, "/v1/queue", kB);
  permits_.release(kFew);
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_LE(begun_, kFew + 1) << "the others still wait";
  permits_.release(kClients);
  for (const auto& each : busy) EXPECT_EQ(each->Read().status, 429);
}

// Else one thread would do the work of all.
TEST_F(IoTurnsTest, ConnectionsThatComeOneByOneGoToAllThreads) {
  server_->Stop();
  ServerOptions options;
  options.io_threads = 2;
  StartServer(options);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  backend_.set_script([&](const Request&) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return FakeScript();
  });
  for (int i = 0; i < 2; ++i) {
    TestClient client(port());
    client.Send(PostBytes(kPath, kSmall));
    EXPECT_EQ(client.Read().status, 200);
  }
  EXPECT_EQ(threads.size(), 2);
}

TEST_F(IoTurnsTest, WhoLeavesWhileItWaitsHasNoTurn) {
  const auto client = Connect(kB);
  BusyClients().clear();
  permits_.release(kClients);
  SendGet(client.get(), "/v1/queue", kB);
  EXPECT_EQ(client->Read().status, 200);
  Connect(kA);  // Its turn comes after all of theirs.
  EXPECT_LT(begun_, kClients / 2);
}

}  // namespace
}  // namespace ropeway::server
