#include "http/cross_origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ropeway::http {
namespace {

using testing::HasSubstr;

OriginRule Origins(const std::vector<std::string>& texts) { return *OriginRule::Parse(texts); }
HostRule Hosts(const std::string& bound, const std::vector<std::string>& texts = {}) {
  return *HostRule::Parse(bound, texts);
}

TEST(OriginRule, PagesOfThisMachineWhileTheServerIsItsAlone) {
  const OriginRule rule = Origins({});
  for (const char* origin :
       {"http://localhost", "https://localhost", "http://localhost:3000", "http://127.0.0.1:8080",
        "https://127.0.0.1", "http://[::1]", "http://[::1]:5173", "http://localhost:65535",
        "http://app.localhost", "https://a.b.localhost:8443", "http://127.0.0.2"}) {
    EXPECT_EQ(rule.Answer(origin, true), origin);
    EXPECT_EQ(rule.Answer(origin, false), "") << origin;
  }
  EXPECT_TRUE(rule.varies(true));
  EXPECT_FALSE(rule.varies(false));
}

TEST(OriginRule, WhatOnlyLooksLikeThisMachineIsNot) {
  const OriginRule rule = Origins({});
  for (const char* origin : {"",
                             "null",
                             "NULL",
                             "http://localhost.evil.com",
                             "http://127.0.0.1.evil.com",
                             "http://localhost:80.evil.com",
                             "https://localhost@evil",
                             "http://evil@localhost",
                             "http://localhost:evil",
                             "http://localhost:",
                             "http://localhost:123456",
                             "http://localhost:80:80",
                             "http://localhost.",
                             "http://localhost/",
                             "http://localhost#",
                             "http://localhost?",
                             "http://localhost\\",
                             "http://localhost evil",
                             " http://localhost",
                             "HTTP://LOCALHOST",
                             "http://Localhost",
                             "http:/localhost",
                             "http//localhost",
                             "ftp://localhost",
                             "file://localhost",
                             "localhost",
                             "//localhost",
                             "http://",
                             "http://evillocalhost",
                             "http://127.1",
                             "http://2130706433",
                             "http://0.0.0.0",
                             "http://[::1",
                             "http://[::1]evil",
                             "http://[::1].evil.com",
                             "http://::1",
                             "http://[::]",
                             "http://[localhost]",
                             "http://[app.localhost]",
                             "http://[127.0.0.1]",
                             "http://[]",
                             "http://127.0.0.1.nip.io",
                             "http://127.0.0.1.",
                             "http://.localhost",
                             "http://a..localhost",
                             "http://app.localhost.",
                             "http://a@app.localhost",
                             "http://a:b@localhost:3000",
                             "http://a,b.localhost",
                             "http://*.localhost",
                             "http://%61.localhost",
                             "http://<a>.localhost",
                             "http://\u00FC.localhost",
                             "http://APP.localhost",
                             "http://localhost, http://localhost",
                             "http://localhost, http://evil.com",
                             "http://evil.com, http://localhost",
                             "*"}) {
    EXPECT_EQ(rule.Answer(origin, true), "") << origin;
  }
}

TEST(OriginRule, OriginsThatAreGivenAndNoOthers) {
  const OriginRule rule =
      Origins({"https://App.example", "http://app.example:8080", "https://with.port:443"});
  for (const char* origin :
       {"https://app.example", "http://app.example:8080", "https://with.port"}) {
    EXPECT_EQ(rule.Answer(origin, false), origin);
  }
  for (const char* origin :
       {"https://app.example.evil.com", "https://app.example:8443", "http://app.example",
        "https://evil-app.example", "https://app.example/", "https://APP.example", "null",
        "http://localhost:3000", "https://app.example, https://app.example"}) {
    EXPECT_EQ(rule.Answer(origin, true), "") << origin;
  }
}

TEST(OriginRule, AllOrNone) {
  EXPECT_EQ(Origins({"*"}).Answer("https://any.example", false), "*");
  EXPECT_EQ(Origins({"*"}).Answer("null", false), "") << "anybody can make a page that has it";
  EXPECT_EQ(Origins({"*"}).Answer("", false), "");
  EXPECT_EQ(Origins({"none"}).Answer("http://localhost", true), "");
  EXPECT_FALSE(Origins({"none"}).varies(true));
}

TEST(OriginRule, RejectsWhatIsNoOrigin) {
  for (const char* text : {"", "null", "app.example", "https://", "https://*.example",
                           "https://app.example/", "https://a@b", "https://a b", "://a", "**"}) {
    const Status status = OriginRule::Parse({text}).status();
    EXPECT_EQ(status.field(), "cors_origins") << text;
    EXPECT_THAT(status.message(), HasSubstr("https://app.example:8443"));
  }
  EXPECT_TRUE(OriginRule::Parse({"chrome-extension://abcdef", "tauri://localhost"}).ok());
}

TEST(OriginRule, NoneStandsAlone) {
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{"*", "none"}, {"none", "https://app.example"}}) {
    const Status status = OriginRule::Parse(texts).status();
    EXPECT_EQ(status.field(), "cors_origins");
    EXPECT_THAT(status.message(), HasSubstr("'none' cannot be given together"));
  }
}

