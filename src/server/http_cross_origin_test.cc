// What pages of other origins may do (CORS), and which clients may call a server without keys by
// which name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr char kPage[] = "Origin: http://localhost:3000\r\n";
constexpr char kAllow[] = "access-control-allow-origin";

class HttpCrossOriginTest : public ServerTest {
 protected:
  ClientReply Request(const std::string& method, const std::string& path,
                      const std::string& headers, const std::string& body = "") {
    TestClient client(port());
    client.Send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}",
                            method, path, headers, body.size(), body));
    return client.Read();
  }

  ClientReply Preflight(const std::string& path, const std::string& headers = kPage) {
    return Request("OPTIONS", path,
                   headers +
                       "Access-Control-Request-Method: POST\r\n"
                       "Access-Control-Request-Headers: authorization,x-stainless-os\r\n");
  }

  static std::vector<std::string> CrossOriginHeaders(const ClientReply& reply) {
    std::vector<std::string> names;
    for (const auto& [name, value] : reply.headers) {
      if (name.starts_with("access-control-")) names.push_back(name);
    }
    return names;
  }

  // With keys, the admin's too.
  static ServerOptions WithKeys() {
    ServerOptions options;
    options.api_keys = {{"team", "sk-team-key-1"}};
    options.admin_key = "admin-key-3";
    return options;
  }
};

TEST_F(HttpCrossOriginTest, APageOfThisMachineMayReadAnswers) {
  const std::string body = R"({"prompt":"a"})";
  ClientReply reply = Request("POST", "/v1/completions", kPage, body);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers[kAllow], "http://localhost:3000");
  EXPECT_EQ(reply.headers["vary"], "Origin");
  EXPECT_EQ(reply.headers.count("access-control-allow-credentials"), 0U);
  EXPECT_THAT(reply.headers["access-control-expose-headers"],
              HasSubstr("x-ropeway-queue-position"));
  EXPECT_EQ(reply.headers.count("access-control-allow-methods"), 0U) << "a preflight's";
  // Streams and errors, too.
  reply = Request("POST", "/v1/completions", kPage, R"({"prompt":"a","stream":true})");
  EXPECT_EQ(reply.headers[kAllow], "http://localhost:3000");
  EXPECT_THAT(reply.headers["access-control-expose-headers"],
              HasSubstr("x-ropeway-queue-position"));
  for (const char* path : {"/v1/completions", "/nowhere", "/v1/models"}) {
    reply = Request("POST", path, kPage, "{");
    EXPECT_GE(reply.status, 400) << path;
    EXPECT_EQ(reply.headers[kAllow], "http://localhost:3000") << path;
  }
  backend_.set_rejection({StatusCode::kResourceExhausted, "Full."});
  reply = Request("POST", "/v1/completions", kPage, body);
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.headers["access-control-expose-headers"], "x-request-id, Retry-After");
}

// Without keys they may not even send what needs no preflight.
TEST_F(HttpCrossOriginTest, OtherPagesMayNot) {
  constexpr char kBody[] = R"({"prompt":"a"})";
  for (const char* origins : {"Origin: null\r\n", "Origin: http://localhost.evil.com\r\n",
                              "Origin: http://localhost:3000\r\nOrigin: http://localhost:3000\r\n",
                              "Origin: http://localhost:3000\r\nOrigin: https://evil.com\r\n"}) {
    ClientReply reply = Request("GET", "/v1/models", origins);
    EXPECT_EQ(reply.status, 403) << origins;
    EXPECT_EQ(json::parse(reply.body)["error"]["code"], "origin_not_allowed");
    EXPECT_THAT(reply.body, HasSubstr("--cors-origins"));
    EXPECT_THAT(CrossOriginHeaders(reply), testing::IsEmpty()) << origins;
    EXPECT_EQ(reply.headers["vary"], "Origin") << "a cache must not mix them";
    EXPECT_THAT(CrossOriginHeaders(Preflight("/v1/models", origins)), testing::IsEmpty());
    for (const char* path : {"/v1/completions", "/tokenize", "/metrics", "/livez"}) {
      const std::string simple = std::string(origins) + "Content-Type: text/plain\r\n";
      EXPECT_EQ(Request("POST", path, simple, kBody).status, 403) << path;
    }
  }
  EXPECT_THAT(backend_.submitted(), testing::IsEmpty());
  // What is no page of another origin: a program, and a page of the server's own.
  for (const char* origins : {"", "Origin:\r\n", "Origin: http://localhost\r\n"}) {
    ClientReply reply = Request("POST", "/v1/completions", origins, kBody);
    EXPECT_EQ(reply.status, 200) << origins;
    EXPECT_EQ(reply.headers["vary"], "Origin");
  }
}

