#include "net/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/base_url.h"
#include "net/test_fake_server.h"

namespace ropeway::net {
namespace {

using testing::HasSubstr;

HttpClient::Reply Fetch(const std::string& url, const std::string& body, double timeout = 10,
                        bool insecure = false) {
  auto client = HttpClient::Open(*ParseBaseUrl(url), "secret", insecure);
  EXPECT_TRUE(client.ok()) << client.status().message();
  return (*client)->Fetch("/models", body, timeout);
}

TEST(HttpClient, SendsTheRequestAndReturnsTheWholeReply) {
  const FakeServer server([](const FakeRequest&) { return Cut(JsonReply("{\"a\": 1}", 404), 7); });
  const HttpClient::Reply get = Fetch(server.url(), "");
  EXPECT_EQ(get.status, 404);
  EXPECT_EQ(get.body, "{\"a\": 1}");
  const HttpClient::Reply post = Fetch(server.url(), "{}");
  EXPECT_EQ(post.status, 404);

  const std::vector<FakeRequest> requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].method, "GET");
  EXPECT_EQ(requests[0].path, "/v1/models");
  EXPECT_THAT(requests[0].headers, HasSubstr("\r\nAuthorization: Bearer secret"));
  EXPECT_EQ(requests[1].method, "POST");
  EXPECT_EQ(requests[1].body, "{}");
}

TEST(HttpClient, SpeaksTlsAndRejectsACertificateThatNoAuthoritySigned) {
  const FakeServer server([](const FakeRequest&) { return JsonReply("{}"); }, /*tls=*/true);
  EXPECT_EQ(Fetch(server.url(), "", 10, /*insecure=*/true).status, 200);
  const HttpClient::Reply strict = Fetch(server.url(), "");
  EXPECT_EQ(strict.status, 0);
  EXPECT_THAT(strict.why, HasSubstr("certificate verify failed"));
}

TEST(HttpClient, SaysWhyThereIsNoReply) {
  const ClosedPort closed;
  EXPECT_THAT(Fetch(closed.url(), "").why, HasSubstr("refused"));
  const FakeServer silent([](const FakeRequest&) {
    FakeReply reply;
    reply.hang = true;
    return reply;
  });
  EXPECT_THAT(Fetch(silent.url(), "", 0.3).why, HasSubstr("not complete within 0.3 s"));
  const FakeServer foreign([](const FakeRequest&) { return FakeReply{{"SSH-2.0\r\n"}}; });
  EXPECT_THAT(Fetch(foreign.url(), "").why, HasSubstr("no HTTP"));
  EXPECT_EQ(
      HttpClient::Open(*ParseBaseUrl("http://no.such.host.invalid"), "", false).status().code(),
      StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ropeway::net