TEST(AllowedHeaders, NamesThatAreTokensWithinBounds) {
  EXPECT_EQ(AllowedHeaders("authorization,Content-Type , x-stainless-os,\tX-Api-Key"),
            "authorization, content-type, x-stainless-os, x-api-key");
  EXPECT_EQ(AllowedHeaders("a b,c\r\nSet-Cookie: x, \x80, x(y), ok,,"), "ok");
  EXPECT_EQ(AllowedHeaders("X-Forwarded-For, forwarded, x-forwarded-host, x-forward"), "x-forward")
      << "only a proxy says that";
  EXPECT_EQ(AllowedHeaders(""), "");
  std::string many;
  for (int i = 0; i < 100; ++i) many += "x-" + std::to_string(i) + ",";
  EXPECT_THAT(AllowedHeaders(many), HasSubstr("x-31"));
  EXPECT_THAT(AllowedHeaders(many), testing::Not(HasSubstr("x-32")));
  EXPECT_EQ(AllowedHeaders(std::string(2000, 'x') + ",y"), "y");
  EXPECT_EQ(AllowedHeaders(std::string(30'000, ',')), "");
}

TEST(HostRule, NamesAndAddressesOfThisMachine) {
  const HostRule rule = Hosts("127.0.0.1");
  for (const char* host :
       {"localhost", "localhost:8080", "LOCALHOST", "localhost.", "app.localhost",
        "a.b.localhost:1", "127.0.0.1", "127.0.0.1:8080", "127.8.9.10", "[::1]", "[::1]:8080",
        "[0:0:0:0:0:0:0:1]", "localhost:", ""}) {
    EXPECT_TRUE(rule.Allows(host)) << host;
  }
  for (const char* host : {"evil.com",
                           "evil.com:8080",
                           "localhost.evil.com",
                           "127.0.0.1.evil.com",
                           "evillocalhost",
                           "localhost@evil.com",
                           "evil.com@localhost",
                           "localhost:80:80",
                           "localhost:evil",
                           "localhost:123456",
                           ".evil.com",
                           "128.0.0.1",
                           "0.0.0.0",
                           "10.0.0.1",
                           "[::1",
                           "[::1]evil.com",
                           "[::1].evil.com",
                           "[::2]",
                           "[localhost]",
                           "[127.0.0.1]",
                           "[]",
                           "127.0.0.1.nip.io",
                           ".localhost",
                           "a..localhost",
                           "a@app.localhost",
                           "a,b.localhost",
                           "%61.localhost",
                           "::1",
                           "127.1",
                           "0x7f.0.0.1",
                           "2130706433",
                           ".",
                           ":",
                           ":80",
                           "localhost/evil.com",
                           "localhost evil.com",
                           "localhost\\evil.com",
                           "*"}) {
    EXPECT_FALSE(rule.Allows(host)) << host;
  }
}

TEST(HostRule, TheBoundNameAndThoseThatAreGiven) {
  const HostRule rule = Hosts("My-Box.Local", {"llm.example", "192.0.2.7", "2001:db8::1"});
  for (const char* host : {"my-box.local:8080", "MY-BOX.LOCAL", "LLM.example", "llm.example.",
                           "192.0.2.7:80", "[2001:db8::1]:80", "localhost"}) {
    EXPECT_TRUE(rule.Allows(host)) << host;
  }
  for (const char* host : {"evil.llm.example", "llm.example.evil.com", "192.0.2.70", "llm"}) {
    EXPECT_FALSE(rule.Allows(host)) << host;
  }
  EXPECT_TRUE(Hosts("127.0.0.1", {"*"}).Allows("evil.com"));
}

TEST(HostRule, RejectsWhatIsNoHost) {
  for (const char* text : {"", "a:80", "http://a", "a/b", "*.a", "a b", "u@a"}) {
    EXPECT_EQ(HostRule::Parse("127.0.0.1", {text}).status().field(), "allowed_hosts") << text;
  }
}

}  // namespace
}  // namespace ropeway::http
