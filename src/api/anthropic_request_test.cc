// The body of POST /v1/messages.
#include "api/anthropic_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/dialects.h"
#include "api/test_request_bodies.h"

namespace ropeway::api::anthropic {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

struct Read {
  Status status;
  std::unique_ptr<ApiFormat> format;
  const Body& body() const { return static_cast<Body&>(*format->request()); }
  const Chat& chat() const { return std::get<Chat>(body().prompts.at(0)); }
};

Read ReadBody(const std::string& body, const BodyLimits& limits = {},
              ApiFormatMaker make_format = MakeAnthropicMessages) {
  Read read{.status = {}, .format = make_format()};
  // As a server leaves it: the defaults are its own.
  read.format->request()->request.sampling.given = SamplingParams::kNoneGiven;
  read.status = read.format->Parse(body, limits);
  return read;
}
// A request to answer "Hi" with these members too.
std::string BodyWith(const std::string& members) {
  return R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"}])" + members + "}";
}
Read With(const std::string& members) { return ReadBody(BodyWith(members)); }
Read WithMessages(const std::string& messages) {
  return ReadBody("{\"max_tokens\":9,\"messages\":" + messages + "}");
}

std::string Shown(const ChatMessage& message) {
  std::string shown = message.role + ":" + message.content;
  if (!message.reasoning_content.empty()) shown += " thought:" + message.reasoning_content;
  for (const ToolCall& call : message.tool_calls) {
    shown += fmt::format(" {}={}({})", call.id, call.name, call.arguments);
  }
  if (!message.tool_call_id.empty()) shown += " to:" + message.tool_call_id;
  return shown;
}
std::vector<std::string> Shown(const Chat& chat) {
  std::vector<std::string> all;
  for (const ChatMessage& message : chat.messages) all.push_back(Shown(message));
  return all;
}

TEST(AnthropicRequest, ATextIsAUsersMessage) {
  const Read read = With(R"(,"system":"Be brief.","model":"m","temperature":0.5,"top_p":0.9,
      "top_k":3,"stop_sequences":["a","\n"],"seed":7,"min_p":0.1,"priority":"low","stream":true,
      "metadata":{"user_id":"u"},"timeout":3)");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_THAT(Shown(read.chat()), ElementsAre("system:Be brief.", "user:Hi"));
  const Request& request = read.body().request;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.min_p, 0.1F);
  EXPECT_EQ(request.sampling.seed, 7U);
  EXPECT_THAT(request.stop, ElementsAre("a", "\n"));
  EXPECT_EQ(read.body().priority, Priority::kLow);
  EXPECT_TRUE(read.body().stream);
  EXPECT_EQ(read.body().choices(), 1U);
  EXPECT_FALSE(read.body().keeping.stores_unasked);
  EXPECT_TRUE(read.chat().add_generation_prompt);
  EXPECT_FALSE(read.chat().continue_final_message);
  EXPECT_TRUE(read.body().ignored.empty());
}

TEST(AnthropicRequest, ThePromptIsThatOfAChat) {
  const Read read = With(R"(,"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}])");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  const StatusOr<OpenAiBody> chat = ChatBody(R"({"messages":[
      {"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"user","content":"Hi"}]})");
  ASSERT_TRUE(chat.ok());
  const Chat& other = std::get<Chat>(chat->prompts.at(0));
  EXPECT_EQ(Shown(read.chat()), Shown(other));
  EXPECT_EQ(read.chat().messages[0].part_sizes, other.messages[0].part_sizes);
}

// The conversation of an agent, as it sends it.
TEST(AnthropicRequest, BlocksAreMessages) {
  const Read read = WithMessages(R"([
      {"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},
                                {"type":"text","text":"b"}]},
      {"role":"assistant","content":[
          {"type":"thinking","thinking":"hm","signature":"sig"},
          {"type":"redacted_thinking","data":"xyz"},
          {"type":"text","text":"c","citations":null},
          {"type":"tool_use","id":"t1","name":"f","input":{"z":1,"a":[{"y":1,"b":2}]},"caller":{"type":"direct"}},
          {"type":"tool_use","id":"t2","name":"g","input":{}}]},
      {"role":"user","content":[
          {"type":"tool_result","tool_use_id":"t2","content":"2","is_error":false},
          {"type":"tool_result","tool_use_id":"t1","is_error":true,"cache_control":{"type":"ephemeral"},
           "content":[{"type":"text","text":"1"},{"type":"text","text":"x"}]},
          {"type":"text","text":"d"}]},
      {"role":"assistant","content":"e"},
      {"role":"user","content":[{"type":"text","text":"f"}]}])");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_THAT(
      Shown(read.chat()),
      ElementsAre("user:a\nb",
                  R"(assistant:c thought:hm t1=f({"z":1,"a":[{"y":1,"b":2}]}) t2=g({}))",
                  "tool:2 to:t2", "tool:Error: 1\nx to:t1", "user:d", "assistant:e", "user:f"));
  EXPECT_THAT(read.chat().messages[0].part_sizes, ElementsAre(1U, 1U));
  EXPECT_THAT(read.chat().messages[3].part_sizes, ElementsAre(8U, 1U));
  EXPECT_TRUE(read.chat().messages[6].part_sizes.empty());
  EXPECT_TRUE(read.body().ignored.empty());
}

