#include "http/route.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "http/http_reply.h"

namespace ropeway::http {
namespace {

const RouteTable& Table() {
  static const RouteTable table({{"POST", "/v1/completions", Rights::kKey, {.takes_body = true}},
                                 {"POST", "/v1/chat/completions"},
                                 {"GET", "/v1/models"},
                                 {"GET", "/v1/models/{model}"},
                                 {"GET", "/v1/queue"},
                                 {"POST", "/tokenize"},
                                 {"GET", "/livez", Rights::kOpen, {.probe = true}},
                                 {"GET", "/health"},
                                 {"GET", "/metrics"},
                                 {"GET", "/admin/requests"},
                                 {"POST", "/admin/requests/{id}/cancel"}},
                                {"", "other"});
  return table;
}

RouteMatch Match(std::string_view method, std::string_view target) {
  return Table().Match(method, target);
}

// The only one that its path has.
std::string Argument(const RouteMatch& match) {
  EXPECT_EQ(match.arguments.size(), 1U);
  return match.arguments.empty() ? "" : match.arguments.front();
}

TEST(RouteTable, MatchesPathsExactly) {
  EXPECT_EQ(Match("POST", "/v1/completions").name, "/v1/completions");
  EXPECT_TRUE(Match("POST", "/v1/completions").route->limits.takes_body);
  EXPECT_EQ(Match("POST", "/v1/chat/completions?x=1").name, "/v1/chat/completions");
  EXPECT_EQ(Match("GET", "/v1/models").name, "/v1/models");
  EXPECT_EQ(Match("GET", "/v1/models/a/b").name, "/v1/models/{model}");
  EXPECT_EQ(Argument(Match("GET", "/v1/models/a/b")), "a/b");
  EXPECT_EQ(Match("GET", "/metrics").name, "/metrics");
  for (const char* path : {"",
                           "/",
                           "*",
                           "/v1",
                           "/v1/",
                           "/v1/completions//",
                           "/V1/completions",
                           "/v1completions",
                           "v1/completions",
                           "completions",
                           "/v1/v1/completions",
                           "/v1/livez",
                           "/livez//",
                           "//v1/completions",
                           "/livez/..",
                           "://h/livez",
                           "h/livez",
                           "ht tp://h/livez",
                           "http://h",
                           "http:/livez",
                           "/admin",
                           "/admin/",
                           "/requests",
                           "/admin/requests//cancel",
                           "/admin/requests/1"}) {
    const RouteMatch match = Match("GET", path);
    EXPECT_EQ(match.route, &Table().nothing()) << path;
    EXPECT_EQ(match.name, "other") << path;
    EXPECT_TRUE(match.method_allowed) << "its handler says that there is nothing";
  }
}

TEST(RouteTable, TheVersionAndASlashAtTheEndAreUpToTheClient) {
  const auto name_of = [](std::string_view path) { return Match("GET", path).name; };
  EXPECT_EQ(name_of("/completions"), "/v1/completions");
  EXPECT_EQ(name_of("/chat/completions/?x=1"), "/v1/chat/completions");
  EXPECT_EQ(name_of("/v1/chat/completions/"), "/v1/chat/completions");
  EXPECT_EQ(name_of("/models"), "/v1/models");
  EXPECT_EQ(name_of("/v1/models/"), "/v1/models");
  EXPECT_EQ(name_of("/models/m"), "/v1/models/{model}");
  EXPECT_EQ(Argument(Match("GET", "/models/a/b")), "a/b");
  EXPECT_EQ(Argument(Match("GET", "/v1/models/a/")), "a");
  EXPECT_EQ(Argument(Match("GET", "/v1/models/a//")), "a/") << "one slash is the path's";
  EXPECT_EQ(name_of("/admin/requests/"), "/admin/requests");
  EXPECT_EQ(Argument(Match("POST", "/admin/requests/1/cancel/")), "1");
  EXPECT_EQ(name_of("http://h/queue/"), "/v1/queue");
}

TEST(RouteTable, TheRootHasOnePath) {
  const RouteTable table({{"GET", "/"}}, {"", "other"});
  EXPECT_EQ(table.Match("GET", "/").name, "/");
  EXPECT_EQ(table.Match("GET", "/?a=1").name, "/");
  for (const char* path : {"//", "///", "/v1", "/v1/", ""}) {
    EXPECT_EQ(table.Match("GET", path).name, "other") << path;
  }
}

TEST(RouteTable, SuggestsWhatWasMeant) {
  const auto suggest = [](const std::string& path) { return Table().Suggest(path); };
  EXPECT_EQ(suggest("/v1/chat/completion"), "/v1/chat/completions");
  EXPECT_EQ(suggest("/chat/complétions"), "/v1/chat/completions");
  EXPECT_EQ(suggest("/completion"), "/v1/completions");
  EXPECT_EQ(suggest("/openai/v1/chat/completions/"), "/v1/chat/completions");
  EXPECT_EQ(suggest("/api/chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(suggest("/v1/tokenize"), "/tokenize");
  EXPECT_EQ(suggest("/healthz"), "/health");
  EXPECT_EQ(suggest("/v1/model"), "/v1/models");
  for (const std::string& none :
       {std::string("/"), std::string(), std::string("/v1"), std::string("/api/generate"),
        std::string("/v1/embeddings"), std::string(30'000, '/'), std::string(30'000, 'x'),
        std::string("*"), std::string("/cancel")}) {
    EXPECT_EQ(suggest(none), "") << none.substr(0, 40);
  }
}

TEST(RouteTable, OptionsOfAKnownPathAreTheTables) {
  EXPECT_TRUE(Match("OPTIONS", "/completions").options);
  EXPECT_FALSE(Match("OPTIONS", "/completions").method_allowed);
  EXPECT_FALSE(Match("OPTIONS", "/nowhere").options);
  EXPECT_FALSE(Match("GET", "/completions").options);
  // This asks for the server as a whole (RFC 9110, section 9.3.7).
  EXPECT_TRUE(Match("OPTIONS", "*").options);
  EXPECT_FALSE(Match("OPTIONS", "*").method_allowed);
  EXPECT_EQ(Match("OPTIONS", "*").methods, "POST, GET, HEAD");
  EXPECT_FALSE(Match("GET", "*").options);
}

TEST(RouteTable, WholeUrlsAreTargetsToo) {
  EXPECT_EQ(Match("GET", "http://any.host:8080/livez").name, "/livez");
  EXPECT_EQ(Match("POST", "HTTPS://h/v1/completions?x=http://y/z").name, "/v1/completions");
  EXPECT_EQ(Argument(Match("GET", "http://h/v1/models/http://x")), "http://x");
  EXPECT_EQ(Argument(Match("GET", "/v1/models/a://b/livez")), "a://b/livez");
}

TEST(RouteTable, AnArgumentMayStandWithinThePath) {
  const RouteMatch match = Match("POST", "/admin/requests/17/cancel");
  EXPECT_EQ(Argument(match), "17");
  EXPECT_FALSE(Match("GET", "/admin/requests/17/cancel").method_allowed);
  EXPECT_EQ(match.name, "/admin/requests/{id}/cancel");
}

TEST(RouteTable, APathMayHaveSeveralArguments) {
  const RouteTable table({{"GET", "/v1/talks/{id}/items/{item}"},
                          {"GET", "/v1/talks/{id}/items"},
                          {"GET", "/v1/talks/{id}"}},
                         {"", "other"});
  const auto match = [&](std::string_view path) { return table.Match("GET", path); };
  using Arguments = std::vector<std::string>;
  EXPECT_EQ(match("/v1/talks/a/items/b").name, "/v1/talks/{id}/items/{item}");
  EXPECT_EQ(match("/v1/talks/a/items/b").arguments, (Arguments{"a", "b"}));
  EXPECT_EQ(match("/talks/items/items/items/").arguments, (Arguments{"items", "items"}));
  EXPECT_EQ(match("/v1/talks/a/items/b/c").arguments, (Arguments{"a", "b/c"}));
  EXPECT_EQ(match("/v1/talks/a/items//").name, "/v1/talks/{id}") << "no argument is empty";
  EXPECT_EQ(match("/v1/talks/a/items").name, "/v1/talks/{id}/items");
  EXPECT_EQ(match("/v1/talks/a/items").arguments, Arguments{"a"});
  EXPECT_EQ(match("/v1/talks/a/b/items").arguments, Arguments{"a/b/items"})
      << "none has a slash, but at the end";
  EXPECT_EQ(match("/v1/talks/a").name, "/v1/talks/{id}");
  EXPECT_EQ(match("/v1/talks//").name, "other");
  EXPECT_EQ(ArgumentNames("/v1/talks/{id}/items/{item}"),
            (std::vector<std::string_view>{"id", "item"}));
  EXPECT_TRUE(ArgumentNames("/v1/talks").empty());
}

TEST(RouteTable, AQueryIsKept) {
  EXPECT_EQ(Match("GET", "/v1/models/m?a=1&b=%20?").query, "a=1&b=%20?");
  EXPECT_EQ(Argument(Match("GET", "/v1/models/m?a=1")), "m");
  EXPECT_EQ(Match("GET", "http://h/livez?x=http://y").query, "x=http://y");
  EXPECT_EQ(Match("GET", "/livez").query, "");
  EXPECT_EQ(Match("GET", "/livez?").query, "");
  EXPECT_EQ(Match("GET", "/nowhere?a=b").query, "a=b");
}

TEST(RouteTable, ChecksTheMethod) {
  EXPECT_TRUE(Match("HEAD", "/livez").method_allowed);
  EXPECT_FALSE(Match("POST", "/livez").method_allowed);
  EXPECT_FALSE(Match("GET", "/v1/completions").method_allowed);
  EXPECT_FALSE(Match("post", "/v1/completions").method_allowed);
  EXPECT_EQ(Match("PUT", "/v1/completions").methods, "POST");
  EXPECT_EQ(Match("PUT", "/livez").methods, "GET, HEAD");
}

// Another method has the path's rights and its shape of errors.
TEST(RouteTable, APathMayHaveARowForEachMethod) {
  const RouteTable table({{"GET", "/thing/{id}", Rights::kAdmin},
                          {"GET", "/thing/one", Rights::kOpen},
                          {"DELETE", "/thing/{id}", Rights::kKey}},
                         {"", "other"});
  EXPECT_EQ(table.Match("DELETE", "/thing/7").route, &table.routes()[2]);
  EXPECT_EQ(table.Match("GET", "/thing/7").route, &table.routes()[0]);
  const RouteMatch match = table.Match("POST", "/thing/7");
  EXPECT_EQ(match.route, &table.routes()[0]);
  EXPECT_FALSE(match.method_allowed);
  EXPECT_EQ(match.methods, "GET, HEAD, DELETE");
  EXPECT_EQ(table.Match("GET", "/thing/one").route, &table.routes()[0]) << "the first one";
}

TEST(HttpReply, ChunksAreFramed) {
  std::string out;
  AppendChunk("hello, sixteen b", {}, &out);
  AppendChunk("", {}, &out);
  AppendLastChunk({}, &out);
  EXPECT_EQ(out, "10\r\nhello, sixteen b\r\n0\r\n\r\n");
  Framing old;
  old.http_1_0 = true;
  out.clear();
  AppendChunk("raw", old, &out);
  AppendLastChunk(old, &out);
  EXPECT_EQ(out, "raw");
}

}  // namespace
}  // namespace ropeway::http
