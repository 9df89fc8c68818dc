#include "server/router.h"

#include <gtest/gtest.h>

#include "api/openai_format.h"
#include "server/http_reply.h"

namespace ropeway::server {
namespace {

TEST(Router, MatchesPathsExactly) {
  EXPECT_EQ(Router().Match("POST", "/v1/completions").route, Route::kGenerate);
  EXPECT_EQ(Router().Match("POST", "/v1/completions").make_format, api::MakeOpenAiCompletions);
  EXPECT_EQ(Router().Match("POST", "/v1/chat/completions?x=1").route, Route::kGenerate);
  EXPECT_EQ(Router().Match("POST", "/v1/chat/completions?x=1").make_format, api::MakeOpenAiChat);
  EXPECT_EQ(Router().Match("GET", "/v1/models").route, Route::kModels);
  EXPECT_EQ(Router().Match("GET", "/v1/models/a/b").argument, "a/b");
  EXPECT_EQ(Router().Match("GET", "/v1/queue").route, Route::kQueue);
  EXPECT_FALSE(Router().Match("POST", "/v1/queue").method_allowed);
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
    EXPECT_EQ(Router().Match("GET", path).route, Route::kUnknown) << path;
  }
}

TEST(Router, WholeUrlsAreTargetsToo) {
  EXPECT_EQ(Router().Match("GET", "http://any.host:8080/livez").route, Route::kLivez);
  EXPECT_EQ(Router().Match("POST", "HTTPS://h/v1/completions?x=http://y/z").make_format,
            api::MakeOpenAiCompletions);
  EXPECT_EQ(Router().Match("GET", "http://h/v1/models/http://x").argument, "http://x");
  EXPECT_EQ(Router().Match("GET", "/v1/models/a://b/livez").argument, "a://b/livez");
}

TEST(Router, NamesARequestOfTheAdminPaths) {
  const Router router;
  const RouteMatch match = router.Match("POST", "/admin/requests/17/cancel");
  EXPECT_EQ(match.route, Route::kAdminCancel);
  EXPECT_EQ(match.argument, "17");
  EXPECT_FALSE(router.Match("GET", "/admin/requests/17/cancel").method_allowed);
  EXPECT_EQ(match.name, "/admin/requests/{id}/cancel");
}

TEST(Router, ChecksTheMethod) {
  EXPECT_TRUE(Router().Match("HEAD", "/livez").method_allowed);
  EXPECT_FALSE(Router().Match("POST", "/livez").method_allowed);
  EXPECT_FALSE(Router().Match("GET", "/v1/completions").method_allowed);
  EXPECT_FALSE(Router().Match("post", "/v1/completions").method_allowed);
  EXPECT_EQ(Router().Match("PUT", "/v1/completions").allow, "POST");
}

TEST(Router, UnknownPathsShareOneName) {
  const Router router;
  EXPECT_EQ(router.Match("GET", "/secret").name, "other");
  EXPECT_EQ(router.Match("GET", "/v1/models/x").name, "/v1/models/{model}");
  EXPECT_EQ(router.Match("GET", "/metrics").name, "/metrics");
  EXPECT_EQ(router.Match("POST", "/v1/completions").name, "/v1/completions");
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
}  // namespace ropeway::server
