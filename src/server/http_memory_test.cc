// A connection that runs out of memory ends without affecting others.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "server/routes.h"
#include "server/server_context.h"
#include "server/test_failing_new.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

constexpr char kIoThreads[] = "ropeway-io";
// nlohmann::json allocates in its destructor, which may not throw: a few dozen pointers at most. So
// where JSON is used, only larger allocations fail.
constexpr size_t kLargerThanJsonsOwn = 512;

class HttpMemoryTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerLimits limits;
    limits.max_connections = 2;  // A leaked slot is noticed soon.
    StartServer(limits);
  }

  // Sends `request` repeatedly; each time another allocation of the connection's life fails, from
  // accept to close. Expects an answer or the end of the connection, and that the next client is
  // served. Returns how many got no answer.
  int FailEach(const std::string& request, size_t least_bytes) {
    int failed = 0;
    int made = 1;
    for (int n = 1; n <= made; ++n) {
      FailAllocation(kIoThreads, n, least_bytes);
      {
        TestClient client(port());
        client.Send(request);
        const int status = client.Read().status;
        if (status != 200) ++failed;
        if (status == 0) {
          EXPECT_TRUE(client.ReadToEnd().has_value()) << n;
        }
      }
      // The allocations of the connection's end count too, so wait for it. They may be made by the
      // next connection instead.
      EXPECT_TRUE(Eventually([&] { return Served(); })) << n;
      made = std::max(made, FailAllocation(kIoThreads, 0));
      EXPECT_TRUE(backend_.WaitIdle()) << n;
    }
    return failed;
  }

  bool Served() { return TestClient(port()).Get("/metrics").status == 200; }
};

TEST_F(HttpMemoryTest, EachFailedAllocationCostsOneConnection) {
  EXPECT_GT(FailEach("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 0), 20);
  for (const char* body :
       {R"({"prompt":"a","max_tokens":2,"stream":true})", R"({"prompt":"a","max_tokens":2})"}) {
    EXPECT_GT(FailEach(PostBytes("/v1/completions", body), kLargerThanJsonsOwn), 1) << body;
  }
  // Both slots are free once the server has seen the last connection's end.
  EXPECT_TRUE(Eventually([&] {
    TestClient a(port());
    TestClient b(port());
    return a.Get("/livez").status == 200 &&
           b.Get("/metrics").body.find("ropeway_http_connections 2\n") != std::string::npos;
  }));
}

// Whichever allocation fails, either all that a reload brings counts or nothing.
TEST_F(HttpMemoryTest, AReloadThatFailsChangesNothing) {
  constexpr char kReloads[] = "reloads";
  ServerOptions options;
  options.api_keys = {{"ann", "secret-of-ann"}, {"bob", "secret-of-bob"}};
  options.admin_key = "secret-of-admin";
  StartServer(options);
  const auto status_with = [this](const std::string& key) {
    TestClient client(port());
    client.Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + Bearer(key) + "\r\n");
    return client.Read().status;
  };
  const auto metrics = [this] {
    TestClient client(port());
    client.Send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + Bearer("secret-of-admin") +
                "\r\n");
    return client.Read().body;
  };
  options.api_keys = {{"ann", "secret-of-ann"}, {"cid", "secret-of-cid"}, {"dan", "secret-of-dan"}};
  Status status(StatusCode::kInternal, "");
  int failed = 0;
  for (int n = 1; !status.ok() && n < 1000; ++n) {
    std::thread([&] {
      pthread_setname_np(pthread_self(), kReloads);
      FailAllocation(kReloads, n);
      status = server_->Reload(options);
      FailAllocation(kReloads, 0);
    }).join();
    if (status.ok()) break;
    ++failed;
    ASSERT_EQ(status_with("secret-of-bob"), 200) << n;
    ASSERT_EQ(status_with("secret-of-cid"), 401) << n;
    ASSERT_EQ(metrics().find("tenant=\"cid\""), std::string::npos) << n;
  }
  EXPECT_TRUE(status.ok());
  EXPECT_GT(failed, 5);
  EXPECT_EQ(status_with("secret-of-bob"), 401);
  EXPECT_EQ(status_with("secret-of-cid"), 200);
  EXPECT_NE(metrics().find("tenant=\"cid\""), std::string::npos);
}

// Whichever allocation fails, the next answer names the fields all the same.
TEST_F(HttpMemoryTest, IgnoredFieldsThatCannotBeToldHoldUpNobody) {
  constexpr char kTells[] = "tells";
  ServerContext context(ServerOptions(), &backend_, ServerRoutes, NoRoute);
  const auto headers_of = [&](const std::vector<std::string>& names) {
    http::Exchange exchange(&context.http, nullptr, nullptr, {});
    context.TellIgnored(names, &exchange);
    return exchange.headers;
  };
  bool told = false;
  int failed = 0;
  for (int n = 1; !told && n < 1000; ++n) {
    const std::vector<std::string> names = {"a-name-that-no-other-request-has-" +
                                            std::to_string(n)};
    std::thread([&] {
      pthread_setname_np(pthread_self(), kTells);
      FailAllocation(kTells, n);
      try {
        headers_of(names);
        told = FailAllocation(kTells, 0) < n;  // Else the log lacks a line.
      } catch (const std::bad_alloc&) {
        FailAllocation(kTells, 0);
        ++failed;
      }
    }).join();
    EXPECT_EQ(headers_of(names), (http::HttpHeaders{{"x-ropeway-ignored", names[0]}})) << n;
  }
  EXPECT_TRUE(told);
  EXPECT_GT(failed, 2);
}

}  // namespace
}  // namespace ropeway::server