// As where a proxy on this machine passes its name on.
TEST_F(HttpCrossOriginTest, ThePagesOfTheServersOwnNameMayCall) {
  ServerOptions options;
  options.allowed_hosts = {"llm.example"};
  options.cors_origins = {"none"};
  StartServer(options);
  const auto status_of = [this](const std::string& host, const std::string& origin) {
    TestClient client(port());
    client.Send("GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + origin + "\r\n\r\n");
    return client.Read().status;
  };
  EXPECT_EQ(status_of("llm.example", "https://llm.example"), 200);
  EXPECT_EQ(status_of("LLM.example:8080", "http://llm.example:8080"), 200);
  EXPECT_EQ(status_of("llm.example", "https://llm.example:8443"), 403);
  EXPECT_EQ(status_of("llm.example", "llm.example"), 403);
  EXPECT_EQ(status_of("localhost", "http://localhost:3000"), 403) << "'none' names none";
}

// A key is what such a page lacks.
TEST_F(HttpCrossOriginTest, WithKeysAnyPageMaySend) {
  StartServer(WithKeys());
  const std::string headers = "Origin: https://evil.com\r\n" + Bearer("sk-team-key-1");
  const ClientReply reply = Request("POST", "/v1/completions", headers, R"({"prompt":"a"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(CrossOriginHeaders(reply), testing::IsEmpty());
}

TEST_F(HttpCrossOriginTest, APageReadsWhatIsWrongWithItsHeaders) {
  ClientReply reply =
      Request("POST", "/v1/completions", std::string(kPage) + "Content-Encoding: br\r\n", "x");
  EXPECT_EQ(reply.status, 415);
  EXPECT_EQ(reply.headers[kAllow], "http://localhost:3000");
  reply = Request("POST", "/v1/completions", std::string(kPage) + "Content-Length: 99999999\r\n");
  EXPECT_EQ(reply.status, 400) << "it is given twice";
  EXPECT_EQ(reply.headers[kAllow], "http://localhost:3000");
}

// Also where the rest of the head, or the body, is not read.
TEST_F(HttpCrossOriginTest, APageReadsThatItsRequestIsTooLarge) {
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n";
  const std::string large = "X-Large: " + std::string(40'000, 'x') + "\r\n\r\n";
  const std::string announced = "Content-Length: 99999999\r\n\r\n";
  for (const auto& [rest, status] : {std::pair(large, 431), std::pair(announced, 413)}) {
    for (const std::string origin : {kPage, "Origin: https://evil.com\r\n", ""}) {
      TestClient client(port());
      client.Send(head + origin + rest);
      ClientReply reply = client.Read();
      EXPECT_EQ(reply.status, status) << origin;
      EXPECT_EQ(reply.headers[kAllow], origin == kPage ? "http://localhost:3000" : "") << origin;
      EXPECT_EQ(reply.headers["vary"], "Origin") << origin;
    }
  }
}

TEST_F(HttpCrossOriginTest, OptionsOfTheServerAsAWhole) {
  StartServer(WithKeys());
  ClientReply reply = Request("OPTIONS", "*", "");
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.headers["allow"], "POST, GET, HEAD, DELETE, OPTIONS");
}

// What an admin sees is for no page, wherever it is from.
TEST_F(HttpCrossOriginTest, NoPageReadsWhatIsTheAdmins) {
  ServerOptions options = WithKeys();
  options.cors_origins = {"*"};
  StartServer(options);
  for (const char* path : {"/metrics", "/v1/queue", "/queue", "/metrics/", "/admin/requests",
                           "/admin/requests/1/cancel"}) {
    for (const ClientReply& reply :
         {Request("GET", path, kPage + Bearer("admin-key-3")), Preflight(path)}) {
      EXPECT_THAT(CrossOriginHeaders(reply), testing::IsEmpty()) << path;
      EXPECT_EQ(reply.headers.count("vary"), 0U) << path;
    }
  }
}

TEST_F(HttpCrossOriginTest, APreflightNeedsNoKey) {
  StartServer(WithKeys());
  ClientReply reply = Preflight("/v1/chat/completions");
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.headers[kAllow], "http://localhost:3000");
  EXPECT_EQ(reply.headers["access-control-allow-methods"], "POST");
  EXPECT_EQ(reply.headers["access-control-allow-headers"], "authorization, x-stainless-os");
  EXPECT_EQ(reply.headers["access-control-max-age"], "600");
  EXPECT_EQ(reply.headers["allow"], "POST, OPTIONS");
  EXPECT_EQ(reply.body, "");
  EXPECT_EQ(Preflight("/v1/models").headers["access-control-allow-methods"], "GET, HEAD");
  // A page is told that its key is wrong.
  reply = Request("GET", "/v1/models", kPage);
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.headers[kAllow], "http://localhost:3000");
  // What is asked for is echoed as tokens alone, and no preflight opens what is no path.
  reply = Request("OPTIONS", "/v1/models",
                  std::string(kPage) +
                      "Access-Control-Request-Method: GET\r\n"
                      "Access-Control-Request-Headers: a b, <x>, forwarded\r\n");
  EXPECT_EQ(reply.headers.count("access-control-allow-headers"), 0U);
  EXPECT_EQ(Preflight("/nowhere").status, 401);
}

