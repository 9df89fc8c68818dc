// Whether a text of a grammar may begin with another text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/ebnf.h"
#include "grammar/json_rules.h"
#include "grammar/pattern_ebnf.h"
#include "grammar/schema_ebnf.h"

namespace ropeway::grammar {
namespace {

bool PatternMayBegin(const char* regex, const char* text) {
  Ebnf ebnf;
  const StatusOr<Ebnf::Node> node = PatternText(regex, &ebnf);
  EXPECT_TRUE(node.ok()) << regex;
  return node.ok() && ebnf.MayBegin(*node, text);
}

bool SchemaMayBegin(const std::string& schema, const char* text) {
  Ebnf ebnf;
  JsonRules json(&ebnf);
  const StatusOr<Ebnf::Node> node = ValueEbnf(nlohmann::ordered_json::parse(schema), &ebnf, &json);
  EXPECT_TRUE(node.ok()) << schema;
  return node.ok() && ebnf.MayBegin(*node, text);
}

TEST(EbnfBeginningTest, OfPatterns) {
  for (const char* regex : {"abc", "abcd+", "(x|ab?)(b|c)*", "a.*", ".{3}", "[a-c]{2,}d?", "a?b?c?",
                            "(a|b|c){3,90}", "a*b*c*d*"}) {
    EXPECT_TRUE(PatternMayBegin(regex, "abc")) << regex;
  }
  for (const char* regex :
       {"ab", "abd", "xabc", "(a|b){3,90}", ".{2}", "[b-z].*", "ab?[^bc].*", "a?b?", "a{2,}b*c"}) {
    EXPECT_FALSE(PatternMayBegin(regex, "abc")) << regex;
  }
  EXPECT_TRUE(PatternMayBegin("<.tool.>é+", "<｜tool｜>éé"));
  EXPECT_FALSE(PatternMayBegin("<.tool.>é+", "<｜tool｜>è"));
}

TEST(EbnfBeginningTest, OfSchemas) {
  EXPECT_TRUE(SchemaMayBegin("{}", R"({"a": [1, )"));
  EXPECT_TRUE(SchemaMayBegin("{}", R"({"\u00e9\n": -0.5e1)"));
  EXPECT_FALSE(SchemaMayBegin("{}", R"({"a": 01)"));
  EXPECT_FALSE(SchemaMayBegin("{}", "<"));
  const char* const list =
      R"({"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer","maximum":9},
          "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v"]}},
          "$ref":"#/$defs/node"})";
  EXPECT_TRUE(SchemaMayBegin(list, R"({"v": 3, "next": {"v": 9, "next": null}})"));
  EXPECT_FALSE(SchemaMayBegin(list, R"({"v": 3, "next": {"v": 19)"));
  EXPECT_FALSE(SchemaMayBegin(list, R"({"next": )"));
  EXPECT_TRUE(SchemaMayBegin(R"({"type":"string","maxLength":3})", "\"abc"));
}

// It gives up rather than take long, or the stack.
TEST(EbnfBeginningTest, IsBounded) {
  Ebnf ebnf;
  Ebnf::Node deep = ebnf.Literal("x");
  for (int i = 0; i < 100'000; ++i) {
    const Ebnf::Rule rule = ebnf.Declare();
    ebnf.Define(rule, deep);
    deep = ebnf.Call(rule);
  }
  EXPECT_TRUE(ebnf.MayBegin(deep, "y"));
  std::vector<Ebnf::Node> wide;
  for (int i = 0; i < 120'000; i += 400) {
    std::vector<Ebnf::Node> ways;
    for (int j = i; j < i + 400; ++j) ways.push_back(ebnf.Literal(fmt::format("x{}", j)));
    wide.push_back(ebnf.Choice(ways));
  }
  EXPECT_TRUE(ebnf.MayBegin(ebnf.Choice(wide), "y"));
  wide.resize(40);
  EXPECT_FALSE(ebnf.MayBegin(ebnf.Choice(wide), "y"));
}

}  // namespace
}  // namespace ropeway::grammar
