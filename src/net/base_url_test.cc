#include "net/base_url.h"

#include <gtest/gtest.h>

namespace ropeway::net {
namespace {

TEST(BaseUrl, ReadsHostPortAndPath) {
  auto url = ParseBaseUrl("http://127.0.0.1:8080");
  ASSERT_TRUE(url.ok());
  EXPECT_FALSE(url->tls);
  EXPECT_EQ(url->host, "127.0.0.1");
  EXPECT_EQ(url->port, 8080);
  EXPECT_EQ(url->path, "/v1");
  EXPECT_EQ(url->Text(), "http://127.0.0.1:8080/v1");
}

TEST(BaseUrl, KnowsTheSchemesOwnPorts) {
  auto plain = ParseBaseUrl("http://example/");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->port, 80);
  EXPECT_EQ(plain->Authority(), "example");
  auto tls = ParseBaseUrl("https://example/v1/");
  ASSERT_TRUE(tls.ok());
  EXPECT_TRUE(tls->tls);
  EXPECT_EQ(tls->port, 443);
  EXPECT_EQ(tls->path, "/v1");
}

TEST(BaseUrl, KeepsAPathAndBracketsOfIpv6) {
  auto url = ParseBaseUrl("http://[::1]:9000/proxy/api");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, 9000);
  EXPECT_EQ(url->path, "/proxy/api/v1");
  EXPECT_EQ(url->Authority(), "[::1]:9000");
  auto bare = ParseBaseUrl("http://[::1]");
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ(bare->port, 80);
}

TEST(BaseUrl, RejectsTheRestWithOneSentence) {
  for (const char* url :
       {"", "127.0.0.1:8080", "ftp://a", "http://", "http://:80", "http://a:", "http://a:0",
        "http://a:65536", "http://a:8x", "http://a b", "http://u@a", "http://a/?q", "http://a#f",
        "http://::1:80", "http://[::1", "http://[::1]80", "http://a\r\nX: y"}) {
    auto parsed = ParseBaseUrl(url, "--base-url");
    ASSERT_FALSE(parsed.ok()) << url;
    EXPECT_EQ(parsed.status().message().find("--base-url must be http://HOST:PORT"), 0);
    EXPECT_EQ(ParseBaseUrl(url).status().message().find("The base URL must be"), 0);
  }
}

}  // namespace
}  // namespace ropeway::net
