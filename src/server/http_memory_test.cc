// A connection that memory cannot be had for ends alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "server/test_failing_new.h"
#include "server/test_server.h"

namespace ropeway {
namespace {

constexpr char kIoThreads[] = "ropeway-io";
// nlohmann::json allocates in its destructor, which may not throw: a few dozen pointers at most, so
// what fails beside JSON is larger.
constexpr size_t kLargerThanJsonsOwn = 512;

class HttpMemoryTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerLimits limits;
    limits.max_connections = 2;  // A place that leaks is missed soon.
    StartServer(limits);
  }

  // Sends `request` again and again, and each time another one of the allocations of the
  // connection's life fails, the accepting and the closing included. Its client sees an answer or
  // the end of its connection, and the next one is served. Returns how many did not get their
  // answer.
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
      // What is left of the connection is counted too: the next one comes after its end. That one
      // may be hit in its place.
      EXPECT_TRUE(Eventually([&] { return Served(); })) << n;
      made = std::max(made, FailAllocation(kIoThreads, 0));
      EXPECT_TRUE(backend_.WaitIdle()) << n;
    }
    return failed;
  }

  bool Served() { return TestClient(port()).Get("/metrics").status == 200; }
};

TEST_F(HttpMemoryTest, EachFailedAllocationCostsOneConnection) {
  EXPECT_GT(FailEach("GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n", 0), 20);
  for (const char* body :
       {R"({"prompt":"a","max_tokens":2,"stream":true})", R"({"prompt":"a","max_tokens":2})"}) {
    EXPECT_GT(FailEach(PostBytes("/v1/completions", body), kLargerThanJsonsOwn), 1) << body;
  }
  // Both places are there, once the last connection's end was seen.
  EXPECT_TRUE(Eventually([&] {
    TestClient a(port());
    TestClient b(port());
    return a.Get("/livez").status == 200 &&
           b.Get("/metrics").body.find("ropeway_http_connections 2\n") != std::string::npos;
  }));
}

}  // namespace
}  // namespace ropeway
