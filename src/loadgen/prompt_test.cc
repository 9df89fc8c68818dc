#include "loadgen/prompt.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ropeway::loadgen {
namespace {

using Json = nlohmann::json;

TEST(RequestBody, OfACompletionOfIds) {
  RequestShape shape;
  shape.model = "a \"model\"";
  shape.ignore_eos = true;
  Prompt prompt;
  prompt.ids = {5, 6};
  prompt.max_tokens = 3;
  EXPECT_EQ(Json::parse(RequestBody(shape, prompt, 9)),
            Json::parse(R"({"model":"a \"model\"","prompt":[5,6],"temperature":0.0,"max_tokens":3,
                "ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}})"));
  EXPECT_EQ(prompt.Shown(), "[5,6]");
}

TEST(RequestBody, NamesItsClassAsANumber) {
  RequestShape shape;
  EXPECT_FALSE(Json::parse(RequestBody(shape, {}, 9)).contains("priority"));
  shape.priority = Priority::kHigh;
  EXPECT_EQ(Json::parse(RequestBody(shape, {}, 9))["priority"], 0);
  shape.priority = Priority::kLow;
  EXPECT_EQ(Json::parse(RequestBody(shape, {}, 9))["priority"], 2);
}

TEST(RequestBody, OfAChatOfText) {
  RequestShape shape;
  shape.chat = true;
  shape.stream = false;
  shape.temperature = 0.5;
  Prompt prompt;
  prompt.text = "Say \"hi\"\n";
  EXPECT_EQ(Json::parse(RequestBody(shape, prompt, 9)),
            Json::parse(R"({"model":"","messages":[{"role":"user","content":"Say \"hi\"\n"}],
                "temperature":0.5,"seed":9})"));
  EXPECT_EQ(prompt.Shown(), prompt.text);
  prompt.messages = R"([{"role":"system","content":"x"}])";
  EXPECT_EQ(Json::parse(RequestBody(shape, prompt, 9))["messages"][0]["role"], "system");
  EXPECT_EQ(prompt.Shown(), prompt.messages);
}

TEST(MessagesOf, TakesTheServersAnswersUnlessTheTurnNamesOne) {
  const Conversation chat = {{{"one", "", 5}, {"two", "forced", 5}, {"three", "", 5}}, 0};
  EXPECT_EQ(nlohmann::json::parse(MessagesOf(chat, 0, {})),
            nlohmann::json::parse(R"([{"role":"user","content":"one"}])"));
  EXPECT_EQ(nlohmann::json::parse(MessagesOf(chat, 2, {"said", "unused"})),
            nlohmann::json::parse(R"([
    {"role":"user","content":"one"}, {"role":"assistant","content":"said"},
    {"role":"user","content":"two"}, {"role":"assistant","content":"forced"},
    {"role":"user","content":"three"}])"));
}

TEST(RequestBody, APromptsOwnClassComesFirst) {
  RequestShape shape;
  shape.priority = Priority::kHigh;
  Prompt prompt;
  prompt.text = "a";
  EXPECT_EQ(nlohmann::json::parse(RequestBody(shape, prompt, 1))["priority"], 0);
  prompt.priority = Priority::kLow;
  EXPECT_EQ(nlohmann::json::parse(RequestBody(shape, prompt, 1))["priority"], 2);
}

}  // namespace
}  // namespace ropeway::loadgen
