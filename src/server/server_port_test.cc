#include "http/server_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "server/api_server.h"
#include "server/test_client.h"
#include "server/test_fake_backend.h"

namespace ropeway::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ServerPortTest, APortInUseIsSaidWithAFreeOne) {
  FakeBackend backend;
  ApiServer first(ServerOptions(), &backend);
  ASSERT_TRUE(first.Start().ok());
  ServerOptions options;
  options.port = first.port();
  const Status status = http::ServerPort::Open(options).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.field(), "port");
  const std::string begin =
      "port " + std::to_string(first.port()) + " is in use: choose another one, such as --port ";
  ASSERT_THAT(status.message(), StartsWith(begin));
  const int other = std::stoi(status.message().substr(begin.size()));
  if (other == 0) return;  // None of the next ones is free.
  EXPECT_GT(other, first.port());
  options.port = static_cast<uint16_t>(other);
  EXPECT_TRUE(http::ServerPort::Open(options).ok());
}

// When two servers start at one time, only one loads its model.
TEST(ServerPortTest, APortThatIsTakenIsInUseBeforeAServerListens) {
  const StatusOr<http::ServerPort> early = http::ServerPort::Open({});
  ASSERT_TRUE(early.ok());
  ServerOptions options;
  options.port = early->acceptor.local_endpoint().port();
  const Status status = http::ServerPort::Open(options).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.field(), "port");
  EXPECT_THAT(status.message(), StartsWith("port " + std::to_string(options.port) +
                                           " is in use: choose another one, such as --port "));
}

// The ends of its connections hold the port for a minute. A new server takes it all the same, and
// for itself alone.
TEST(ServerPortTest, AServerStartsAnewWhereConnectionsHaveJustEnded) {
  FakeBackend backend;
  ServerOptions options;
  std::optional<ApiServer> first(std::in_place, options, &backend);
  ASSERT_TRUE(first->Start().ok());
  options.port = first->port();
  {
    TestClient client(options.port);
    EXPECT_EQ(client.Get("/livez").status, 200);
    first.reset();
  }
  StatusOr<http::ServerPort> port = http::ServerPort::Open(options);
  ASSERT_TRUE(port.ok()) << port.status().message();
  EXPECT_FALSE(http::ServerPort::Open(options).ok());
  ApiServer second(options, &backend);
  ASSERT_TRUE(second.Start(*std::move(port)).ok());
  EXPECT_EQ(TestClient(options.port).Get("/livez").status, 200);
}

TEST(ServerPortTest, RefusesConnectionsUntilAServerHasIt) {
  ServerOptions options;
  StatusOr<http::ServerPort> port = http::ServerPort::Open(options);
  ASSERT_TRUE(port.ok());
  const uint16_t number = port->acceptor.local_endpoint().port();
  EXPECT_EQ(TestClient(number).Get("/livez").status, 0);
  FakeBackend backend;
  ApiServer server(options, &backend);
  ASSERT_TRUE(server.Start(*std::move(port)).ok());
  EXPECT_EQ(server.port(), number);
  EXPECT_EQ(TestClient(number).Get("/livez").status, 200);
}

TEST(ServerPortTest, ReadsTheCertificate) {
  ServerOptions options;
  options.tls_cert = "no/such.pem";
  options.tls_key = "no/such.pem";
  const Status status = http::ServerPort::Open(options).status();
  EXPECT_EQ(status.field(), "tls_cert");
  EXPECT_THAT(status.message(), HasSubstr("no/such.pem"));
}

}  // namespace
}  // namespace ropeway::server
