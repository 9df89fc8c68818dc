#include "answer/answer_format.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace ropeway::answer {
namespace {

std::string NamesOf(std::string_view text, std::string_view parser = "auto",
                    std::string_view reasoning = "auto") {
  const bool reads_tools = text.find("tools") != std::string_view::npos;
  const StatusOr<AnswerFormat> format =
      DetectFormat(text, reads_tools, {.tool_parser = parser, .reasoning = reasoning});
  if (!format.ok()) return format.status().field() + ": " + format.status().message();
  return std::string(format->reasoning.name) + " " + format->calls.name;
}

TEST(AnswerFormatTest, NamesOverrideTheTemplate) {
  const char* const hermes = "</think> {{ tools }} <tool_call> arguments";
  EXPECT_EQ(NamesOf(hermes), "think hermes");
  EXPECT_EQ(NamesOf(hermes, "mistral"), "think mistral");
  EXPECT_EQ(NamesOf(hermes, "none"), "think none");
  EXPECT_EQ(NamesOf(hermes, "auto", "none"), "none hermes");
  EXPECT_EQ(NamesOf("tools <|channel|> <|message|>", "auto", "none"), "none none");
  EXPECT_EQ(NamesOf("tools <|channel|> <|message|>", "none"), "harmony none");
  EXPECT_EQ(NamesOf("{{ messages }}"), "none generic");
  EXPECT_EQ(NamesOf("{{ tools }}"), "none none");
  EXPECT_EQ(NamesOf(hermes, "gpt"),
            "tool_parser: tool_parser (--tool-parser) must be one of auto, none, generic, harmony, "
            "gemma, deepseek, mistral, lfm2, nemotron, phi4, granite, functools, hermes, "
            "llama3_json, pythonic, kimi_k2, qwen3_coder, seed_oss, minimax_m2, glm45, not 'gpt'");
  EXPECT_EQ(NamesOf(hermes, "auto", "deepseek"),
            "reasoning_format: reasoning_format (--reasoning-format) must be auto or none, not "
            "'deepseek'");
}

TEST(AnswerFormatTest, ControlTokensAreMarked) {
  StatusOr<AnswerFormat> format = DetectFormat("</think>", true, {.tool_parser = "hermes"});
  ASSERT_TRUE(format.ok());
  Resolve([](std::string_view token) { return token == "</think>" || token == "<tool_call>"; },
          &*format);
  EXPECT_EQ(format->reasoning.open, "<think>");
  EXPECT_EQ(format->reasoning.close, "\xFF</think>");
  EXPECT_EQ(format->calls.begin, "\xFF<tool_call>");
  EXPECT_EQ(format->calls.end, "</tool_call>");
  EXPECT_EQ(format->controls.size(), 2U);
}

// The templates of llama.cpp's source.
TEST(AnswerFormatTest, RealTemplatesAreDetected) {
  const char* const folder = std::getenv("ROPEWAY_VOCAB_DIR");
  if (folder == nullptr) GTEST_SKIP() << "ROPEWAY_VOCAB_DIR is not set";
  const std::map<std::string, std::string> expected = {
      {"Qwen-Qwen3-0.6B", "think hermes"},
      {"Qwen-Qwen2.5-7B-Instruct", "none hermes"},
      {"Qwen-QwQ-32B", "think hermes"},
      {"Qwen3-Coder", "none qwen3_coder"},
      {"Qwen3.5-4B", "think qwen3_coder"},
      {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "think qwen3_coder"},
      {"StepFun3.5-Flash", "think qwen3_coder"},
      {"ByteDance-Seed-OSS", "seed seed_oss"},
      {"MiniMax-M2", "think minimax_m2"},
      {"MiniMax-M3", "none none"},
      {"Kimi-K2-Instruct", "none kimi_k2"},
      {"Kimi-K2-Thinking", "think kimi_k2"},
      {"moonshotai-Kimi-K2", "none kimi_k2"},
      {"meetkai-functionary-medium-v3.1", "none none"},
      {"tencent-Hy3", "none none"},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "none hermes"},
      {"meta-llama-Llama-3.1-8B-Instruct", "none llama3_json"},
      {"meta-llama-Llama-3.2-3B-Instruct", "none llama3_json"},
      {"meta-llama-Llama-3.3-70B-Instruct", "none llama3_json"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "none mistral"},
      {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral mistral"},
      {"unsloth-mistral-Devstral-Small-2507", "none mistral"},
      {"google-gemma-4-31B-it", "gemma gemma"},
      {"google-gemma-2-2b-it", "none generic"},
      {"microsoft-Phi-3.5-mini-instruct", "none generic"},
      {"openai-gpt-oss-120b", "harmony harmony"},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "think generic"},
      {"llama-cpp-deepseek-r1", "think deepseek"},
      {"deepseek-ai-DeepSeek-V3.1", "think generic"},
      {"ibm-granite-granite-3.3-2B-Instruct", "think granite"},
      {"NVIDIA-Nemotron-Nano-v2", "think nemotron"},
      {"fireworks-ai-llama-3-firefunction-v2", "none functools"},
      {"LFM2.5-8B-A1B", "think lfm2"},
      {"GLM-4.6", "think glm45"},
      {"GLM-4.7-Flash", "think glm45"},
      {"poolside-Laguna-S-2.1", "think glm45"},
      {"inclusionai-ling-3.0-flash", "think glm45"},
  };
  for (const auto& [name, forms] : expected) {
    std::ifstream file(std::string(folder) + "/templates/" + name + ".jinja");
    if (!file) GTEST_SKIP() << name << " is not there";
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(NamesOf(text.str()), forms) << name;
  }
}

}  // namespace
}  // namespace ropeway::answer
