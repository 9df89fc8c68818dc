// POST /v1/messages and POST /v1/messages/count_tokens over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kAskHi[] = R"({"max_tokens":3,"messages":[{"role":"user","content":"Hi"}])";
constexpr char kOneKey[] = "a-key-of-tests";

class HttpAnthropicTest : public ServerTest {
 protected:
  ClientReply Ask(const std::string& members, const std::string& path = "/v1/messages") {
    return TestClient(port()).Post(path, kAskHi + members + "}");
  }
  // With these headers.
  ClientReply Send(const std::string& path, const std::string& headers) {
    TestClient client(port());
    client.Send(PostBytes(path, std::string(kAskHi) + "}", headers));
    return client.Read();
  }
  static json ErrorOf(const ClientReply& reply) {
    const json body = json::parse(reply.body);
    EXPECT_EQ(body["type"], "error");
    return body["error"];
  }
};

TEST_F(HttpAnthropicTest, IsAnswered) {
  // Agents add a query.
  for (const char* path : {"/v1/messages", "/messages/", "/v1/messages?beta=true"}) {
    const ClientReply reply = Ask(R"(,"system":"Be brief.")", path);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const json answer = json::parse(reply.body);
    EXPECT_EQ(answer["content"][0]["text"], "w0 w1 w2 ");
    EXPECT_THAT(answer["id"].get<std::string>(), testing::StartsWith("msg_"));
    EXPECT_EQ(answer["stop_reason"], "max_tokens");
    EXPECT_EQ(answer["usage"]["input_tokens"], 2);
    EXPECT_EQ(answer["usage"]["cache_read_input_tokens"], 1);
  }
  const Request submitted = backend_.submitted().at(0);
  const auto& chat = std::get<Chat>(submitted.prompt);
  ASSERT_EQ(chat.messages.size(), 2U);
  EXPECT_EQ(chat.messages[0].content, "Be brief.");
  EXPECT_EQ(submitted.max_tokens, 3);
}

TEST_F(HttpAnthropicTest, IsStreamed) {
  ClientReply reply = Ask(R"(,"stream":true)");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers["content-type"], "text/event-stream; charset=utf-8");
  EXPECT_THAT(reply.body, testing::StartsWith("event: message_start\ndata: {"));
  EXPECT_THAT(reply.body, HasSubstr(R"("input_tokens":3)"))
      << "its prompt, before anything is said";
  EXPECT_THAT(reply.body, HasSubstr(R"("text":"w2 ")"));
  EXPECT_THAT(reply.body, testing::EndsWith("event: message_stop\ndata: {\"type\":\"message_stop\"}"
                                            "\n\n"));
}

TEST_F(HttpAnthropicTest, ALateFailureIsAnEvent) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 1;
    script.failure = {StatusCode::kInternal, "It broke."};
    return script;
  });
  const ClientReply reply =
      StreamThatFails("/v1/messages", std::string(kAskHi) + R"(,"stream":true})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("\nevent: error\ndata: {\"type\":\"error\",\"error\":"
                                    "{\"type\":\"api_error\",\"message\":\"It broke.\""));
  EXPECT_THAT(reply.body, testing::Not(HasSubstr("message_stop")));
}

TEST_F(HttpAnthropicTest, ErrorsHaveItsShape) {
  ClientReply reply = TestClient(port()).Post(
      "/v1/messages",
      R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image"}]}]})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(ErrorOf(reply)["type"], "invalid_request_error");
  EXPECT_THAT(ErrorOf(reply)["message"].get<std::string>(),
              HasSubstr("'messages[0].content[0].type'"));
  reply = Ask(R"(,"model":"nobody")");
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(ErrorOf(reply)["type"], "not_found_error");
  backend_.set_rejection({StatusCode::kResourceExhausted, "The queue is full."});
  reply = Ask("");
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(ErrorOf(reply)["type"], "rate_limit_error");
  EXPECT_EQ(reply.headers["retry-after"], "7");
  backend_.set_rejection({});
  reply = TestClient(port()).Post("/v1/messages", std::string(10 << 20, ' '));
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(ErrorOf(reply)["type"], "request_too_large");
}

// Its clients show it with each error, and keep it with each message.
TEST_F(HttpAnthropicTest, EachAnswerHasItsRequestIdWhereItsClientsLook) {
  const auto expect_own = [](ClientReply reply, int status) {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_NE(reply.headers["request-id"], "");
    EXPECT_EQ(reply.headers["request-id"], reply.headers["x-request-id"]);
    if (status == 200) return;
    EXPECT_EQ(json::parse(reply.body)["request_id"], reply.headers["request-id"]);
  };
  const std::string count = "/v1/messages/count_tokens";
  expect_own(Ask(""), 200);
  expect_own(Ask(R"(,"stream":true)"), 200);
  expect_own(TestClient(port()).Post(count, R"({"messages":[{"role":"user","content":"a"}]})"),
             200);
  expect_own(Ask(R"(,"model":"nobody")"), 404);
  expect_own(Ask(R"(,"model":"nobody")", count), 404);
  expect_own(TestClient(port()).Get("/v1/messages"), 405);
  expect_own(TestClient(port()).Post("/v1/messages", std::string(10 << 20, ' ')), 413);
  ClientReply named = Send("/v1/messages", "X-Request-Id: my-own\r\n");
  EXPECT_EQ(named.headers["request-id"], "my-own");
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 1;
    script.failure = {StatusCode::kInternal, "It broke."};
    return script;
  });
  ClientReply late = StreamThatFails("/v1/messages", std::string(kAskHi) + R"(,"stream":true})");
  EXPECT_THAT(late.body, HasSubstr("\"request_id\":\"" + late.headers["x-request-id"] + "\"}"));
  ClientReply other = TestClient(port()).Post("/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(other.headers.count("request-id"), 0U);
  ServerOptions options;
  options.api_keys = {{.name = "a", .key = kOneKey}};
  StartServer(options);
  expect_own(Ask(""), 401);
}

