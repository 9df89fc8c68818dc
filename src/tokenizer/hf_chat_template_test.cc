#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/hf_config_files.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string TemplateOf(const json& of_config, const json& of_processor,
                       std::vector<std::string>* warnings) {
  warnings->clear();
  return ReadHfChatTemplate({{"chat_template", of_config}}, {{"chat_template", of_processor}},
                            warnings);
}

TEST(HfChatTemplateTest, AFieldWithoutOneIsNamed) {
  std::vector<std::string> warnings;
  for (const json& wrong : {json{{"default", "{{ a }}"}}, json(1), json(true), json::array(),
                            json::array({"{{ a }}"}), json::array({json{{"name", "default"}}}),
                            json::array({json{{"name", "default"}, {"template", 1}}})}) {
    EXPECT_EQ(TemplateOf(wrong, "{{ b }}", &warnings), "") << wrong;
    EXPECT_THAT(warnings,
                ElementsAre(HasSubstr("has a chat_template in its tokenizer_config.json ")));
    EXPECT_EQ(TemplateOf(nullptr, wrong, &warnings), "") << wrong;
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("has a chat_template in its chat_template.json ")));
    // What does not count is not named.
    EXPECT_EQ(TemplateOf("{{ a }}", wrong, &warnings), "{{ a }}");
    EXPECT_THAT(warnings, IsEmpty());
  }
  EXPECT_EQ(TemplateOf(nullptr, nullptr, &warnings), "");
  EXPECT_EQ(TemplateOf("", nullptr, &warnings), "");
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(HfChatTemplateTest, OfAListTheDefaultOneCountsOrElseTheFirst) {
  std::vector<std::string> warnings;
  const auto named = [](const char* name, const json& text) {
    return json{{"name", name}, {"template", text}};
  };
  const json first = named("tool_use", "t");
  EXPECT_EQ(TemplateOf(json::array({first, named("default", "d")}), "b", &warnings), "d");
  EXPECT_EQ(TemplateOf(json::array({1, first, named("rag", "r")}), "b", &warnings), "t");
  EXPECT_EQ(TemplateOf(json::array({named("default", 1), first}), "b", &warnings), "t");
  EXPECT_EQ(TemplateOf(nullptr, "b", &warnings), "b");
  EXPECT_THAT(warnings, IsEmpty());
}

}  // namespace
}  // namespace ropeway::tokenizer
