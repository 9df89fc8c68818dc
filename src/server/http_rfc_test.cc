// RFC 9112's requirements whose violation lets requests be smuggled past a proxy.
#include <gtest/gtest.h>

#include <string>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

class HttpRfcTest : public ServerTest {
 protected:
  // The status of the answer to `bytes`; 0: the server closes without an answer.
  int StatusOf(const std::string& bytes) {
    TestClient client(port());
    client.Send(bytes);
    return client.Read().status;
  }

  static std::string Get(const std::string& target, const std::string& headers) {
    return "GET " + target + " HTTP/1.1\r\n" + headers + "\r\n";
  }
};

TEST_F(HttpRfcTest, EmptyLinesBeforeARequestAreNoPartOfIt) {
  TestClient client(port());
  client.Send("\r\n\r\n" + Get("/livez", "Host: localhost\r\n") + "\r\n" +
              Get("/readyz", "Host: localhost\r\n"));
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().status, 200);
}

// RFC 9110, section 15.6.6: a version that is not supported is no damage.
TEST_F(HttpRfcTest, AVersionThatIsNotSupportedIsNamed) {
  const auto status_of = [&](const std::string& version) {
    return StatusOf("GET /livez " + version + "\r\nHost: localhost\r\n\r\n");
  };
  EXPECT_EQ(status_of("HTTP/1.1"), 200);
  EXPECT_EQ(status_of("HTTP/1.0"), 200);
  for (const char* other : {"HTTP/1.2", "HTTP/1.9", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9"}) {
    EXPECT_EQ(status_of(other), 505) << other;
    EXPECT_EQ(StatusOf(std::string("\r\nPOST /v1/completions ") + other + "\r\n\r\n"), 505)
        << other;
  }
  EXPECT_EQ(StatusOf("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  for (const char* damaged :
       {"HTTP/0.9", "HTTP/1", "HTTP/2", "HTTP/1.", "HTTP/.1", "HTTP/1.10", "HTTP/11.1", "HTTP/1,1",
        "HTTP/a.b", "HTTP/-1.1", "HTTP/+1.1", "http/1.1", "HTTPS/1.1", "HTTP 1.1", "HTTP/1.1 ",
        "1.1", "HTTP/1.2 x", "HTTP/1.2\t"}) {
    EXPECT_EQ(status_of(damaged), 400) << damaged;
  }
  EXPECT_EQ(StatusOf("GET /livez\r\n\r\n"), 400);
  for (const char* line : {"GET /livez  HTTP/1.1\r\nHost: localhost\r\n\r\n",
                           "GET /livez HTTP/1.1\r\r\nHost: localhost\r\n\r\n",
                           "GET /livez HTTP/1.1\nHost: localhost\n\n"}) {
    EXPECT_EQ(StatusOf(line), 400) << line;
  }
  TestClient client(port());
  client.Send("GET /livez HTTP/1.2\r\nHost: localhost\r\n\r\n");
  ClientReply reply = client.Read();
  EXPECT_EQ(reply.headers["connection"], "close");
  EXPECT_NE(reply.body.find("Only HTTP/1.1 and HTTP/1.0 are supported."), std::string::npos);
}

TEST_F(HttpRfcTest, WholeUrlsAreTargets) {
  EXPECT_EQ(StatusOf(Get("http://localhost:80/livez?x=1", "Host: localhost:80\r\n")), 200);
}

TEST_F(HttpRfcTest, HostStandsOnceAndIsAHost) {
  EXPECT_EQ(StatusOf(Get("/livez", "")), 400);
  EXPECT_EQ(StatusOf(Get("/livez", "Host: a\r\nHost: a\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("/livez", "Host: a b\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("/livez", "Host: a/b\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("/livez", "Host: a@b\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("/livez", "Host: [::1]:8080\r\n")), 200);
  EXPECT_EQ(StatusOf(Get("/livez", "Host:\r\n")), 200);
  EXPECT_EQ(StatusOf("GET /livez HTTP/1.0\r\n\r\n"), 200);
}

TEST_F(HttpRfcTest, TheBodysLengthIsSaidOnce) {
  const std::string body = R"({"prompt":"a"})";
  for (const std::string& headers :
       {std::string("Content-Length: 14\r\nContent-Length: 14\r\n"),
        std::string("Content-Length: 14\r\nContent-Length: 3\r\n"),
        std::string("Content-Length: 14, 14\r\n"), std::string("Content-Length: +14\r\n"),
        std::string("Content-Length: 0x0e\r\n"), std::string("Content-Length:\r\n"),
        std::string("Content-Length: 14\r\nTransfer-Encoding: chunked\r\n"),
        std::string("Transfer-Encoding: chunked\r\nContent-Length: 14\r\n"),
        std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        std::string("Transfer-Encoding: chunked, chunked\r\n"),
        std::string("Transfer-Encoding: xchunked\r\n")}) {
    TestClient client(port());
    client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body);
    ClientReply reply = client.Read();
    EXPECT_EQ(reply.status, 400) << headers;
    EXPECT_EQ(reply.headers["connection"], "close") << headers;
  }
  EXPECT_EQ(
      StatusOf("POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
      400);
  EXPECT_TRUE(backend_.submitted().empty());
}

TEST_F(HttpRfcTest, FoldedHeadersAndSpacesBeforeColonsAreRejected) {
  EXPECT_EQ(StatusOf(Get("/livez", "Host: localhost\r\nX-Long: a\r\n b\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("/livez", "Host: localhost\r\nX-Long: a\r\n\tb\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("/livez", " Host: localhost\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("/livez", "Host : t\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("/livez", std::string("Host: localhost\r\nX: a\0b\r\n", 25))), 400);
  // A body may begin with any byte.
  EXPECT_EQ(StatusOf(PostBytes("/v1/completions", " \t {\"prompt\":\"a\"}")), 200);
}

// Even if the fold arrives in a packet of its own.
TEST_F(HttpRfcTest, FoldsAreSeenAcrossPackets) {
  TestClient client(port());
  const std::string bytes = Get("/livez", "Host: localhost\r\nX-Long: a\r\n b\r\n");
  for (const char c : bytes) client.Send(std::string(1, c));
  EXPECT_EQ(client.Read().status, 400);
  TestClient body(port());
  const std::string post = PostBytes("/v1/completions", " {\"prompt\":\"a\"}");
  for (const char c : post) body.Send(std::string(1, c));
  EXPECT_EQ(body.Read().status, 200);
}

TEST_F(HttpRfcTest, OtherMethodsAre405WithAllowAndOptionsNamesThem) {
  TestClient client(port());
  client.Send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://x\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  ClientReply reply = client.Read();
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.headers["allow"], "POST, OPTIONS");
  for (const auto& [name, value] : reply.headers) {
    EXPECT_FALSE(name.starts_with("access-control") || name.starts_with("content-")) << name;
  }
  client.Send("OPTIONS /health/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx");
  EXPECT_EQ(client.Read().headers["allow"], "GET, HEAD, OPTIONS") << "the connection goes on";
  EXPECT_EQ(StatusOf("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"), 204);
  EXPECT_EQ(StatusOf("OPTIONS /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404);
  EXPECT_EQ(StatusOf("BREW /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
}

TEST_F(HttpRfcTest, HeadHasNoBodyAlsoWhereItIsRejected) {
  TestClient client(port());
  client.Send("HEAD /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" +
              Get("/livez", "Host: localhost\r\n"));
  EXPECT_EQ(client.ReadHead().status, 404);
  EXPECT_EQ(client.Read().status, 200);
  TestClient rejected(port());
  rejected.Send("HEAD /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
  EXPECT_EQ(rejected.ReadHead().status, 400);
  EXPECT_EQ(rejected.ReadToEnd(), "");
}

}  // namespace
}  // namespace ropeway::server
