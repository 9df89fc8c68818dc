// The bodies of Ollama's POST /api/chat and POST /api/generate.
#include "api/ollama_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/dialects.h"
#include "api/test_request_bodies.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using OllamaList = std::vector<std::string>;

struct OllamaRead {
  Status status;
  std::unique_ptr<ApiFormat> format;
  const OllamaBody& body() const { return static_cast<OllamaBody&>(*format->request()); }
  const Request& request() const { return body().request; }
  const Chat& chat() const { return std::get<Chat>(body().prompts.at(0)); }
};

OllamaRead ReadAs(ApiFormatMaker make, const std::string& body, const BodyLimits& limits = {}) {
  OllamaRead read{.status = {}, .format = make()};
  // As a server leaves it: the defaults are its own.
  read.format->request()->request.sampling.given = SamplingParams::kNoneGiven;
  read.status = read.format->Parse(body, limits);
  return read;
}
OllamaRead ReadChat(const std::string& body, const BodyLimits& limits = {}) {
  return ReadAs(MakeOllamaChat, body, limits);
}
OllamaRead ChatWithMembers(const std::string& members) {
  return ReadChat(R"({"model":"m","messages":[{"role":"user","content":"Hi"}])" + members + "}");
}
OllamaRead WithMessages(const std::string& messages) {
  return ReadChat("{\"messages\":" + messages + "}");
}
OllamaRead Generated(const std::string& members) {
  return ReadAs(MakeOllamaGenerate, R"({"model":"m","prompt":"Hi")" + members + "}");
}
OllamaRead WithOption(const std::string& name, const std::string& value) {
  return ChatWithMembers(fmt::format(R"(,"options":{{"{}":{}}})", name, value));
}

OllamaList ShownMessages(const Chat& chat) {
  OllamaList all;
  for (const ChatMessage& message : chat.messages) {
    std::string shown = message.role + ":" + message.content;
    if (!message.reasoning_content.empty()) shown += " thought:" + message.reasoning_content;
    for (const ToolCall& call : message.tool_calls) {
      shown += fmt::format(" {}={}({})", call.id, call.name, call.arguments);
    }
    if (!message.tool_call_id.empty()) shown += " to:" + message.tool_call_id;
    if (!message.name.empty()) shown += " of:" + message.name;
    all.push_back(shown);
  }
  return all;
}

TEST(OllamaRequest, AChatIsStreamedUnlessItSaysNot) {
  const OllamaRead read = ChatWithMembers("");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_EQ(ShownMessages(read.chat()), OllamaList{"user:Hi"});
  EXPECT_TRUE(read.body().stream);
  EXPECT_TRUE(ChatWithMembers(R"(,"stream":null)").body().stream);
  EXPECT_FALSE(ChatWithMembers(R"(,"stream":false)").body().stream);
  EXPECT_EQ(read.request().model, "m");
  EXPECT_EQ(read.request().max_tokens, std::nullopt);
  EXPECT_EQ(read.request().sampling.given, SamplingParams::kNoneGiven) << "the model's defaults";
}

TEST(OllamaRequest, OptionsAreTheParametersUnderOllamasNames) {
  const OllamaRead read =
      ChatWithMembers(R"(,"options":{"num_predict":5,"temperature":0.5,"top_k":3,
      "top_p":0.9,"min_p":0.1,"typical_p":0.8,"repeat_penalty":1.1,"presence_penalty":0.5,
      "frequency_penalty":1,"seed":7,"stop":["a","b"],"num_ctx":4096})");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  const Request& request = read.request();
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.min_p, 0.1F);
  EXPECT_EQ(request.sampling.typical_p, 0.8F);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(request.sampling.presence_penalty, 0.5F);
  EXPECT_EQ(request.sampling.frequency_penalty, 1.0F);
  EXPECT_EQ(request.sampling.seed, 7U);
  EXPECT_EQ(request.stop, (OllamaList{"a", "b"}));
  EXPECT_EQ(WithOption("stop", "\"x\"").request().stop, OllamaList{"x"});
  EXPECT_TRUE(read.body().ignored.empty());
}

TEST(OllamaRequest, NumbersThatMeanNoLimitOrNoSeed) {
  for (const char* all : {"-1", "-2", "0", "-1.0"}) {
    const OllamaRead read = WithOption("num_predict", all);
    EXPECT_TRUE(read.status.ok()) << read.status.message();
    EXPECT_EQ(read.request().max_tokens, std::nullopt);
  }
  EXPECT_EQ(WithOption("seed", "-1").request().sampling.seed, std::nullopt);
  EXPECT_EQ(WithOption("seed", "0").request().sampling.seed, 0U);
  EXPECT_TRUE(WithOption("temperature", "null").status.ok());
}