TEST_F(HttpCrossOriginTest, OriginsThatAreGivenReplaceTheDefault) {
  ServerOptions options;
  options.cors_origins = {"https://app.example"};
  StartServer(options);
  EXPECT_EQ(Request("GET", "/v1/models", kPage).status, 403);
  EXPECT_EQ(Request("GET", "/v1/models", "Origin: https://app.example\r\n").headers[kAllow],
            "https://app.example");
  options.cors_origins = {"*"};
  StartServer(options);
  ClientReply reply = Request("GET", "/v1/models", "Origin: https://any.example\r\n");
  EXPECT_EQ(reply.headers[kAllow], "*");
  EXPECT_EQ(reply.headers.count("access-control-allow-credentials"), 0U);
  EXPECT_EQ(Request("GET", "/v1/models", "Origin: null\r\n").status, 403);
  options.cors_origins = {"app.example"};
  EXPECT_EQ(ApiServer(options, &backend_).Start().field(), "cors_origins");
}

// Reachable by others, it lets in no page unless it is told to.
TEST_F(HttpCrossOriginTest, BoundToAllAddressesNoPageMayByDefault) {
  ServerOptions options;
  options.host = "0.0.0.0";
  StartServer(options);
  ClientReply reply = Request("GET", "/v1/models", kPage);
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(CrossOriginHeaders(reply), testing::IsEmpty());
  EXPECT_EQ(reply.headers.count("vary"), 0U);
}

class HttpHostTest : public HttpCrossOriginTest {
 protected:
  // The answer to a GET with these headers.
  ClientReply Get(const std::string& target, const std::string& headers,
                  const std::string& version = "1.1") {
    TestClient client(port());
    client.Send("GET " + target + " HTTP/" + version + "\r\n" + headers + "\r\n");
    return client.Read();
  }
  int StatusOf(const std::string& host) {
    return Get("/v1/models", "Host: " + host + "\r\n").status;
  }
};

