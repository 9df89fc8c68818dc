#include "answer/argument_types.h"

#include <gtest/gtest.h>

#include <string>

namespace ropeway::answer {
namespace {

int TypesOf(const std::string& property, const std::string& definitions = "{}") {
  const std::string schema =
      R"({"type":"object","$defs":)" + definitions + R"(,"properties":{"a":)" + property + "}}";
  return ReadArgumentTypes(schema).Of("a");
}

TEST(ArgumentTypesTest, TheySayWhatAValueMayBe) {
  EXPECT_EQ(TypesOf(R"({"type":"string","description":"A number."})"), kStringType);
  EXPECT_EQ(TypesOf(R"({"type":"integer"})"), kNumberType);
  EXPECT_EQ(TypesOf(R"({"type":["boolean","null"]})"), kBooleanType | kNullType);
  EXPECT_EQ(TypesOf(R"({"enum":["a","b"]})"), kStringType);
  EXPECT_EQ(TypesOf(R"({"enum":["a",1,{}]})"), kStringType | kNumberType | kObjectType);
  EXPECT_EQ(TypesOf(R"({"const":[1]})"), kArrayType);
  EXPECT_EQ(TypesOf(R"({"anyOf":[{"type":"string"},{"type":"null"}],"default":null})"),
            kStringType | kNullType);
  EXPECT_EQ(TypesOf(R"({"allOf":[{"type":["string","number"]},{"type":"string"}]})"), kStringType);
  EXPECT_EQ(TypesOf(R"({"description":"anything"})"), kAnyType);
  EXPECT_EQ(TypesOf("true"), kAnyType);
  EXPECT_EQ(TypesOf(R"({"type":7})"), kAnyType);
  EXPECT_EQ(TypesOf(R"({"type":"string","enum":[1]})"), kAnyType) << "no value is possible";
}

TEST(ArgumentTypesTest, ReferencesAreFollowed) {
  const std::string definitions =
      R"({"Unit":{"enum":["C","F"]},"Loop":{"$ref":"#/$defs/Loop"},"Deep":{"in":{"type":"null"}}})";
  EXPECT_EQ(TypesOf(R"({"$ref":"#/$defs/Unit"})", definitions), kStringType);
  EXPECT_EQ(TypesOf(R"({"anyOf":[{"$ref":"#/$defs/Unit"},{"type":"null"}]})", definitions),
            kStringType | kNullType);
  EXPECT_EQ(TypesOf(R"({"$ref":"#/$defs/Deep/in"})", definitions), kNullType);
  EXPECT_EQ(TypesOf(R"({"$ref":"#/$defs/Loop"})", definitions), kAnyType);
  EXPECT_EQ(TypesOf(R"({"$ref":"#/$defs/None"})", definitions), kAnyType);
  EXPECT_EQ(TypesOf(R"({"$ref":"#/$defs/Unit/enum/0"})", definitions), kAnyType);
  EXPECT_EQ(TypesOf(R"({"$ref":"https://example.com/a"})"), kAnyType);
  // A schema that leads to itself many times ends all the same.
  EXPECT_EQ(TypesOf(R"({"$ref":"#/$defs/A"})",
                    R"({"A":{"anyOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/A"},
                        {"$ref":"#/$defs/A"},{"$ref":"#/$defs/A"}]}})"),
            kAnyType);
}

TEST(ArgumentTypesTest, OtherMembersMayHaveASchemaToo) {
  const ArgumentTypes types =
      ReadArgumentTypes(R"({"additionalProperties":{"type":"string"},"properties":{"a":{}}})");
  EXPECT_EQ(types.Of("a"), kAnyType);
  EXPECT_EQ(types.Of("b"), kStringType);
  EXPECT_EQ(ReadArgumentTypes(R"({"additionalProperties":false})").Of("b"), kAnyType);
  EXPECT_EQ(ReadArgumentTypes(R"({"$ref":"#/$defs/A",
      "$defs":{"A":{"properties":{"a":{"type":"null"}}}}})")
                .Of("a"),
            kNullType);
}

TEST(ArgumentTypesTest, WhatIsNoSchemaSaysNothing) {
  for (const char* schema : {"", "{", "[]", "true", R"({"properties":[]})"}) {
    EXPECT_EQ(ReadArgumentTypes(schema).Of("a"), kAnyType) << schema;
  }
}

}  // namespace
}  // namespace ropeway::answer