// As at Anthropic: templates want the roles to take turns.
TEST(AnthropicRequest, MessagesOfOneRoleAreJoined) {
  const Read read = WithMessages(R"([{"role":"user","content":"a"},{"role":"user","content":[]},
      {"role":"user","content":[{"type":"text","text":"b"}]},{"role":"system","content":"s"},
      {"role":"user","content":"c"}])");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_THAT(Shown(read.chat()), ElementsAre("user:a\nb", "system:s", "user:c"));
}

TEST(AnthropicRequest, AResultWithoutContentIsEmpty) {
  const Read read = WithMessages(R"([{"role":"assistant","content":[
      {"type":"tool_use","id":"t","name":"f","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t"},
      {"type":"tool_result","tool_use_id":"t","content":"Error: no","is_error":true}]}])");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_THAT(Shown(read.chat()),
              ElementsAre("assistant: t=f({})", "tool: to:t", "tool:Error: no to:t"));
}

TEST(AnthropicRequest, AnAnswerThatIsBegunGoesOn) {
  const Read read = WithMessages(
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"The answer is ("}])");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_TRUE(read.chat().continue_final_message);
  EXPECT_FALSE(read.chat().add_generation_prompt);
  const Read cut = WithMessages(R"([{"role":"user","content":"a"},{"role":"assistant","content":[
      {"type":"tool_use","id":"t","name":"f","input":{}}]}])");
  EXPECT_THAT(cut.status.message(), HasSubstr("tool_result"));
  EXPECT_EQ(cut.status.field(), "messages");
}

// It has a number that changes with each request.
TEST(AnthropicRequest, TheBillingBlockIsNoPartOfThePrompt) {
  const Read read = With(R"(,"system":[
      {"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=a1b2c;"},
      {"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}])");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_THAT(Shown(read.chat()), ElementsAre("system:You are an agent.", "user:Hi"));
}

TEST(AnthropicRequest, Tools) {
  const Read read = With(R"(,"tools":[
      {"name":"f","description":"d","input_schema":{"type":"object","properties":{"z":{},"a":{}}},
       "strict":true,"cache_control":{"type":"ephemeral"},"eager_input_streaming":true},
      {"type":"custom","name":"g","input_schema":{"type":"object"}}])");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  ASSERT_EQ(read.chat().tools.size(), 2U);
  const Tool& tool = read.chat().tools[0];
  EXPECT_EQ(tool.name, "f");
  EXPECT_EQ(tool.description, "d");
  EXPECT_EQ(tool.parameters, R"({"type":"object","properties":{"z":{},"a":{}}})");
  EXPECT_TRUE(tool.strict);
  EXPECT_EQ(read.chat().tool_choice, ToolChoice::kAuto);
  EXPECT_TRUE(read.chat().parallel_tool_calls);
}