// A page of evil.com whose name its owner lets mean 127.0.0.1 sends this.
TEST_F(HttpHostTest, AnotherSitesNameIsRejected) {
  for (const char* host : {"evil.com", "evil.com:8080", "localhost.evil.com", "127.0.0.1.evil.com",
                           "[::1].evil.com", "evillocalhost"}) {
    EXPECT_EQ(StatusOf(host), 403) << host;
  }
  for (const char* host :
       {"localhost", "LOCALHOST:1", "app.localhost", "127.0.0.1:8080", "127.1.2.3", "[::1]", ""}) {
    EXPECT_EQ(StatusOf(host), 200) << host;
  }
  // Whatever is asked for, and before anything else is looked at.
  for (const char* path : {"/livez", "/health", "/metrics", "/admin/requests", "/nowhere"}) {
    EXPECT_EQ(Get(path, "Host: evil.com\r\n").status, 403) << path;
  }
  ClientReply reply = Get("/v1/models", "Host: evil.com\r\nOrigin: http://localhost\r\n");
  EXPECT_EQ(json::parse(reply.body)["error"]["code"], "host_not_allowed");
  EXPECT_THAT(reply.body, HasSubstr("--allowed-hosts"));
  EXPECT_THAT(reply.body, Not(HasSubstr("evil")));
  EXPECT_THAT(CrossOriginHeaders(reply), testing::IsEmpty());
  TestClient client(port());
  client.Send(
      "OPTIONS /v1/models HTTP/1.1\r\nHost: evil.com\r\nOrigin: http://localhost\r\n"
      "Access-Control-Request-Method: GET\r\n\r\n");
  EXPECT_EQ(client.Read().status, 403);
}

TEST_F(HttpHostTest, TheHostOfAWholeUrlCountsAsWell) {
  const std::string local = "Host: localhost\r\n";
  EXPECT_EQ(Get("http://localhost:80/v1/models", local).status, 200);
  EXPECT_EQ(Get("http://evil.com/v1/models", local).status, 403);
  EXPECT_EQ(Get("http://localhost@evil.com/v1/models", local).status, 403);
  EXPECT_EQ(Get("http://localhost/v1/models", "Host: evil.com\r\n").status, 403);
  EXPECT_EQ(Get("/v1/models", "", "1.0").status, 200) << "no browser leaves it out";
  EXPECT_EQ(Get("/v1/models", "Host: evil.com\r\n", "1.0").status, 403);
}

TEST_F(HttpHostTest, OtherNamesAreGiven) {
  ServerOptions options;
  options.allowed_hosts = {"llm.example"};
  StartServer(options);
  EXPECT_EQ(StatusOf("llm.example:8080"), 200);
  EXPECT_EQ(StatusOf("evil.com"), 403);
  options.allowed_hosts = {"*"};
  StartServer(options);
  EXPECT_EQ(StatusOf("evil.com"), 200);
  options.allowed_hosts = {"llm.example:8080"};
  EXPECT_EQ(ApiServer(options, &backend_).Start().field(), "allowed_hosts");
}

// Such a page has no key; and a server that others reach is called by names that it does not know.
TEST_F(HttpHostTest, WithKeysOrForOthersAnyNameWillDo) {
  StartServer(WithKeys());
  EXPECT_EQ(Get("/v1/models", "Host: llm.example\r\n" + Bearer("sk-team-key-1")).status, 200);
  ServerOptions options;
  options.host = "0.0.0.0";
  StartServer(options);
  EXPECT_EQ(StatusOf("llm.example"), 200);
}

// A frame's or an image's request says no origin; the browser says all the same that it is another
// page's.
TEST_F(ServerTest, FramesOfOtherPagesOpenNoPathOfTheServersOwn) {
  const auto get = [&](const std::string& path, const std::string& site) {
    TestClient client(port());
    client.Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: " + site +
                "\r\n\r\n");
    return client.ReadHead().status;
  };
  for (const char* path : {"/admin/events", "/v1/queue", "/metrics"}) {
    EXPECT_EQ(get(path, "cross-site"), 403) << path;
    EXPECT_EQ(get(path, "same-site"), 403) << path;
    EXPECT_EQ(get(path, "same-origin"), 200) << path;
    EXPECT_EQ(get(path, "none"), 200) << path;
  }
  for (const char* path : {"/", "/chat", "/web/style.css", "/v1/models"}) {
    EXPECT_EQ(get(path, "cross-site"), 200) << path;
  }
}

}  // namespace
}  // namespace ropeway::server
