#include "server/router.h"

#include <gtest/gtest.h>

#include "server/http_reply.h"

namespace ropeway {
namespace {

TEST(Router, MatchesPathsExactly) {
  EXPECT_EQ(MatchRoute("POST", "/v1/completions").route, Route::kCompletions);
  EXPECT_EQ(MatchRoute("POST", "/v1/chat/completions?x=1").route, Route::kChatCompletions);
  EXPECT_EQ(MatchRoute("GET", "/v1/models").route, Route::kModels);
  EXPECT_EQ(MatchRoute("GET", "/v1/models/a/b").argument, "a/b");
  EXPECT_EQ(MatchRoute("GET", "/v1/queue").route, Route::kQueue);
  EXPECT_FALSE(MatchRoute("POST", "/v1/queue").method_allowed);
  for (const char* path : {"",
                           "/",
                           "*",
                           "/v1",
                           "/v1/",
                           "/v1/models/",
                           "/v1/completions/",
                           "/V1/completions",
                           "//v1/completions",
                           "/livez/..",
                           "://h/livez",
                           "h/livez",
                           "ht tp://h/livez",
                           "http://h",
                           "http:/livez",
                           "/admin",
                           "/admin/",
                           "/admin/requests/",
                           "/admin/requests//cancel",
                           "/admin/requests/1"}) {
    EXPECT_EQ(MatchRoute("GET", path).route, Route::kUnknown) << path;
  }
}

TEST(Router, WholeUrlsAreTargetsToo) {
  EXPECT_EQ(MatchRoute("GET", "http://any.host:8080/livez").route, Route::kLivez);
  EXPECT_EQ(MatchRoute("POST", "HTTPS://h/v1/completions?x=http://y/z").route, Route::kCompletions);
  EXPECT_EQ(MatchRoute("GET", "http://h/v1/models/http://x").argument, "http://x");
  EXPECT_EQ(MatchRoute("GET", "/v1/models/a://b/livez").argument, "a://b/livez");
}

TEST(Router, NamesARequestOfTheAdminPaths) {
  const RouteMatch match = MatchRoute("POST", "/admin/requests/17/cancel");
  EXPECT_EQ(match.route, Route::kAdminCancel);
  EXPECT_EQ(match.argument, "17");
  EXPECT_FALSE(MatchRoute("GET", "/admin/requests/17/cancel").method_allowed);
  EXPECT_EQ(RouteName(match.route), "/admin/requests/{id}/cancel");
}

TEST(Router, ChecksTheMethod) {
  EXPECT_TRUE(MatchRoute("HEAD", "/livez").method_allowed);
  EXPECT_FALSE(MatchRoute("POST", "/livez").method_allowed);
  EXPECT_FALSE(MatchRoute("GET", "/v1/completions").method_allowed);
  EXPECT_FALSE(MatchRoute("post", "/v1/completions").method_allowed);
  EXPECT_EQ(MatchRoute("PUT", "/v1/completions").allow, "POST");
}

TEST(Router, UnknownPathsShareOneName) {
  EXPECT_EQ(RouteName(MatchRoute("GET", "/secret").route), "other");
  EXPECT_EQ(RouteName(MatchRoute("GET", "/v1/models/x").route), "/v1/models/{model}");
  EXPECT_EQ(RouteName(Route::kMetrics), "/metrics");
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
}  // namespace ropeway
