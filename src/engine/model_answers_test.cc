#include "engine/model_answers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "engine/test_fakes.h"
#include "tokenizer/chat_template.h"

namespace ropeway::engine {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = R"({"type": "object", "properties": {
    "path": {"type": "string"}, "text": {"type": "string"}, "lines": {"type": "integer"},
    "force": {"type": "boolean"}, "tags": {"type": "array"}, "meta": {"type": "object"}}})";

// A chat in which the model has made calls.
Chat WithCalls(const Json& arguments) {
  Chat chat{.messages = {{"user", "Now write."}, {"assistant", ""}},
            .tools = {{.name = "write", .description = "Writes.", .parameters = kSchema},
                      {.name = "now", .description = "The time.", .parameters = kSchema}}};
  chat.messages[1].tool_calls = {{"functions.write:0", "write", arguments.dump()},
                                 {"functions.now:1", "now", R"({"lines": 1})"}};
  chat.add_generation_prompt = false;
  return chat;
}

// What a template shows the model of its calls is how the model writes them: read again, they are
// the same. The templates are those of llama.cpp's source.
TEST(ModelAnswersTest, CallsAreReadAsTemplatesWriteThem) {
  const char* const folder = std::getenv("ROPEWAY_VOCAB_DIR");
  if (folder == nullptr) GTEST_SKIP() << "ROPEWAY_VOCAB_DIR is not set";
  const Json arguments = {{"path", "a b"},
                          {"text", "42"},
                          {"lines", 42},
                          {"force", true},
                          {"tags", {"x", "it's\n\"y\"", 1.5, false}},
                          {"meta", {{"k", {{"<b>", "\\"}}}}}};
  const Json code = {{"text", "if a < b && c:\n    print(\"</p>\\n\")\n\n\t'東京'"}};
  for (const char* name :
       {"Qwen3-Coder", "Qwen3.5-4B", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "StepFun3.5-Flash",
        "ByteDance-Seed-OSS", "MiniMax-M2", "GLM-4.6", "GLM-4.7-Flash", "poolside-Laguna-S-2.1",
        "inclusionai-ling-3.0-flash", "moonshotai-Kimi-K2", "Qwen-Qwen3-0.6B"}) {
    SCOPED_TRACE(name);
    std::ifstream file(std::string(folder) + "/templates/" + name + ".jinja");
    if (!file) GTEST_SKIP() << name << " is not there";
    std::stringstream source;
    source << file.rdbuf();
    const auto parsed = tokenizer::ChatTemplate::Parse(source.str());
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    const ModelAnswers answers(*answer::DetectFormat(source.str(), parsed->traits().reads_tools),
                               ByteTokenizer());
    for (const Json& given : {arguments, code}) {
      const Chat chat = WithCalls(given);
      const auto rendered = parsed->Render(chat, "", "", {});
      ASSERT_TRUE(rendered.ok()) << rendered.status().message();
      answer::AnswerOptions options;
      for (const Tool& tool : chat.tools) {
        options.tools.push_back(tool.name);
        options.types.push_back(answer::ReadArgumentTypes(tool.parameters));
      }
      const auto parser = answers.Begin(options);
      Delta delta;
      parser->Add(rendered->text.substr(rendered->text.rfind(chat.messages[0].content)), &delta);
      parser->Finish(&delta);
      ASSERT_EQ(parser->calls(), 2) << rendered->text;
      std::string read[2];
      for (const ToolCallDelta& each : delta.tool_calls) read[each.index] += each.arguments;
      EXPECT_EQ(Json::parse(read[0], nullptr, false), given) << read[0] << "\n" << rendered->text;
      EXPECT_EQ(Json::parse(read[1], nullptr, false), Json({{"lines", 1}})) << read[1];
    }
  }
}

}  // namespace
}  // namespace ropeway::engine
