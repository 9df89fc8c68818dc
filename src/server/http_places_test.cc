// Which clients may have a connection, and which give way, over real sockets.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using testing::HasSubstr;

class HttpPlacesTest : public ServerTest {
 protected:
  static constexpr const char* kA = "key-of-team-a";
  static constexpr const char* kB = "key-of-team-b";
  static constexpr const char* kAdmin = "key-of-the-admin";

  void Start(int max_connections, bool with_keys, std::vector<std::string> trusted_proxies = {}) {
    server_->Stop();
    ServerOptions options;
    options.limits.max_connections = max_connections;
    if (with_keys) options.api_keys = {{"team-a", kA}, {"team-b", kB}};
    options.admin_key = kAdmin;
    options.trusted_proxies = std::move(trusted_proxies);
    StartServer(options);
    backend_.set_script(EndlessScript);
  }

  // Begins a stream that does not end; returns the status of the answer.
  int Begin(const std::string& headers) {
    clients_.push_back(std::make_unique<TestClient>(port()));
    clients_.back()->Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})", headers));
    return clients_.back()->ReadHead().status;
  }

  ClientReply Get(const std::string& path, const std::string& headers = "") {
    TestClient client(port());
    client.Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return client.Read();
  }

  std::vector<std::unique_ptr<TestClient>> clients_;
};

TEST_F(HttpPlacesTest, AFullServerAnswersProbesAndTheAdmin) {
  Start(2, false);
  EXPECT_EQ(Begin(""), 200);
  EXPECT_EQ(Begin(""), 200);
  for (const char* path : {"/livez", "/readyz", "/health"}) {
    ClientReply probe = Get(path);
    EXPECT_EQ(probe.status, 200) << path;
    EXPECT_EQ(probe.headers["connection"], "close") << "others may need its place";
  }
  EXPECT_EQ(Get("/admin/requests", Bearer(kAdmin)).status, 200);
  ClientReply rejected = Get("/v1/models");
  EXPECT_EQ(rejected.status, 503);
  EXPECT_EQ(rejected.headers["retry-after"], "1");
  EXPECT_EQ(TestClient(port()).Post("/v1/completions", R"({"prompt":"a"})").status, 503);
  // However many hold the places for probes and say nothing.
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<TestClient>(port()));
  EXPECT_EQ(Get("/livez").status, 200);
  clients_.pop_back();
  EXPECT_TRUE(Eventually([&] {
    const ClientReply metrics = Get("/metrics");
    return metrics.status == 200 &&
           metrics.body.find("ropeway_http_rejected_connections_total") != std::string::npos &&
           metrics.body.find("ropeway_http_rejected_connections_total 0\n") == std::string::npos;
  }));
}

// As the attack did: connections that ask for health now and then, without a key.
TEST_F(HttpPlacesTest, StrangersGiveWay) {
  Start(8, true);
  for (int i = 0; i < 20; ++i) {
    clients_.push_back(std::make_unique<TestClient>(port()));
    clients_.back()->Send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(clients_.back()->Read().status, 200);
  }
  EXPECT_EQ(clients_.front()->ReadToEnd(), "") << "the oldest is closed";
  EXPECT_EQ(Begin(Bearer(kB)), 200);
  EXPECT_EQ(Get("/v1/models", Bearer(kA)).status, 200);
  EXPECT_EQ(Get("/livez").status, 200);
  // Those that send half a request, or a body for a path that takes none, are no better.
  for (int i = 0; i < 20; ++i) {
    for (const char* half :
         {"GET /liv",
          "GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
      clients_.push_back(std::make_unique<TestClient>(port()));
      clients_.back()->Send(half);
    }
  }
  EXPECT_EQ(Get("/v1/models", Bearer(kA)).status, 200);
  EXPECT_EQ(backend_.active(), 1) << "who has a key is not evicted by them";
  EXPECT_THAT(Get("/metrics", Bearer(kAdmin)).body,
              testing::Not(HasSubstr("ropeway_http_evicted_connections_total 0\n")));
}

TEST_F(HttpPlacesTest, ATenantsConnectionsLeaveRoomForAnothers) {
  Start(10, true);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Begin(Bearer(kA)), 200) << i;
  EXPECT_EQ(Begin(Bearer(kA)), 503) << "of 10 one tenant gets half";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Begin(Bearer(kB)), 200) << i;
  EXPECT_EQ(Get("/v1/models", Bearer(kB)).status, 200);
  clients_[0]->Close();
  clients_[1]->Close();
  EXPECT_TRUE(Eventually([&] { return Begin(Bearer(kA)) == 200; }));
}