// As Ollama reads them: clients whose numbers are all floats write so.
TEST(OllamaRequest, WholeNumbersMayHaveAPoint) {
  EXPECT_EQ(WithOption("num_predict", "7.0").request().max_tokens, 7);
  EXPECT_EQ(WithOption("top_k", "4e1").request().sampling.top_k, 40);
  EXPECT_EQ(WithOption("seed", "42.0").request().sampling.seed, 42U);
  EXPECT_EQ(WithOption("seed", "-1.0").request().sampling.seed, std::nullopt);
  EXPECT_FLOAT_EQ(WithOption("temperature", "1.0").request().sampling.temperature, 1.0F);
  for (const char* bad : {"1e300", "-1e300", "7.5"}) {
    EXPECT_EQ(WithOption("num_predict", bad).status.field(), "options.num_predict") << bad;
  }
}

TEST(OllamaRequest, WhatIsWrongInAnOptionNamesIt) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"temperature", "3"},
                                                        {"temperature", "\"hot\""},
                                                        {"num_predict", "1.5"},
                                                        {"top_k", "true"},
                                                        {"top_p", "0"},
                                                        {"seed", "\"x\""},
                                                        {"stop", "[1]"},
                                                        {"repeat_penalty", "0"},
                                                        {"mirostat", "1"},
                                                        {"tfs_z", "0.5"},
                                                        {"penalize_newline", "false"},
                                                        {"temperatur", "1"}}) {
    const OllamaRead read = WithOption(name, value);
    EXPECT_FALSE(read.status.ok()) << name << value;
    EXPECT_EQ(read.status.field(), "options." + name) << read.status.message();
    EXPECT_THAT(read.status.message(), HasSubstr("options." + name));
  }
  EXPECT_EQ(ChatWithMembers(R"(,"options":[])").status.field(), "options");
  EXPECT_EQ(
      ChatWithMembers(R"(,"options":{"top_k":3,"num_predict":5,"max_tokens":6})").status.message(),
      "'options.num_predict' and 'options.max_tokens' differ; give one of them.");
}

// Clients send Ollama's own default, 64, with every request.
TEST(OllamaRequest, HowFarPenaltiesLookBackMattersWithOneAlone) {
  const auto with = [](const std::string& options) {
    return ChatWithMembers(",\"options\":{" + options + "}").status;
  };
  for (const char* any : {"64", "0", "-1", "null"}) {
    const std::string last = std::string("\"repeat_last_n\":") + any;
    EXPECT_TRUE(with(last).ok()) << any;
    EXPECT_TRUE(with(last + R"(,"repeat_penalty":1.0,"presence_penalty":0)").ok()) << any;
  }
  for (const char* penalty :
       {R"("repeat_penalty":1.1)", R"("presence_penalty":-1)", R"("frequency_penalty":0.5)"}) {
    EXPECT_TRUE(with(std::string(R"("repeat_last_n":-1,)") + penalty).ok()) << penalty;
    const Status fault = with(std::string(R"("repeat_last_n":64,)") + penalty);
    EXPECT_EQ(fault.code(), StatusCode::kUnimplemented) << penalty;
    EXPECT_EQ(fault.field(), "options.repeat_last_n");
    EXPECT_THAT(fault.message(), HasSubstr("'options.repeat_last_n' supports only -1 with a"));
  }
}

// A model's own penalty is none that the request gave.
TEST(OllamaRequest, HowFarPenaltiesLookBackMattersNotToAServersDefault) {
  const auto with = [](const std::string& options) {
    const std::unique_ptr<ApiFormat> format = MakeOllamaGenerate();
    SamplingParams& sampling = format->request()->request.sampling;
    sampling.repetition_penalty = 1.1F;
    sampling.given = SamplingParams::kNoneGiven;
    return format->Parse(R"({"prompt":"Hi","options":{"repeat_last_n":64)" + options + "}}", {});
  };
  EXPECT_TRUE(with("").ok()) << with("").message();
  EXPECT_TRUE(with(R"(,"temperature":0.5)").ok());
  EXPECT_EQ(with(R"(,"repeat_penalty":1.1)").field(), "options.repeat_last_n");
}