// Its clients send the key in a header of its own.
TEST_F(HttpAnthropicTest, TheKeyMayBeInXApiKey) {
  ServerOptions options;
  options.api_keys = {{.name = "a", .key = kOneKey}};
  StartServer(options);
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    const std::string key = std::string("X-Api-Key: ") + kOneKey + "\r\n";
    const std::string more = "anthropic-version: 2023-06-01\r\nanthropic-beta: a,b\r\n";
    EXPECT_EQ(Send(path, key + more).status, 200);
    ClientReply reply = Send(path, more);
    EXPECT_EQ(reply.status, 401);
    EXPECT_EQ(ErrorOf(reply)["type"], "authentication_error");
    reply = Send(path, "X-Api-Key: another-key-of-tests\r\n" + more);
    EXPECT_EQ(reply.status, 401);
    // Two keys are no key.
    reply = Send(path, key + Bearer("another-key-of-tests"));
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(ErrorOf(reply)["type"], "invalid_request_error");
  }
}

// As its client in a page asks.
TEST_F(HttpAnthropicTest, APageMaySendItsHeaders) {
  TestClient client(port());
  client.Send(
      "OPTIONS /v1/messages HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "
      "anthropic-dangerous-direct-browser-access,anthropic-version,content-type,x-api-key\r\n\r\n");
  ClientReply reply = client.Read();
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(
      reply.headers["access-control-allow-headers"],
      "anthropic-dangerous-direct-browser-access, anthropic-version, content-type, x-api-key");
}

TEST_F(HttpAnthropicTest, TokensAreCounted) {
  const std::string path = "/v1/messages/count_tokens";
  const ClientReply reply = TestClient(port()).Post(
      path, R"({"system":"Be brief.","messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  const ClientReply tokens =
      TestClient(port()).Post("/tokenize", R"({"messages":[{"role":"system","content":"Be brief."},
                                   {"role":"user","content":"Hi"}]})");
  EXPECT_EQ(json::parse(reply.body),
            json({{"input_tokens", json::parse(tokens.body)["count"].get<int>()}}));
  EXPECT_TRUE(backend_.submitted().empty());

  ClientReply wrong = TestClient(port()).Post(path, R"({"messages":[]})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(ErrorOf(wrong)["message"].get<std::string>(), HasSubstr("'messages'"));
  wrong = TestClient(port()).Post(
      path, R"({"model":"nobody","messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(wrong.status, 404);
  EXPECT_EQ(ErrorOf(wrong)["type"], "not_found_error");
  wrong = TestClient(port()).Post(path, "{");
  EXPECT_EQ(wrong.status, 400);
  ClientReply unknown = Ask(R"(,"unheard_of":1)", path);
  EXPECT_EQ(unknown.status, 200);
  EXPECT_EQ(unknown.headers["x-ropeway-ignored"], "unheard_of");
}

// As its client lists them.
TEST_F(HttpAnthropicTest, ModelsHaveItsFieldsToo) {
  const json list = json::parse(TestClient(port()).Get("/v1/models?limit=20").body);
  const json& model = list["data"].at(0);
  EXPECT_EQ(model["type"], "model");
  EXPECT_EQ(model["display_name"], model["id"]);
  EXPECT_THAT(model["created_at"].get<std::string>(),
              testing::MatchesRegex("[0-9]+-[0-9][0-9]-[0-9][0-9]T[0-9:]+Z"));
  EXPECT_EQ(list["has_more"], false);
  EXPECT_EQ(list["first_id"], model["id"]);
  EXPECT_EQ(list["last_id"], list["data"].back()["id"]);
}

}  // namespace
}  // namespace ropeway::server