TEST(AnthropicRequest, ToolChoice) {
  const auto chat = [](const std::string& choice) {
    Read read =
        With(R"(,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":)" + choice);
    EXPECT_TRUE(read.status.ok()) << read.status.message();
    return read.chat();
  };
  EXPECT_EQ(chat(R"({"type":"auto"})").tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(chat(R"({"type":"any"})").tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(chat(R"({"type":"none"})").tool_choice, ToolChoice::kNone);
  EXPECT_EQ(chat(R"({"type":"tool","name":"f"})").tool_choice, ToolChoice::kRequired);
  EXPECT_EQ(chat(R"({"type":"tool","name":"f"})").tool_name, "f");
  EXPECT_FALSE(chat(R"({"type":"auto","disable_parallel_tool_use":true})").parallel_tool_calls);
  EXPECT_TRUE(chat(R"({"type":"any","disable_parallel_tool_use":false})").parallel_tool_calls);
}

TEST(AnthropicRequest, Thinking) {
  const auto arguments = [](const std::string& thinking) {
    const Read read = With(",\"thinking\":" + thinking);
    EXPECT_TRUE(read.status.ok()) << read.status.message();
    return read.chat().template_arguments;
  };
  const std::string yes = R"({"thinking":true,"enable_thinking":true})";
  EXPECT_EQ(arguments(R"({"type":"enabled","budget_tokens":1024})"), yes);
  EXPECT_EQ(arguments(R"({"type":"adaptive","display":"summarized"})"), yes);
  EXPECT_EQ(arguments(R"({"type":"between_tools"})"), yes);
  EXPECT_EQ(arguments(R"({"type":"disabled"})"), R"({"thinking":false,"enable_thinking":false})");
  EXPECT_EQ(With("").chat().template_arguments, "");
  EXPECT_FALSE(With("").body().omits_thoughts);
  EXPECT_TRUE(With(R"(,"thinking":{"type":"adaptive","display":"omitted"})").body().omits_thoughts);
}

TEST(AnthropicRequest, FormsAndEffort) {
  for (const char* members : {R"(,"output_config":{"format":{"type":"json_schema",
           "schema":{"type":"object","properties":{"z":{},"a":{}}}}})",
                              R"(,"output_format":{"type":"json_schema",
           "schema":{"type":"object","properties":{"z":{},"a":{}}}})"}) {
    const Read read = With(members);
    ASSERT_TRUE(read.status.ok()) << read.status.message();
    EXPECT_EQ(read.body().request.format.kind, OutputFormat::Kind::kJsonSchema);
    EXPECT_EQ(read.body().request.format.schema,
              R"({"type":"object","properties":{"z":{},"a":{}}})");
  }
  const Read read = With(R"(,"output_config":{"effort":"high","format":null})");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_EQ(read.chat().template_arguments, R"({"reasoning_effort":"high"})");
}

TEST(AnthropicRequest, TheTierIsAClass) {
  EXPECT_EQ(With(R"(,"service_tier":"standard_only")").body().priority, Priority::kMedium);
  EXPECT_FALSE(With(R"(,"service_tier":"auto")").body().priority.has_value());
}

// What is about Anthropic's own machines, and what agents send.
TEST(AnthropicRequest, AcceptsWhatChangesNothing) {
  for (const char* members :
       {R"("cache_control":{"type":"ephemeral","ttl":"1h"})", R"("container":null)",
        R"("mcp_servers":[])", R"("inference_geo":"us")", R"("speed":"fast")",
        R"("anthropic_version":"bedrock-2023-05-31")", R"("metadata":{"user_id":null})",
        R"("betas":["x"])", R"("diagnostics":{"previous_message_id":null})", R"("stop":null)",
        R"("context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]})",
        R"("user":"u")", R"("n":1)", R"("top_k":-1)"}) {
    const Read read = With("," + std::string(members));
    EXPECT_TRUE(read.status.ok()) << read.status.message();
    EXPECT_TRUE(read.body().ignored.empty()) << members;
  }
  EXPECT_THAT(With(R"(,"unheard_of":1)").body().ignored, ElementsAre("unheard_of"));
  const BodyLimits strict = {.reject_unknown = true};
  EXPECT_EQ(ReadBody(BodyWith(R"(,"unheard_of":1)"), strict).status.field(), "unheard_of");
}

