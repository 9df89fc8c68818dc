// A server over a fake backend, for tests with real sockets.
#ifndef ROPEWAY_SERVER_TEST_SERVER_H_
#define ROPEWAY_SERVER_TEST_SERVER_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/api_server.h"
#include "server/test_client.h"
#include "server/test_fake_backend.h"

namespace ropeway::server {

// The script of requests that run until they are cancelled.
inline FakeScript EndlessScript(const Request&) {
  FakeScript script;
  script.endless = true;
  return script;
}

// An endless answer with `bytes` bytes of text in each delta.
inline FakeBackend::ScriptFn EndlessTexts(size_t bytes) {
  return [bytes](const Request& request) {
    FakeScript script = EndlessScript(request);
    script.text = [bytes](int) { return std::string(bytes, 'x'); };
    return script;
  };
}

// Waits for `holds` for at most a minute. Returns whether it held.
inline bool Eventually(const std::function<bool()>& holds) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > patience) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

class ServerTest : public testing::Test {
 protected:
  // Replaces a running server.
  void StartServer(ServerLimits limits = {}, int io_threads = 1) {
    ServerOptions options;
    options.limits = limits;
    options.io_threads = io_threads;
    StartServer(options);
  }

  void StartServer(const ServerOptions& options, const RoutesMaker& routes = ServerRoutes) {
    server_ = std::make_unique<ApiServer>(options, &backend_, routes);
    Status status = server_->Start();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void SetUp() override { StartServer(); }

  // After every test, whatever it did: nothing is left in the backend.
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
    EXPECT_TRUE(backend_.WaitIdle());
  }

  // Returns the answer to a streamed request whose script fails it after the headers were sent.
  // Without holding the failure back it may come first, as the answer's status.
  ClientReply StreamThatFails(const std::string& path, const std::string& body) {
    backend_.set_hold_failures(true);
    TestClient client(port());
    client.Send(PostBytes(path, body));
    ClientReply reply = client.ReadHead();
    backend_.set_hold_failures(false);
    client.ReadBody(&reply);
    return reply;
  }

  uint16_t port() const { return server_->port(); }

  FakeBackend backend_;
  std::unique_ptr<ApiServer> server_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TEST_SERVER_H_
