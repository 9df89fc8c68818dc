// The page: its files, and how they are served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/test_server.h"
#include "server/web_files.h"

namespace ropeway::server {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string TextOf(std::string_view name) {
  const auto file = std::ranges::find(WebFiles(), name, &WebFile::name);
  return file == WebFiles().end() ? std::string() : std::string(file->bytes);
}

// What stands behind each `word` in `text`, without what may be between it and a URL: "/a" of
// `src="/a"`, "./b.js" of `from './b.js'`.
std::vector<std::string> Behind(std::string_view text, std::string_view word) {
  std::vector<std::string> found;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at)) {
    at = std::min(text.find_first_not_of(" \t\n(=", at + word.size()), text.size());
    if (at == text.size() || std::string_view("\"'`").find(text[at]) == text.npos) continue;
    const size_t end = std::min(text.find_first_of("\"'`", at + 1), text.size());
    found.emplace_back(text.substr(at + 1, end - at - 1));
  }
  return found;
}

class HttpWebTest : public ServerTest {
 protected:
  ClientReply Get(const std::string& path, const std::string& headers = "",
                  const std::string& method = "GET") {
    TestClient client(port());
    client.Send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return method == "HEAD" ? client.ReadHead() : client.Read();
  }
};

TEST_F(HttpWebTest, BothPagesComeWithTheirPolicy) {
  for (const auto& [path, file] : {std::pair("/", "index.html"), std::pair("/chat", "chat.html")}) {
    ClientReply reply = Get(path);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, TextOf(file));
    EXPECT_EQ(reply.headers["content-type"], "text/html; charset=utf-8");
    EXPECT_EQ(reply.headers["content-security-policy"], kPolicy);
    EXPECT_EQ(reply.headers["x-content-type-options"], "nosniff");
    EXPECT_EQ(reply.headers["referrer-policy"], "no-referrer");
    EXPECT_EQ(reply.headers["cross-origin-opener-policy"], "same-origin");
    EXPECT_EQ(reply.headers["cross-origin-resource-policy"], "same-origin");
    EXPECT_EQ(reply.headers["cache-control"], "no-cache");
    EXPECT_FALSE(reply.headers.contains("access-control-allow-origin"));
  }
}

TEST_F(HttpWebTest, EachFileIsServed) {
  std::set<std::string_view> names;
  for (const WebFile& file : WebFiles()) {
    EXPECT_TRUE(names.insert(file.name).second) << file.name;
    ClientReply reply = Get("/web/" + std::string(file.name));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, file.bytes) << file.name;
    EXPECT_EQ(reply.headers["content-type"], file.content_type);
    EXPECT_EQ(reply.headers["etag"], file.etag);
  }
  EXPECT_THAT(TextOf("chart.js"), HasSubstr("Chart.js v3.9.1"));
  EXPECT_THAT(TextOf("chart.js"), HasSubstr("MIT License"));
}

TEST_F(HttpWebTest, AFileThatTheBrowserHasIsNotSentAgain) {
  const std::string etag = Get("/").headers["etag"];
  EXPECT_THAT(etag, SizeIs(18));
  TestClient client(port());
  for (const std::string& tags : {etag, "W/" + etag, "\"other\", " + etag, std::string("*")}) {
    client.Send("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: " + tags + "\r\n\r\n");
    ClientReply reply = client.ReadHead();
    EXPECT_EQ(reply.status, 304) << tags;
    EXPECT_EQ(reply.headers["etag"], etag);
    EXPECT_FALSE(reply.headers.contains("content-length"));
  }
  client.Send("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"other\"\r\n\r\n");
  EXPECT_EQ(client.Read().body, TextOf("index.html")) << "no body was in between";
}

TEST_F(HttpWebTest, HeadHasNoBody) {
  TestClient client(port());
  for (const std::string path : {"/", "/chat", "/web/style.css"}) {
    client.Send("HEAD " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ClientReply reply = client.ReadHead();
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.headers["content-length"], "0");
  }
  EXPECT_EQ(client.Get("/livez").status, 200);
}

TEST_F(HttpWebTest, NothingElseIsServed) {
  for (const char* path :
       {"/web", "/web/", "/web/nothing.js", "/web/../x", "/web/../index.html", "/web/%2e%2e",
        "/web/%2e%2e/index.html", "/web/..%2findex.html", "/web//index.html", "/web/./index.html",
        "/web/INDEX.HTML", "/web/index.html%00", "/index.html", "/v1", "/v1/chat"}) {
    EXPECT_EQ(Get(path).status, 404) << path;
  }
  EXPECT_EQ(Get("/", "", "POST").status, 405);
}

