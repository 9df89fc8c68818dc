// The log's line for each request, and the names of requests, over real sockets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class HttpAccessLogTest : public ServerTest {
 protected:
  void SetUp() override {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
    base::SetLogFormat(true);
    options_.access_log = true;
    options_.api_keys = {{"team-a", "sk-team-a-1"}, {"team-b", "sk-team-b-2"}};
    options_.api_keys[1].tokens_per_minute = 4;
    options_.admin_key = "admin-key-3";
    StartServer(options_);
  }
  void TearDown() override {
    ServerTest::TearDown();
    server_.reset();
    base::SetLogFormat(false);
    spdlog::set_default_logger(before_);
  }

  ClientReply Send(const std::string& bytes) {
    TestClient client(port());
    client.Send(bytes);
    return client.Read();
  }
  ClientReply Complete(const std::string& fields, const std::string& key = "sk-team-a-1") {
    return Send(PostBytes("/v1/completions", R"({"prompt":"my-private-words")" + fields + "}",
                          Bearer(key)));
  }

  // The lines about the requests so far. Their server has ended; another one runs.
  std::vector<json> Lines() {
    StartServer(options_);
    std::vector<json> lines;
    std::istringstream text(log_.str());
    for (std::string line; std::getline(text, line);) {
      const json one = json::parse(line);
      if (one["message"] == "request") lines.push_back(one);
    }
    EXPECT_THAT(log_.str(), Not(HasSubstr("my-private-words")));
    for (const char* key : {"sk-team", "admin-key"}) EXPECT_THAT(log_.str(), Not(HasSubstr(key)));
    log_.str("");
    return lines;
  }

  ServerOptions options_;
  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(HttpAccessLogTest, AnAnswersLineHasItsTokensAndTimes) {
  EXPECT_EQ(Complete(R"(,"n":2,"max_tokens":5,"priority":"high")").status, 200);
  EXPECT_EQ(Complete(R"(,"max_tokens":4,"stream":true)").status, 200);
  const std::vector<json> lines = Lines();
  ASSERT_EQ(lines.size(), 2U);
  for (const json& line : lines) {
    EXPECT_EQ(line["level"], "info");
    EXPECT_EQ(line["key"], "team-a");
    EXPECT_EQ(line["address"], "127.0.0.1");
    EXPECT_EQ(line["method"], "POST");
    EXPECT_EQ(line["route"], "/v1/completions");
    EXPECT_EQ(line["status"], 200);
    EXPECT_EQ(line["model"], "fake-model");
    EXPECT_EQ(line["tokens_in"], 3) << "once for both choices";
    for (const char* name : {"tokens_cached", "queue_ms", "ttft_ms", "total_ms"}) {
      EXPECT_TRUE(line[name].is_number()) << name;
    }
    EXPECT_FALSE(line.contains("code"));
  }
  EXPECT_EQ(lines[0]["class"], "high");
  EXPECT_EQ(lines[0]["tokens_out"], 10);
  EXPECT_EQ(lines[1]["class"], "medium");
  EXPECT_EQ(lines[1]["tokens_out"], 4);
}