TEST(OllamaRequest, WhatAModelIsLoadedWithChangesNothing) {
  const OllamaRead read =
      ChatWithMembers(R"(,"keep_alive":"5m","truncate":true,"shift":false,"options":{
      "num_ctx":9,"num_gpu":1,"num_thread":8,"use_mmap":true,"mirostat":0,"mirostat_tau":5,
      "repeat_last_n":-1,"num_keep":4,"low_vram":false})");
  EXPECT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_TRUE(read.body().ignored.empty());
  EXPECT_EQ(ChatWithMembers(R"(,"truncate":1)").status.field(), "truncate");
}

TEST(OllamaRequest, UnknownFieldsAreNamedOrRejected) {
  EXPECT_EQ(ChatWithMembers(R"(,"temperature":1,"options":{"dry_base":2})").body().ignored,
            (OllamaList{"options.dry_base", "temperature"}));
  BodyLimits strict;
  strict.reject_unknown = true;
  const std::string body =
      R"({"messages":[{"role":"user","content":"Hi"}],"options":{"dry_base":2}})";
  EXPECT_EQ(ReadChat(body, strict).status.field(), "options.dry_base");
  EXPECT_THAT(ChatWithMembers(R"(,"fromat":"json")").status.message(),
              HasSubstr("did you mean 'format'?"));
}

TEST(OllamaRequest, AForm) {
  EXPECT_EQ(ChatWithMembers(R"(,"format":"json")").request().format.kind,
            OutputFormat::Kind::kJsonObject);
  const OllamaRead read =
      ChatWithMembers(R"(,"format":{"type":"object","properties":{"z":{},"a":{}}})");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_EQ(read.request().format.kind, OutputFormat::Kind::kJsonSchema);
  EXPECT_EQ(read.request().format.schema, R"({"type":"object","properties":{"z":{},"a":{}}})");
  EXPECT_EQ(read.request().format.field, "format");
  EXPECT_EQ(ChatWithMembers(R"(,"format":"")").request().format.kind, OutputFormat::Kind::kText);
  for (const char* bad : {"\"xml\"", "1", "[]", "true"}) {
    EXPECT_EQ(ChatWithMembers(std::string(",\"format\":") + bad).status.field(), "format") << bad;
  }
}

TEST(OllamaRequest, Thinking) {
  EXPECT_EQ(ChatWithMembers("").chat().template_arguments, "");
  EXPECT_EQ(ChatWithMembers(R"(,"think":false)").chat().template_arguments,
            R"({"thinking":false,"enable_thinking":false})");
  EXPECT_EQ(ChatWithMembers(R"(,"think":"high")").chat().template_arguments,
            R"({"thinking":true,"enable_thinking":true,"reasoning_effort":"high"})");
  for (const char* bad : {"\"much\"", "1", "{}"}) {
    EXPECT_EQ(ChatWithMembers(std::string(",\"think\":") + bad).status.field(), "think") << bad;
  }
}

TEST(OllamaRequest, Logprobs) {
  EXPECT_EQ(ChatWithMembers("").request().logprobs, std::nullopt);
  EXPECT_EQ(ChatWithMembers(R"(,"logprobs":true)").request().logprobs, 0);
  EXPECT_EQ(ChatWithMembers(R"(,"logprobs":true,"top_logprobs":3)").request().logprobs, 3);
  EXPECT_EQ(ChatWithMembers(R"(,"top_logprobs":3)").request().logprobs, std::nullopt)
      << "as Ollama";
  EXPECT_EQ(ChatWithMembers(R"(,"top_logprobs":21)").status.field(), "top_logprobs");
  EXPECT_EQ(ChatWithMembers(R"(,"logprobs":1)").status.field(), "logprobs");
}

TEST(OllamaRequest, ToolsAndWhatTheyGave) {
  const OllamaRead read = ReadChat(R"({"messages":[
    {"role":"System","content":"Be brief."},
    {"role":"user","content":"Weather?"},
    {"role":"assistant","thinking":"Hm.","tool_calls":[
      {"function":{"name":"weather","arguments":{"z":1,"city":"Bern"}}},
      {"function":{"index":1,"name":"time","arguments":{}}},
      {"id":"x7","function":{"name":"weather","arguments":{"city":"Rome"}}}]},
    {"role":"tool","tool_name":"time","content":"noon"},
    {"role":"tool","tool_call_id":"x7","content":"hot"},
    {"role":"tool","content":"cold"},
    {"role":"tool","tool_name":"weather","content":"more"}],
   "tools":[{"type":"function","function":{"name":"weather","description":"It tells.",
     "parameters":{"type":"object","properties":{"z":{"type":"integer"},"city":{"type":"string"}}}}},
     {"type":"function","items":{},"function":{"name":"time"}}]})");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_EQ(ShownMessages(read.chat()),
            (OllamaList{"system:Be brief.", "user:Weather?",
                        R"(assistant: thought:Hm. call_0=weather({"z":1,"city":"Bern"}))"
                        R"( call_1=time({}) x7=weather({"city":"Rome"}))",
                        "tool:noon to:call_1 of:time", "tool:hot to:x7", "tool:cold to:call_0",
                        "tool:more of:weather"}));
  ASSERT_EQ(read.chat().tools.size(), 2U);
  EXPECT_EQ(read.chat().tools[0].description, "It tells.");
  EXPECT_THAT(read.chat().tools[0].parameters, HasSubstr(R"({"z":{"type":"integer"},"city")"));
}

