#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace ropeway::base {
namespace {

using ::testing::HasSubstr;

// What JSON is and is not: src/server/json_test.cc.
TEST(JsonTest, MessagesNameTheDocument) {
  const auto error = [](const std::string& text, const JsonBounds& bounds) {
    return ReadJson(text, bounds, "config.json").status().message();
  };
  EXPECT_EQ(error(R"({"a": [1, 2.5, "x"]})", {}), "");
  EXPECT_THAT(error("{", {}), HasSubstr("config.json is not valid JSON at byte 2: "));
  EXPECT_THAT(error(std::string("{\0}", 3), {}),
              HasSubstr("config.json is not valid JSON at byte"));
  EXPECT_EQ(error("[[[1]]]", {.max_depth = 2}), "config.json is nested deeper than 2 levels");
  EXPECT_EQ(error("[1, 2, 3]", {.max_values = 3}), "config.json holds more than 3 JSON values");
  EXPECT_EQ(error(R"({"a": 1, "a": 2})", {}), "The key 'a' is given twice in one object");
}

TEST(JsonTest, OfARepeatedKeyTheLastValueHoldsWhereThatIsAllowed) {
  const auto read = [](const std::string& text) {
    return ReadJson(text, {.max_values = 20, .repeated_keys = true}, "It");
  };
  EXPECT_EQ(*read(R"({"a": {"b": [1, 2]}, "c": 3, "a": 4})"), (nlohmann::json{{"a", 4}, {"c", 3}}));
  EXPECT_EQ(*read(R"({"a": 4, "a": {"b": 1, "b": []}})"),
            (nlohmann::json{{"a", {{"b", nlohmann::json::array()}}}}));
  std::string many = "{\"a\": 0";
  for (int i = 0; i < 20; ++i) many += ", \"a\": 0";
  EXPECT_THAT(read(many + "}").status().message(), HasSubstr("more than 20 JSON values"));
}

TEST(JsonTest, WhatIsOfAnotherKindReadsAsAbsent) {
  const nlohmann::json json = nlohmann::json::parse(R"({"a": "x", "b": {"c": 1}, "d": ["a"]})");
  EXPECT_EQ(Text(Member(json, "a")), "x");
  EXPECT_EQ(Member(Member(json, "b"), "c"), 1);
  EXPECT_EQ(Text(Member(Member(json, "b"), "c")), "");
  for (const char* key : {"a", "d", "e"}) EXPECT_TRUE(Member(Member(json, key), "a").is_null());
}

TEST(JsonTest, DeepNestingCostsNoStack) {
  const std::string deep(1 << 20, '[');
  EXPECT_THAT(ReadJson(deep, {}, "It").status().message(), HasSubstr("nested deeper than 32"));
}

TEST(ReadOrderedMemberTest, ReadsOneMemberInTheOrderOfTheText) {
  const auto read = [](const char* text, const std::vector<std::string_view>& path) -> std::string {
    const auto member = ReadOrderedMember(text, path, {.max_depth = 8}, "the member");
    return member.ok() ? member->dump() : member.status().message();
  };
  EXPECT_EQ(read(R"({"a":{"z":1,"b":[2,{"y":3,"x":4}]}})", {"a"}),
            R"({"z":1,"b":[2,{"y":3,"x":4}]})");
  EXPECT_EQ(read(R"({"b":{"a":1},"a":{"b":{"z":1,"a":2}}})", {"a", "b"}), R"({"z":1,"a":2})");
  // Not what has the same name elsewhere.
  EXPECT_EQ(read(R"({"x":{"a":{"b":1}},"a":[{"b":2}],"c":[{"a":{"b":3}}]})", {"a", "b"}),
            "the member is missing");
  EXPECT_EQ(read(R"({"a":{"c":{"b":1}},"b":2})", {"a", "b"}), "the member is missing");
  EXPECT_EQ(read(R"({"a":{"c":{}},"d":{"b":2},"e":{"a":{"b":3}}})", {"a", "b"}),
            "the member is missing");
  EXPECT_EQ(read(R"({"a":{"c":[[]],"b":"text"}})", {"a", "b"}), R"("text")");
  EXPECT_EQ(read("[1]", {"a"}), "the member is missing");
  EXPECT_EQ(read(R"({"a":{"x":1,"x":2}})", {"a"}), "The key 'x' is given twice in one object");
  EXPECT_EQ(read(R"({"a":[[[[[[[[[1]]]]]]]]]})", {"a"}),
            "the member is nested deeper than 8 levels");
}

TEST(ReadOrderedJsonTest, KeepsTheOrderOfKeys) {
  EXPECT_EQ(ReadOrderedJson(R"({"z":1,"a":{"y":2,"b":3}})", {}, "it")->dump(),
            R"({"z":1,"a":{"y":2,"b":3}})");
}

}  // namespace
}  // namespace ropeway::base
