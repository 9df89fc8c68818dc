#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/hf_tokenizer_json.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::vector<std::string> kTokens = {"a", "<s>", "</s>"};

const json kText = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};

json Special(const char* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }

json Template(const json& single) {
  json processor = {{"type", "TemplateProcessing"}, {"single", single}};
  for (int id = 1; id < 3; ++id) {
    const std::string& name = kTokens[static_cast<size_t>(id)];
    processor["special_tokens"][name] = {{"id", name}, {"ids", json::array({id})}};
  }
  return processor;
}

json Sequence(const json& processors) { return {{"type", "Sequence"}, {"processors", processors}}; }

TextEnds MustRead(const json& processor) {
  const StatusOr<TextEnds> ends = ReadPostProcessor(processor, kTokens);
  EXPECT_TRUE(ends.ok()) << ends.status().message();
  return ends.ok() ? *ends : TextEnds();
}

Status Error(const json& processor) { return ReadPostProcessor(processor, kTokens).status(); }

TEST(HfPostProcessorTest, NoneSaysNothing) {
  const TextEnds none = MustRead(nullptr);
  EXPECT_EQ(none.adds_first, std::nullopt);
  EXPECT_EQ(none.adds_last, std::nullopt);
}

TEST(HfPostProcessorTest, ByteLevelAddsNothing) {
  EXPECT_EQ(MustRead({{"type", "ByteLevel"}, {"trim_offsets", false}}).adds_first, false);
}

TEST(HfPostProcessorTest, ATemplateAddsATokenOnEachSide) {
  const TextEnds first = MustRead(Template({Special("<s>"), kText}));
  EXPECT_EQ(first.adds_first, true);
  EXPECT_EQ(first.first, 1);
  EXPECT_EQ(first.adds_last, false);
  const TextEnds both = MustRead(Template({Special("<s>"), kText, Special("</s>")}));
  EXPECT_EQ(both.first, 1);
  EXPECT_EQ(both.last, 2);
  EXPECT_EQ(MustRead(Template(json::array({kText}))).adds_first, false);
}

// As in Llama 3's file.
TEST(HfPostProcessorTest, StepsFollowEachOther) {
  const json bytes = {{"type", "ByteLevel"}};
  EXPECT_EQ(MustRead(Sequence({bytes, Template({Special("<s>"), kText})})).first, 1);
  EXPECT_EQ(MustRead(Sequence({Template({Special("<s>"), kText}), bytes})).adds_first, true);
}

TEST(HfPostProcessorTest, TheIdIsWhatTheFileSays) {
  json processor = Template({Special("<s>"), kText});
  processor["special_tokens"]["<s>"]["ids"] = json::array({0});
  EXPECT_EQ(MustRead(processor).first, 0);
}

TEST(HfPostProcessorTest, NamesWhatItLacks) {
  const auto lacks = [](const json& processor) {
    const Status status = Error(processor);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << processor;
    EXPECT_THAT(status.message(), HasSubstr("tokenizer.json \"post_processor\": "));
    EXPECT_THAT(status.message(), HasSubstr("is not supported"));
    return status.message();
  };
  EXPECT_THAT(lacks({{"type", "RobertaProcessing"}}), HasSubstr("type \"RobertaProcessing\""));
  lacks({{"type", "BertProcessing"}});
  lacks({{"type", "Evil"}});
  lacks("text");
  EXPECT_THAT(lacks(Template({Special("<s>"), Special("</s>"), kText})),
              HasSubstr("two tokens on one side"));
  lacks(Template({kText, Special("<s>"), Special("</s>")}));
  lacks(Template(json::array({Special("<s>")})));
  lacks(Template(json::array()));
  lacks(Template({kText, kText}));
  const json other = {{"Sequence", {{"id", "B"}}}};
  lacks(Template(json::array({other})));
  lacks(Sequence({Template(json::array({kText})), Template({Special("<s>"), kText})}));
  json several = Template({Special("<s>"), kText});
  several["special_tokens"]["<s>"]["ids"] = json::array({1, 2});
  lacks(several);
}

TEST(HfPostProcessorTest, NamesWhatIsBroken) {
  const auto broken = [](const json& processor) {
    const Status status = Error(processor);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << processor;
    return status.message();
  };
  EXPECT_THAT(broken(Template({Special("nope"), kText})), HasSubstr("there is no token \"nope\""));
  for (const json& ids :
       {json(1), json::array(), json::array({-1}), json::array({"1"}), json::array({3})}) {
    json processor = Template({Special("<s>"), kText});
    processor["special_tokens"]["<s>"]["ids"] = ids;
    EXPECT_THAT(broken(processor), HasSubstr("the special token \"<s>\" must have an id below"));
  }
  broken(Template(7));
  broken(Template({1, kText}));
  broken(Sequence(7));
}

}  // namespace
}  // namespace ropeway::tokenizer