TEST(OllamaRequest, MadeIdsMeetNoOthers) {
  const OllamaRead read = WithMessages(R"([
    {"role":"assistant","tool_calls":[{"id":"call_0","function":{"name":"a"}}]},
    {"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":"{\"b\":1}"}}]},
    {"role":"tool","content":"1"},{"role":"tool","content":"2"}])");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_EQ(ShownMessages(read.chat()),
            (OllamaList{"assistant: call_0=a({})", R"(assistant: call_1=a({"b":1}))",
                        "tool:1 to:call_0", "tool:2 to:call_1"}));
}

TEST(OllamaRequest, WhatIsWrongInAMessageNamesIt) {
  for (const auto& [messages, field] : std::vector<std::pair<std::string, std::string>>{
           {R"({})", "messages"},
           {R"("Hi")", "messages"},
           {R"([1])", "messages[0]"},
           {R"([{"content":"a"}])", "messages[0].role"},
           {R"([{"role":"robot"}])", "messages[0].role"},
           {R"([{"role":"user","content":["a"]}])", "messages[0].content"},
           {R"([{"role":"user","content":"a","images":["aGk="]}])", "messages[0].images"},
           {R"([{"role":"user","tool_calls":[{"function":{"name":"a"}}]}])",
            "messages[0].tool_calls"},
           {R"([{"role":"user","tool_name":"a"}])", "messages[0].tool_name"},
           {R"([{"role":"user","tool_call_id":"a"}])", "messages[0].tool_call_id"},
           {R"([{"role":"tool","tool_call_id":"a"}])", "messages[0].tool_call_id"},
           {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls"},
           {R"([{"role":"assistant","tool_calls":[1]}])", "messages[0].tool_calls[0]"},
           {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0].function"},
           {R"([{"role":"assistant","tool_calls":[{"function":{"name":""}}]}])",
            "messages[0].tool_calls[0].function.name"},
           {R"([{"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":[]}}]}])",
            "messages[0].tool_calls[0].function.arguments"}}) {
    const OllamaRead read = WithMessages(messages);
    EXPECT_FALSE(read.status.ok()) << messages;
    EXPECT_EQ(read.status.field(), field) << read.status.message();
    EXPECT_THAT(read.status.message(), HasSubstr("'" + field)) << messages;
  }
  EXPECT_TRUE(WithMessages(R"([{"role":"user","content":"a","images":[]}])").status.ok());
}

TEST(OllamaRequest, ATextIsAUsersMessageUnlessItIsRaw) {
  const OllamaRead read = Generated(R"(,"system":"Be brief.","options":{"num_predict":3})");
  ASSERT_TRUE(read.status.ok()) << read.status.message();
  EXPECT_EQ(ShownMessages(read.chat()), (OllamaList{"system:Be brief.", "user:Hi"}));
  EXPECT_EQ(read.request().max_tokens, 3);
  const OllamaRead raw =
      Generated(R"(,"raw":true,"suffix":"","images":[],"context":[],"template":"")");
  ASSERT_TRUE(raw.status.ok()) << raw.status.message();
  EXPECT_EQ(std::get<std::string>(raw.body().prompts.at(0)), "Hi");
  for (const auto& [members, field] :
       std::vector<std::pair<std::string, std::string>>{{R"("raw":true,"system":"a")", "system"},
                                                        {R"("raw":1)", "raw"},
                                                        {R"("suffix":"a")", "suffix"},
                                                        {R"("template":"a")", "template"},
                                                        {R"("context":[1])", "context"},
                                                        {R"("images":["aGk="])", "images"},
                                                        {R"("width":5)", "width"},
                                                        {R"("system":1)", "system"}}) {
    const OllamaRead bad = Generated("," + members);
    EXPECT_FALSE(bad.status.ok()) << members;
    EXPECT_EQ(bad.status.field(), field) << bad.status.message();
  }
}

TEST(OllamaRequest, WithoutMessagesOrAPromptNothingIsComputed) {
  for (const char* body : {R"({"model":"m"})", R"({"model":"m","messages":[]})",
                           R"({"model":"m","messages":null,"keep_alive":0})"}) {
    const OllamaRead read = ReadChat(body);
    EXPECT_TRUE(read.status.ok()) << read.status.message();
    EXPECT_TRUE(read.body().prompts.empty()) << body;
  }
  for (const char* body : {R"({"model":"m"})", R"({"model":"m","prompt":"","system":"a"})",
                           R"({"model":"m","prompt":"","raw":true})"}) {
    const OllamaRead read = ReadAs(MakeOllamaGenerate, body);
    EXPECT_TRUE(read.status.ok()) << read.status.message();
    EXPECT_TRUE(read.body().prompts.empty()) << body;
  }
}

TEST(OllamaRequest, ANameWithoutATagIsTheLatest) {
  EXPECT_EQ(OtherOllamaName("m"), "m:latest");
  EXPECT_EQ(OtherOllamaName("m:latest"), "m");
  EXPECT_EQ(OtherOllamaName("m:8b"), "");
  EXPECT_EQ(OtherOllamaName("host:80/m"), "host:80/m:latest");
  EXPECT_EQ(OtherOllamaName(""), "");
  EXPECT_EQ(ChatWithMembers("").body().other_model, "m:latest");
}

std::string OllamaPage() {
  const std::filesystem::path room = std::filesystem::path(__FILE__).parent_path();
  std::ifstream file(room.parent_path().parent_path() / "docs" / "clients" / "ollama.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(OllamaRequest, TheDocumentHasAllFields) {
  std::vector<std::pair<std::string, std::map<uint32_t, OllamaList>>> lines;
  constexpr uint32_t kBoth = kOllamaChat | kOllamaGenerate;
  for (const FieldRow& row : FieldRows()) {
    if ((row.dialects & kBoth) == 0) continue;
    std::string values = *row.values == 0 ? "any" : fmt::format("any: {}", row.values);
    if (row.kind == FieldKind::kNoEffectWith) values = fmt::format("`{}`", row.values);
    if (row.kind == FieldKind::kUnsupported) values = "none: it is not supported";
    auto line = std::ranges::find(lines, values, [](const auto& known) { return known.first; });
    if (line == lines.end()) line = lines.insert(line, {values, {}});
    line->second[row.dialects & kBoth].push_back(fmt::format("`{}`", row.name));
  }
  std::string table =
      "| accepted | of both | of /api/chat | of /api/generate |\n| --- | --- | --- | --- |";
  for (auto& [values, fields] : lines) {
    table += fmt::format("\n| {} |", values);
    for (const uint32_t of : {kBoth, uint32_t{kOllamaChat}, uint32_t{kOllamaGenerate}}) {
      table += fmt::format(" {}{}|", fmt::join(fields[of], ", "), fields[of].empty() ? "" : " ");
    }
  }
  EXPECT_THAT(OllamaPage(), HasSubstr("\n" + table + "\n\n"));
  for (const auto* used : {&OllamaChatFields(), &OllamaGenerateFields()}) {
    for (const std::string& name : NamesOf(*used)) {
      EXPECT_THAT(OllamaPage(), HasSubstr("`" + name + "`"));
      EXPECT_EQ(FindField(used->dialect, name), nullptr) << name;
    }
  }
}

TEST(OllamaRequest, AnythingAnywhereIsReadOrRejectedByName) {
  const json chat = json::parse(R"({"model":"m","stream":false,"format":"json","think":true,
    "keep_alive":5,"logprobs":true,"top_logprobs":1,"options":{"temperature":1,"stop":["a"],"seed":1,
    "num_predict":3},"messages":[{"role":"user","content":"a"},{"role":"assistant","thinking":"b",
    "tool_calls":[{"id":"1","function":{"index":0,"name":"f","arguments":{"a":1}}}]},
    {"role":"tool","tool_name":"f","tool_call_id":"1","content":"c"}],
    "tools":[{"type":"function","function":{"name":"f","parameters":{}}}]})");
  EXPECT_GT(RejectedWithAnythingAnywhere(chat, MakeOllamaChat), 50);
  const json text = json::parse(R"({"model":"m","prompt":"a","system":"b","raw":false,"stream":true,
    "options":{"top_k":3},"format":{"type":"object"},"think":"low"})");
  EXPECT_GT(RejectedWithAnythingAnywhere(text, MakeOllamaGenerate), 20);
}

}  // namespace
}  // namespace ropeway::api