// A client of the API that mistypes a path is told of none of the pages.
TEST_F(HttpWebTest, NoUnknownPathIsTakenForAPage) {
  for (const char* path : {"/v2", "/x", "/chats"}) {
    EXPECT_THAT(Get(path).body, Not(HasSubstr("did you mean"))) << path;
  }
  EXPECT_THAT(Get("/v1/chat").body, HasSubstr("did you mean /api/chat?"));
}

TEST_F(HttpWebTest, NoKeyIsNeeded) {
  ServerOptions options;
  options.api_keys = {{"one", "sk-one-key-1"}};
  options.admin_key = "admin-key-1";
  StartServer(options);
  for (const char* path : {"/", "/chat", "/web/style.css"}) {
    EXPECT_EQ(Get(path).status, 200);
    EXPECT_EQ(Get(path, Bearer("wrong")).status, 200);
  }
}

TEST_F(HttpWebTest, ThePageMayUseTheServerAndAPageFromElsewhereMayNot) {
  const std::string own = "Origin: http://localhost\r\n";
  const std::string other = "Origin: http://evil.example\r\n";
  EXPECT_EQ(Get("/admin/requests", own).status, 403);  // It needs the admin key.
  EXPECT_EQ(Get("/v1/models", own).status, 200);
  TestClient watcher(port());
  watcher.Send("GET /admin/events HTTP/1.1\r\nHost: localhost\r\n" + own + "\r\n");
  EXPECT_EQ(watcher.ReadHead().status, 200);
  TestClient asks(port());
  asks.Send(PostBytes("/v1/completions", R"({"prompt":"a"})", own));
  EXPECT_EQ(asks.Read().status, 200);
  for (const char* path : {"/", "/web/style.css", "/admin/events", "/v1/models"}) {
    EXPECT_EQ(Get(path, other).status, 403) << path;
  }
  TestClient named(port());  // DNS rebinding.
  named.Send("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(named.Read().status, 403);
}

TEST_F(HttpWebTest, ItCanBeTurnedOff) {
  ServerOptions options;
  options.web = false;
  StartServer(options);
  const ClientReply reply = Get("/");
  EXPECT_EQ(reply.status, 404);
  EXPECT_THAT(reply.body,
              HasSubstr("There is no page here: this server was started with --no-web."));
  EXPECT_EQ(Get("/", "", "HEAD").status, 200);
  for (const char* path : {"/chat", "/web/index.html", "/web/chart.js"}) {
    EXPECT_EQ(Get(path).status, 404) << path;
    EXPECT_EQ(Get(path, "", "HEAD").status, 404) << path;
  }
}

bool IsServed(const std::string& url) {
  if (url == "/" || url == "/chat" || url.starts_with('#') || url.starts_with("data:")) return true;
  return url.starts_with("/web/") && !TextOf(url.substr(5)).empty();
}

TEST(WebFiles, WhatThePagesNameIsThere) {
  for (const WebFile& file : WebFiles()) {
    if (file.name == "chart.js") continue;
    const bool html = file.name.ends_with(".html");
    size_t urls = 0;
    for (const char* word : {" src=", " href=", "from ", "import ", "import(", "url("}) {
      for (std::string url : Behind(file.bytes, word)) {
        if (!html && *word == ' ') continue;
        ++urls;
        if (url.starts_with("./")) url = "/web/" + url.substr(2);
        EXPECT_TRUE(IsServed(url)) << file.name << ": " << url;
      }
    }
    if (html) {
      EXPECT_GT(urls, 2U) << file.name;
    }
  }
}

// The policy forbids most of it, so that it would not work either.
TEST(WebFiles, NothingIsInlineAndNothingComesFromElsewhere) {
  for (const WebFile& file : WebFiles()) {
    if (file.name == "chart.js") continue;
    for (const char* word : {" src=", " href=", ".src", ".href", "from ", "import ", "import(",
                             "url(", "fetch(", "@import ", "WebSocket(", "EventSource("}) {
      for (const std::string& url : Behind(file.bytes, word)) {
        EXPECT_FALSE(url.starts_with("//") || url.starts_with("http")) << file.name << ": " << url;
      }
    }
    for (const char* word : {".innerHTML", ".outerHTML", "insertAdjacentHTML", "document.write",
                             "eval(", "new Function", "setAttribute('on", "setAttribute('style"}) {
      EXPECT_EQ(file.bytes.find(word), file.bytes.npos) << file.name << ": " << word;
    }
    if (!file.name.ends_with(".html")) continue;
    for (const char* word :
         {"<style", " style=", " onclick=", " onload=", " onerror=", "<script>"}) {
      EXPECT_EQ(file.bytes.find(word), file.bytes.npos) << file.name << ": " << word;
    }
  }
}

}  // namespace
}  // namespace ropeway::server
