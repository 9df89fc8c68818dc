// POST /v1/responses over real sockets, without a store.
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

class HttpResponsesTest : public ServerTest {
 protected:
  ClientReply Ask(const std::string& members, const std::string& path = "/v1/responses") {
    return TestClient(port()).Post(path, R"({"input":"Hi","max_output_tokens":3)" + members + "}");
  }
  static json ErrorOf(const ClientReply& reply) { return json::parse(reply.body)["error"]; }
};

TEST_F(HttpResponsesTest, IsAnswered) {
  for (const char* path : {"/v1/responses", "/responses/"}) {
    const ClientReply reply = Ask(R"(,"instructions":"Be brief.","store":false)", path);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const json answer = json::parse(reply.body);
    EXPECT_EQ(answer["output"][0]["content"][0]["text"], "w0 w1 w2 ");
    EXPECT_THAT(answer["id"].get<std::string>(), testing::StartsWith("resp_"));
    EXPECT_EQ(answer["store"], false);
    EXPECT_EQ(answer["instructions"], "Be brief.");
  }
  const Request submitted = backend_.submitted().at(0);
  const auto& chat = std::get<Chat>(submitted.prompt);
  ASSERT_EQ(chat.messages.size(), 2U);
  EXPECT_EQ(chat.messages[0].content, "Be brief.");
  EXPECT_EQ(chat.messages[1].content, "Hi");
}

TEST_F(HttpResponsesTest, IsStreamed) {
  ClientReply reply = Ask(R"(,"stream":true)");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers["content-type"], "text/event-stream; charset=utf-8");
  EXPECT_THAT(reply.body, testing::StartsWith("event: response.created\ndata: {"));
  EXPECT_THAT(reply.body, HasSubstr(R"("delta":"w2 ")"));
  EXPECT_THAT(reply.body, HasSubstr("\nevent: response.incomplete\n"));
  EXPECT_THAT(reply.body, testing::Not(HasSubstr("[DONE]")));
}

TEST_F(HttpResponsesTest, ALateFailureIsAnEvent) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.fail_after = 1;
    script.failure = {StatusCode::kInternal, "It broke."};
    return script;
  });
  const ClientReply reply = StreamThatFails("/v1/responses", R"({"input":"Hi","stream":true})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("\nevent: response.failed\n"));
  EXPECT_THAT(reply.body, HasSubstr("\nevent: error\n"));
  EXPECT_THAT(reply.body, testing::Not(HasSubstr("completed\"")));
}

// A client that counts on a stored answer must not lose it silently.
TEST_F(HttpResponsesTest, WithoutAStoreNothingIsKept) {
  for (const auto& [members, field] : std::vector<std::pair<std::string, std::string>>{
           {R"("store":true)", "store"},
           {R"("background":true)", "background"},
           {R"("stream":true,"background":true)", "background"},
           {R"("previous_response_id":"resp_1")", "previous_response_id"},
           {R"("conversation":"conv_1")", "conversation"}}) {
    ClientReply reply = Ask("," + members);
    EXPECT_EQ(reply.status, 503) << members;
    EXPECT_EQ(ErrorOf(reply)["param"], field);
    EXPECT_THAT(ErrorOf(reply)["message"].get<std::string>(), HasSubstr("--state-path"));
    EXPECT_EQ(reply.headers["x-should-retry"], "false") << "it would be the same";
    EXPECT_FALSE(reply.headers.contains("retry-after")) << members;
  }
  EXPECT_TRUE(backend_.submitted().empty());
  EXPECT_EQ(json::parse(Ask("").body)["store"], false);
}

// OpenAI's clients send it with chats, where nothing is kept by default either.
TEST_F(HttpResponsesTest, AChatsStoreHasNoEffect) {
  const ClientReply reply = TestClient(port()).Post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"store":true})");
  EXPECT_EQ(reply.status, 200) << reply.body;
}

TEST_F(HttpResponsesTest, ErrorsNameTheirFields) {
  ClientReply reply = TestClient(port()).Post(
      "/v1/responses", R"({"input":[{"role":"user","content":"a"},{"type":"item_reference"}]})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(ErrorOf(reply)["param"], "input[1].type");
  EXPECT_EQ(ErrorOf(reply)["code"], "unsupported_parameter");
  Status failure = InvalidArgument("It is too long.", "messages");
  failure.set_api_code("context_length_exceeded");
  backend_.set_rejection(failure);
  reply = Ask("");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(ErrorOf(reply)["param"], "input");
  EXPECT_EQ(ErrorOf(reply)["code"], "context_length_exceeded");
  backend_.set_rejection({});
}

// Longer than what an I/O thread writes by itself.
TEST_F(HttpResponsesTest, LongInstructionsAreRepeated) {
  const std::string text(300'000, 'i');
  for (const char* stream : {"", R"(,"stream":true)"}) {
    const ClientReply reply = Ask(stream + (",\"instructions\":\"" + text + "\""));
    EXPECT_EQ(reply.status, 200);
    EXPECT_THAT(reply.body, HasSubstr(text));
  }
  const ClientReply reply = TestClient(port()).Post(
      "/v1/responses", "{\"input\":\"" + std::string(10 << 20, 'i') + "\"}");
  EXPECT_EQ(reply.status, 413);
}

}  // namespace
}  // namespace ropeway::server