// As many as come, and none hangs up when it is rejected.
TEST_F(HttpPlacesTest, ATenantThatIsRejectedLocksNobodyOut) {
  Start(4, true);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Begin(Bearer(kA)), 200) << i;
  for (int i = 0; i < 250; ++i) {
    clients_.push_back(std::make_unique<TestClient>(port()));
    clients_.back()->Send(PostBytes("/v1/completions", R"({"prompt":"a"})", Bearer(kA)));
  }
  EXPECT_EQ(Get("/livez").status, 200);
  EXPECT_EQ(Begin(Bearer(kB)), 200);
  EXPECT_EQ(backend_.active(), 3);
}

// A connection that a tenant leaves idle is the first to go for its next one.
TEST_F(HttpPlacesTest, ATenantsOldestIdleConnectionGivesWayToItsOwn) {
  Start(4, true);
  for (int i = 0; i < 2; ++i) {
    clients_.push_back(std::make_unique<TestClient>(port()));
    clients_.back()->Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + Bearer(kA) + "\r\n");
    EXPECT_EQ(clients_.back()->Read().status, 200);
  }
  EXPECT_EQ(Begin(Bearer(kA)), 200);
  EXPECT_EQ(clients_[0]->ReadToEnd(), "");
  clients_[1]->Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + Bearer(kA) + "\r\n");
  EXPECT_EQ(clients_[1]->Read().status, 200);
}

TEST_F(HttpPlacesTest, BehindATrustedProxyTheClientsAddressCounts) {
  Start(10, false, {"127.0.0.0/8"});
  const auto from = [](const std::string& address) {
    return "X-Forwarded-For: " + address + "\r\n";
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Begin(from("6.6.6.6, 9.9.9.9")), 200) << i;
  EXPECT_EQ(Begin(from("7.7.7.7, 9.9.9.9")), 503) << "what a client says itself does not count";
  EXPECT_EQ(Begin("Forwarded: for=9.9.9.9\r\n"), 503);
  EXPECT_EQ(Begin(from("8.8.8.8")), 200);
  // Without a trusted proxy the header is anybody's invention, and loopback has no limit.
  clients_.clear();
  Start(10, false);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Begin(from("9.9.9.9")), 200) << i;
}

TEST_F(HttpPlacesTest, ProxiesThatAreNoAddressesAreRejectedAtStart) {
  ServerOptions options;
  options.trusted_proxies = {"10.0.0.1", "proxy.example"};
  ApiServer server(options, &backend_);
  const Status status = server.Start();
  EXPECT_EQ(status.field(), "trusted_proxies");
  EXPECT_THAT(status.message(), HasSubstr("proxy.example"));
}

// One line with a count, not one for each attempt; and it goes on once there are descriptors.
TEST_F(HttpPlacesTest, OutOfDescriptorsIsSaidOnceInAWhile) {
  server_->Stop();  // No thread may use the logger meanwhile.
  std::ostringstream lines;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "places", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines)));
  StartServer();
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  low.rlim_cur = 512;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<int> fillers;
  for (int filler = ::dup(fd); filler >= 0; filler = ::dup(fd)) fillers.push_back(filler);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // Ten attempts.
  for (const int filler : fillers) ::close(filler);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::string request = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string reply(1000, '\0');
  EXPECT_GT(::recv(fd, reply.data(), reply.size(), 0), 0);
  EXPECT_THAT(reply, HasSubstr("HTTP/1.1 200"));
  ::close(fd);
  server_->Stop();
  spdlog::set_default_logger(before);
  const std::string text = lines.str();
  const size_t first = text.find("Cannot accept connections");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("Cannot accept connections", first + 1), std::string::npos) << text;
}

}  // namespace
}  // namespace ropeway::server