TEST_F(HttpAccessLogTest, ARejectionsLineHasItsCodeAndField) {
  Complete(R"(,"temperature":9,"model":"fake-model")");
  Complete(R"(,"model":"none")");
  Complete("", "sk-team-c-9");
  EXPECT_EQ(Complete(R"(,"max_tokens":1)", "sk-team-b-2").status, 200) << "3 + 1 of 4 tokens";
  Complete(R"(,"max_tokens":1)", "sk-team-b-2");
  Send("GET /nowhere/my-private-words HTTP/1.1\r\nHost: localhost\r\n" + Bearer("sk-team-a-1") +
       "\r\n");
  Send("BREW /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Send("no request\r\n\r\n");
  std::vector<json> lines = Lines();
  ASSERT_EQ(lines.size(), 8U);
  lines.erase(lines.begin() + 3);
  const auto shown = [&](size_t i, const char* name) { return lines[i].value(name, json()); };
  struct Case {
    int status;
    const char* route;
    json key, code, field, model;
  };
  const json none;
  const std::vector<Case> cases = {
      {400, "/v1/completions", "team-a", "invalid_request_error", "temperature", "fake-model"},
      {404, "/v1/completions", "team-a", "model_not_found", "model", "none"},
      {401, "/v1/completions", none, "invalid_api_key", none, none},
      {429, "/v1/completions", "team-b", "rate_limit_exceeded", none, "fake-model"},
      {404, "other", "team-a", "invalid_request_error", none, none},
      {405, "/livez", none, "invalid_request_error", none, none},
      {400, "refused", none, "invalid_request_error", none, none}};
  ASSERT_EQ(lines.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(shown(i, "status"), cases[i].status) << i;
    EXPECT_EQ(shown(i, "route"), cases[i].route) << i;
    EXPECT_EQ(shown(i, "key"), cases[i].key) << i;
    EXPECT_EQ(shown(i, "code"), cases[i].code) << i;
    EXPECT_EQ(shown(i, "field"), cases[i].field) << i;
    EXPECT_EQ(shown(i, "model"), cases[i].model) << i;
    EXPECT_FALSE(lines[i].contains("tokens_in")) << i;
  }
}

TEST_F(HttpAccessLogTest, ATooLargeRequestsLineHasWhatWasReadOfIt) {
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: own\r\n";
  EXPECT_EQ(Send(head + "Content-Length: 99999999\r\n\r\n").status, 413);
  EXPECT_EQ(Send(head + "X-Large: " + std::string(40'000, 'x') + "\r\n\r\n").status, 431);
  EXPECT_EQ(Send("GET /" + std::string(40'000, 'x')).status, 431);
  const std::vector<json> lines = Lines();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["code"], "body_too_large");
  EXPECT_EQ(lines[1]["code"], "headers_too_large");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(lines[i]["route"], "/v1/completions") << i;
    EXPECT_EQ(lines[i]["method"], "POST") << i;
    EXPECT_EQ(lines[i]["id"], "own") << i;
  }
  EXPECT_EQ(lines[2]["route"], "refused") << "its line was not read";
}

TEST_F(HttpAccessLogTest, WhatEndsAfterItsHeadersHasALineToo) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 2;
    script.failure = {StatusCode::kInternal, "It failed."};
    return script;
  });
  const ClientReply failed =
      StreamThatFails("/v1/completions", R"({"prompt":"my-private-words","stream":true})");
  EXPECT_EQ(failed.status, 401) << "there are keys";
  backend_.set_hold_failures(true);
  {
    TestClient client(port());
    client.Send(PostBytes("/v1/completions", R"({"prompt":"my-private-words","stream":true})",
                          Bearer("sk-team-a-1")));
    ClientReply reply = client.ReadHead();
    EXPECT_EQ(reply.status, 200);
    backend_.set_hold_failures(false);
    client.ReadBody(&reply);
  }
  backend_.set_script(EndlessScript);
  {
    TestClient client(port());
    client.Send(PostBytes("/v1/completions", R"({"prompt":"my-private-words","stream":true})",
                          Bearer("sk-team-a-1")));
    EXPECT_EQ(client.ReadHead().status, 200);
  }
  ASSERT_TRUE(backend_.WaitIdle());
  const std::vector<json> lines = Lines();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1]["status"], 200);
  EXPECT_EQ(lines[1]["code"], "internal_error");
  EXPECT_EQ(lines[1]["tokens_out"], 2);
  EXPECT_EQ(lines[2]["status"], 499);
  EXPECT_TRUE(lines[1]["ttft_ms"].is_number());
  for (size_t i = 1; i < 3; ++i) EXPECT_EQ(lines[i]["tokens_in"], 3) << "as far as it came";
}

TEST_F(HttpAccessLogTest, ATrustedProxyNamesTheAddress) {
  options_.trusted_proxies = {"127.0.0.1"};
  StartServer(options_);
  log_.str("");
  Send(
      "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.9, "
      "2001:db8::7\r\n\r\n");
  Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.8\r\n\r\n");
  Send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::vector<json> lines = Lines();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["address"], "2001:db8::7");
  EXPECT_EQ(lines[1]["address"], "203.0.113.8") << "also of a 401";
  EXPECT_EQ(lines[1]["status"], 401);
  EXPECT_EQ(lines[2]["address"], "127.0.0.1");
}

TEST_F(HttpAccessLogTest, ALineHasTheIdOfItsAnswer) {
  const std::string get = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n";
  const std::vector<std::string> ids = {
      Send(get + Bearer("sk-team-a-1") + "\r\n").headers["x-request-id"],
      Send(get + "\r\n").headers["x-request-id"],
      Send(get + "X-Request-Id: own\r\n\r\n").headers["x-request-id"]};
  EXPECT_EQ(ids[2], "own");
  const ClientReply answer = Send(PostBytes("/v1/completions", R"({"prompt":"a","max_tokens":1})",
                                            Bearer("sk-team-a-1") + "X-Request-Id: own\r\n"));
  const std::vector<json> lines = Lines();
  ASSERT_EQ(lines.size(), 4U);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(lines[i]["id"], ids[i]);
  EXPECT_FALSE(lines[0].contains("own_id")) << "it is the same";
  EXPECT_EQ(lines[3]["id"], "own");
  EXPECT_EQ(json::parse(answer.body)["id"], "cmpl-" + lines[3].value("own_id", ""));
}

TEST_F(HttpAccessLogTest, NothingIsWrittenWithoutIt) {
  options_.access_log = false;
  StartServer(options_);
  log_.str("");
  ClientReply reply = Send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(reply.headers["x-request-id"], "");
  EXPECT_TRUE(Lines().empty());
}

}  // namespace
}  // namespace ropeway::server