TEST(AnthropicRequest, NamesWhatIsWrong) {
  const auto block = [](const char* role, const std::string& block) {
    return fmt::format(R"({{"max_tokens":1,"messages":[{{"role":"{}","content":[{}]}}]}})", role,
                       block);
  };
  const std::string tool = R"({"name":"f","input_schema":{"type":"object"}})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"messages":[{"role":"user","content":"Hi"}]})", "max_tokens"},
      {R"({"max_tokens":1})", "messages"},
      {R"({"max_tokens":1,"messages":[]})", "messages"},
      {R"({"max_tokens":1,"messages":"Hi"})", "messages"},
      {R"({"max_tokens":-2,"messages":[{"role":"user","content":"Hi"}]})", "max_tokens"},
      {R"({"max_tokens":1,"messages":["Hi"]})", "messages[0]"},
      {R"({"max_tokens":1,"messages":[{"role":"tool","content":"Hi"}]})", "messages[0].role"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":1}]})", "messages[0].content"},
      {R"({"max_tokens":1,"messages":[{"role":"user"}]})", "messages[0].content"},
      {block("user", "1"), "messages[0].content[0]"},
      {block("user", "{}"), "messages[0].content[0].type"},
      {block("user", R"({"type":"image","source":{"type":"url","url":"http://x"}})"),
       "messages[0].content[0].type"},
      {block("user", R"({"type":"document"})"), "messages[0].content[0].type"},
      {block("user", R"({"type":"tool_use","id":"t","name":"f","input":{}})"),
       "messages[0].content[0].type"},
      {block("user", R"({"type":"text"})"), "messages[0].content[0].text"},
      {block("user", R"({"type":"text","text":"a","textt":1})"), "messages[0].content[0].textt"},
      {block("user", R"({"type":"tool_result"})"), "messages[0].content[0].tool_use_id"},
      {block("user", R"({"type":"tool_result","tool_use_id":"t"})"),
       "messages[0].content[0].tool_use_id"},
      {block("assistant", R"({"type":"tool_result","tool_use_id":"t"})"),
       "messages[0].content[0].type"},
      {block("assistant", R"({"type":"server_tool_use"})"), "messages[0].content[0].type"},
      {block("assistant", R"({"type":"thinking"})"), "messages[0].content[0].thinking"},
      {block("assistant", R"({"type":"tool_use","name":"f","input":{}})"),
       "messages[0].content[0].id"},
      {block("assistant", R"({"type":"tool_use","id":"t","name":"","input":{}})"),
       "messages[0].content[0].name"},
      {block("assistant", R"({"type":"tool_use","id":"t","name":"f","input":"{}"})"),
       "messages[0].content[0].input"},
      {BodyWith(R"(,"system":1)"), "system"},
      {BodyWith(R"(,"system":[{"type":"image"}])"), "system[0].type"},
      {BodyWith(R"(,"system":["a"])"), "system[0]"},
      {BodyWith(R"(,"temperature":2.5)"), "temperature"},
      {BodyWith(R"(,"stop_sequences":"a")"), "stop_sequences"},
      {BodyWith(R"(,"stop_sequences":[1])"), "stop_sequences[0]"},
      {BodyWith(R"(,"stop":["a"])"), "stop"},
      {BodyWith(R"(,"metadata":"u")"), "metadata"},
      {BodyWith(R"(,"metadata":{"user_id":1})"), "metadata.user_id"},
      {BodyWith(R"(,"service_tier":"best")"), "service_tier"},
      {BodyWith(R"(,"thinking":true)"), "thinking"},
      {BodyWith(R"(,"thinking":{"type":"on"})"), "thinking.type"},
      {BodyWith(R"(,"thinking":{"type":"enabled","budget_tokens":"1"})"), "thinking.budget_tokens"},
      {BodyWith(R"(,"thinking":{"type":"enabled","display":"all"})"), "thinking.display"},
      {BodyWith(R"(,"tools":{})"), "tools"},
      {BodyWith(R"(,"tools":[1])"), "tools[0]"},
      {BodyWith(R"(,"tools":[{"type":"web_search_20250305","name":"web_search"}])"),
       "tools[0].type"},
      {BodyWith(R"(,"tools":[{"input_schema":{}}])"), "tools[0].name"},
      {BodyWith(R"(,"tools":[{"name":"f"}])"), "tools[0].input_schema"},
      {BodyWith(R"(,"tools":[{"name":"a b","input_schema":{}}])"), "tools[0].name"},
      {BodyWith(R"(,"tools":[{"name":"f","input_schema":{},"strict":1}])"), "tools[0].strict"},
      {BodyWith(R"(,"tools":[{"name":"f","input_schema":{},"defer_loading":true}])"),
       "tools[0].defer_loading"},
      {BodyWith(",\"tools\":[" + tool + "," + tool + "]"), "tools[1].name"},
      {BodyWith(R"(,"tool_choice":"auto")"), "tool_choice"},
      {BodyWith(R"(,"tool_choice":{"type":"all"})"), "tool_choice.type"},
      {BodyWith(R"(,"tool_choice":{"type":"tool"})"), "tool_choice.name"},
      {BodyWith(R"(,"tool_choice":{"type":"any"})"), "tool_choice"},
      {BodyWith(",\"tools\":[" + tool + R"(],"tool_choice":{"type":"tool","name":"g"})"),
       "tool_choice.name"},
      {BodyWith(R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":1})"),
       "tool_choice.disable_parallel_tool_use"},
      {BodyWith(R"(,"output_config":1)"), "output_config"},
      {BodyWith(R"(,"output_config":{"effort":1})"), "output_config.effort"},
      {BodyWith(R"(,"output_config":{"format":{"type":"text"}})"), "output_config.format.type"},
      {BodyWith(R"(,"output_config":{"format":{"type":"json_schema"}})"),
       "output_config.format.schema"},
      {BodyWith(R"(,"output_format":{})"), "output_format.type"},
      {BodyWith(R"(,"context_management":{"edits":[{"type":"compact_20260112"}]})"),
       "context_management.edits[0]"},
      {BodyWith(R"(,"mcp_servers":[{"url":"http://x"}])"), "mcp_servers"},
      {BodyWith(R"(,"container":"c")"), "container"},
      {BodyWith(R"(,"compaction":{"type":"enabled"})"), "compaction"},
      {BodyWith(R"(,"thread":{"type":"create"})"), "thread"},
      {BodyWith(R"(,"stream":1)"), "stream"},
      {BodyWith(R"(,"max_token":1)"), "max_token"},
      {BodyWith(R"(,"store":true)"), "store"},
      {BodyWith(R"(,"ropeway_gateway":{})"), "ropeway_gateway"},
  };
  for (const auto& [body, field] : cases) {
    const Read read = ReadBody(body);
    EXPECT_EQ(read.status.field(), field) << body;
    EXPECT_FALSE(read.status.ok()) << body;
    EXPECT_THAT(read.status.message(), HasSubstr(field)) << body;
  }
}

TEST(AnthropicRequest, NamesTheBlockThatItCannotTake) {
  const Read read = WithMessages(R"([{"role":"user","content":[{"type":"image"}]}])");
  EXPECT_EQ(read.status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(read.status.message(), HasSubstr("\"image\""));
  EXPECT_THAT(With(R"(,"tools":[{"type":"web_search_20250305"}])").status.message(),
              HasSubstr("\"web_search_20250305\""));
}

TEST(AnthropicRequest, ToCountNeedsNoMaxTokens) {
  const std::string body = R"({"messages":[{"role":"user","content":"Hi"}],"system":"s"})";
  EXPECT_EQ(ReadBody(body).status.field(), "max_tokens");
  const Read read = ReadBody(body, {}, MakeAnthropicCount);
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_THAT(Shown(read.chat()), ElementsAre("system:s", "user:Hi"));
}

TEST(AnthropicRequest, AnythingAnywhereIsReadOrNamed) {
  const json good =
      json::parse(R"({"model":"m","max_tokens":5,"system":[{"type":"text","text":"s"}],
      "messages":[{"role":"user","content":[{"type":"text","text":"a"}]},
          {"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},
              {"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,
              "content":[{"type":"text","text":"1"}]}]}],
      "tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],
      "tool_choice":{"type":"auto","disable_parallel_tool_use":true},
      "thinking":{"type":"enabled","budget_tokens":1024},"stop_sequences":["x"],
      "metadata":{"user_id":"u"},"output_config":{"effort":"low"}})");
  EXPECT_GT(RejectedWithAnythingAnywhere(good, MakeAnthropicMessages), 200);
}

}  // namespace
}  // namespace ropeway::api::anthropic
