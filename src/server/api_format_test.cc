// The seam for dialects: a toy dialect (test_toy_dialect.cc) answers in newline-delimited JSON
// through the whole server. It is one file and one row: tests/dialects_test.py counts them.
#include "api/api_format.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {

std::unique_ptr<api::ApiFormat> MakeToyDialect();

namespace {

using nlohmann::json;

class ApiFormatTest : public ServerTest {
 protected:
  void SetUp() override { StartToy({}); }

  void StartToy(const ServerOptions& options) {
    StartServer(options, [](ServerContext* context) {
      std::vector<http::Route> routes = ServerRoutes(context);
      routes.push_back(DialectRoute(context, "/toy", MakeToyDialect, "Toy"));
      return routes;
    });
  }

  static std::vector<json> Lines(const std::string& body) {
    std::vector<json> lines;
    std::istringstream in(body);
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }
};

TEST_F(ApiFormatTest, AWholeAnswer) {
  const ClientReply reply = TestClient(port()).Post("/toy", R"({"ask":"what"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(json::parse(reply.body), json::parse(R"({"said":"w0 w1 w2 ","by":"fake-model"})"));
  EXPECT_EQ(std::get<std::string>(backend_.submitted().at(0).prompt), "what");
}

TEST_F(ApiFormatTest, AStreamOfLines) {
  ClientReply reply = TestClient(port()).Post("/toy", R"({"ask":"what","lines":true})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers["content-type"], "application/x-ndjson");
  EXPECT_EQ(Lines(reply.body),
            (std::vector<json>{
                {{"more", "w0 "}}, {{"more", "w1 "}}, {{"more", "w2 "}}, {{"over", true}}}));
}

// A long text is written by a helper thread, so that no stream waits for it.
TEST_F(ApiFormatTest, LongTextsHoldUpNoIoThread) {
  TestClient client(port());
  const auto ask = [&](size_t bytes, bool lines) {
    const json body = {{"ask", std::string(bytes, 'x')}, {"again", true}, {"lines", lines}};
    const ClientReply reply = client.Post("/toy", body.dump());
    EXPECT_EQ(reply.status, 200);
    return lines ? Lines(reply.body).at(0) : json::parse(reply.body);
  };
  for (const bool lines : {false, true}) {
    EXPECT_EQ(ask(10, lines)["by"], "ropeway-io");
    EXPECT_EQ(ask(300'000, lines)["by"], "ropeway-helper");
  }
  // Long generated texts are written on a helper thread too.
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.text = [](int) { return std::string(100'000, 'y'); };
    return script;
  });
  EXPECT_EQ(ask(10, false)["by"], "ropeway-helper");
}

TEST_F(ApiFormatTest, ErrorsHaveItsShape) {
  TestClient client(port());
  const ClientReply malformed = client.Post("/toy", "{}");
  EXPECT_EQ(malformed.status, 400);
  EXPECT_EQ(json::parse(malformed.body), json::parse(R"({"oops":"'ask' is required."})"));
  backend_.set_rejection({StatusCode::kResourceExhausted, "Full."});
  ClientReply full = client.Post("/toy", R"({"ask":"what"})");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.headers["retry-after"], "7");
  EXPECT_EQ(json::parse(full.body), json::parse(R"({"oops":"Full."})"));
  const ClientReply method = client.Get("/toy");
  EXPECT_EQ(method.status, 405);
  EXPECT_TRUE(json::parse(method.body).contains("oops"));
  // Other paths keep theirs.
  backend_.set_rejection({});
  EXPECT_TRUE(json::parse(client.Post("/v1/completions", "{}").body).contains("error"));
}

TEST_F(ApiFormatTest, ALateFailureIsALine) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 1;
    script.failure = {StatusCode::kInternal, "It broke."};
    return script;
  });
  const ClientReply reply = StreamThatFails("/toy", R"({"ask":"what","lines":true})");
  EXPECT_EQ(reply.status, 200);
  const std::vector<json> lines = Lines(reply.body);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], json::parse(R"({"more":"w0 "})"));
  EXPECT_EQ(lines[1], json::parse(R"({"oops":"It broke."})"));
}

TEST_F(ApiFormatTest, ErrorsBeforeTheBodyHaveItsShapeToo) {
  ServerOptions options;
  options.api_keys = {{"team", "sk-team-key-1"}};
  StartToy(options);
  const ClientReply reply = TestClient(port()).Post("/toy", R"({"ask":"what"})");
  EXPECT_EQ(reply.status, 401);
  EXPECT_TRUE(json::parse(reply.body).contains("oops")) << reply.body;
}

// A dialect without a keep-alive line sends none.
TEST_F(ApiFormatTest, AQuietStreamWithoutKeepAliveIsSilent) {
  ServerOptions options;
  options.limits.keep_alive_interval = std::chrono::milliseconds(1);
  StartToy(options);
  backend_.set_step_pause(std::chrono::milliseconds(20));
  const ClientReply reply = TestClient(port()).Post("/toy", R"({"ask":"what","lines":true})");
  EXPECT_EQ(Lines(reply.body).size(), 4U);
}

}  // namespace
}  // namespace ropeway::server
