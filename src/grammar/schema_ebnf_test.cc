#include "grammar/schema_ebnf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/utf8.h"
#include "grammar/output_ebnf.h"
#include "grammar/test_vocabularies.h"

namespace ropeway::grammar {

namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;

StatusOr<std::string> Convert(const std::string& schema) {
  return SchemaToEbnf(Json::parse(schema));
}

// Why the schema is rejected; "": it is not.
std::string RejectionOf(const std::string& schema) {
  const StatusOr<std::string> ebnf = Convert(schema);
  if (ebnf.ok()) return "";
  EXPECT_EQ(ebnf.status().code(), StatusCode::kInvalidArgument);
  return ebnf.status().message();
}

class SchemaEbnfTest : public testing::Test {
 protected:
  void SetUp() override {
    vocabulary_ = SmallVocabulary();
    if (vocabulary_ == nullptr) GTEST_SKIP() << "no vocabulary: ROPEWAY_TEST_MODEL is not set";
  }

  // "accepted", "prefix" or "rejected"; "no schema": it is not supported.
  std::string Judge(const std::string& schema, const std::string& text) {
    auto& grammar = grammars_[schema];
    if (grammar == nullptr) {
      const StatusOr<std::string> ebnf = Convert(schema);
      if (!ebnf.ok()) return "no schema";
      grammar = MustCompile(*vocabulary_, *ebnf);
      if (grammar == nullptr) return "no grammar";
    }
    return grammar::Judge(*vocabulary_, grammar, text);
  }

  // Each text on its own.
  void ExpectAll(const std::string& verdict, const std::string& schema,
                 const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      EXPECT_EQ(Judge(schema, text), verdict) << schema << " " << text;
  }

  const TestVocabulary* vocabulary_ = nullptr;
  std::map<std::string, std::shared_ptr<const Grammar>> grammars_;
};

// The verdicts of Python's jsonschema on 282 schemas (tests/make_keyword_cases.py).
TEST_F(SchemaEbnfTest, WhateverIsAcceptedIsValid) {
  std::ifstream file(ROPEWAY_TEST_DATA "/schemas/keywords.jsonl");
  ASSERT_TRUE(file.is_open());
  int schemas = 0;
  int supported = 0;
  int accepted = 0;
  std::string unsupported;
  for (std::string line; std::getline(file, line);) {
    const Json entry = Json::parse(line);
    ++schemas;
    const std::string schema = entry["schema"].dump();
    if (!Convert(schema).ok()) {
      EXPECT_THAT(RejectionOf(schema), testing::MatchesRegex("at '#.*': .+")) << schema;
      unsupported += entry["name"].get<std::string>() + "\n";
      continue;
    }
    ++supported;
    for (const Json& each : entry["texts"]) {
      const std::string text = each[0].get<std::string>();
      if (Judge(schema, text) != "accepted") continue;
      ++accepted;
      // A repeated key is valid where each of its values is.
      EXPECT_TRUE(each[1] == true || each[1] == "dup")
          << schema << " " << text << " is " << each[1];
    }
  }
  EXPECT_EQ(schemas, 282);
  EXPECT_EQ(supported, 210) << unsupported;
  EXPECT_GE(accepted, 1600);
}

TEST_F(SchemaEbnfTest, Types) {
  ExpectAll("accepted", R"({"type": "string"})", {R"("")", R"("a\n\u00e9 é 😀\"")"});
  ExpectAll("rejected", R"({"type": "string"})", {"1", "\"a\nb\"", R"("\ud83d\ude00")", R"("\x")"});
  ExpectAll("accepted", R"({"type": "integer"})", {"0", "-12", "123456789012345678"});
  ExpectAll("rejected", R"({"type": "integer"})",
            {"01", "1.0", "\"1\"", "+1", "1234567890123456789"});
  ExpectAll("accepted", R"({"type": "number"})", {"0.5", "-1e-12", "7"});
  ExpectAll("rejected", R"({"type": "number"})", {".5", "1e999"});
  ExpectAll("prefix", R"({"type": "number"})", {"1.", "-", "1e"});
  ExpectAll("accepted", R"({"type": ["boolean", "null"]})", {"true", "false", "null"});
  ExpectAll("accepted", "{}", {"1", R"({"a": [1, "x", {}]})", "[]"});
  // OpenAPI's keyword says nothing in JSON Schema, so null would not be valid.
  ExpectAll("accepted", R"({"type": "integer", "nullable": true})", {"1"});
  ExpectAll("rejected", R"({"type": "integer", "nullable": true})", {"null"});
  ExpectAll("accepted", R"({"enum": [1, null], "nullable": false})", {"1", "null"});
  ExpectAll("accepted", "true", {"null"});
}

TEST_F(SchemaEbnfTest, Objects) {
  const char* const schema =
      R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"},
                                "c": {"type": "null"}}, "required": ["a"]})";
  ExpectAll("accepted", schema,
            {R"({"b":1,"a":"x","c":null})", R"({ "a" : "x" })", R"({"b": 1, "a": "x"})"});
  ExpectAll(
      "rejected", schema,
      {"{}", R"({"a":"x","b":1})", R"({"a":"x","d":1})", R"({"b":1,"c":null})", R"({"a":"x",})"});
  ExpectAll(
      "accepted",
      R"({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2})",
      {"{}", R"({"x": 1})", R"({"x":1,"y":2})"});
  ExpectAll(
      "rejected",
      R"({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2})",
      {R"({"x": "1"})", R"({"x":1,"y":2,"z":3})"});
  ExpectAll("rejected", R"({"type": "object", "minProperties": 1})", {"{}"});
  ExpectAll("rejected", R"({"type": "object", "additionalProperties": false})", {R"({"a": 1})"});
  // Keys are written as JSON has them.
  ExpectAll("accepted", R"({"properties": {"a\"\n": {"type": "null"}}, "required": ["a\"\n"]})",
            {R"({"a\"\n":null})"});
}

TEST_F(SchemaEbnfTest, Arrays) {
  ExpectAll("accepted",
            R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2})",
            {"[1]", "[ 1 , 2 ]"});
  ExpectAll("rejected",
            R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2})",
            {"[]", "[1,2,3]", "[\"a\"]"});
  const char* const pair =
      R"({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"},
                              "minItems": 1})";
  ExpectAll("accepted", pair, {"[1]", R"([1,"a"])", R"([1,"a",null,null])"});
  ExpectAll("rejected", pair, {"[]", "[1,null]", R"(["a"])", R"([1,"a",1])"});
  ExpectAll("accepted", R"({"prefixItems": [{"type": "integer"}], "minItems": 2})", {"[1, {}]"});
  ExpectAll("rejected", R"({"prefixItems": [{"type": "integer"}]})", {"[1, {}]"});
  ExpectAll("rejected", R"({"type": "array", "maxItems": 0})", {"[1]"});
  ExpectAll("accepted", R"({"type": "array", "maxItems": 100000})", {"[]", "[1,[2,[]]]"});
  ExpectAll("rejected", R"({"type": "array", "prefixItems": [{}, {}], "maxItems": 1})", {"[1,2]"});
}

TEST_F(SchemaEbnfTest, CountsOfKnownProperties) {
  const char* const two_of_three =
      R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "minProperties": 2,
          "maxProperties": 2})";
  ExpectAll("accepted", two_of_three, {R"({"a":1,"b":2})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"});
  ExpectAll("rejected", two_of_three,
            {"{}", R"({"a":1})", R"({"c":3})", R"({"a":1,"b":2,"c":3})", R"({"b":2,"b":2})"});
  const char* const required =
      R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "required": ["b"],
          "minProperties": 2})";
  ExpectAll("accepted", required,
            {R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"});
  ExpectAll("rejected", required, {R"({"b":2})", R"({"a":1,"c":3})"});
  ExpectAll("accepted", R"({"properties": {"a": {}}, "maxProperties": 0})", {"{}"});
  ExpectAll("rejected", R"({"properties": {"a": {}}, "maxProperties": 0})", {R"({"a":1})"});
}

TEST_F(SchemaEbnfTest, NamesOfProperties) {
  // Pydantic's dict[Literal["a", "b"], int].
  const char* const listed =
      R"({"$defs": {"Key": {"enum": ["a", 5, "b", "a"]}}, "type": "object",
          "propertyNames": {"$ref": "#/$defs/Key"}, "additionalProperties": {"type": "integer"}})";
  ExpectAll("accepted", listed, {"{}", R"({"a":1})", R"({"a":1,"b":2})", R"({ "b" : 2 })"});
  ExpectAll("rejected", listed, {R"({"c":1})", R"({"a":"x"})", R"({"a":1,"a":2})", R"({"5":1})"});
  const char* const required =
      R"({"propertyNames": {"enum": ["a", "b"]}, "required": ["b"], "maxProperties": 1})";
  ExpectAll("accepted", required, {R"({"b":[]})"});
  ExpectAll("rejected", required, {"{}", R"({"a":1})", R"({"a":1,"b":2})"});
  const char* const lengths =
      R"({"propertyNames": {"minLength": 1, "maxLength": 2}, "minProperties": 1})";
  ExpectAll("accepted", lengths, {R"({"a":1})", R"({"é😀":1,"b":{}})"});
  ExpectAll("rejected", lengths, {"{}", R"({"":1})", R"({"abc":1})"});
  ExpectAll("accepted", R"({"propertyNames": true})", {R"({"any":1})"});
  ExpectAll("accepted", R"({"propertyNames": {"maxLength": 1}, "additionalProperties": false})",
            {"{}"});
}

TEST_F(SchemaEbnfTest, SetsOfListedValues) {
  // Pydantic's set[Literal["a", "b", "c"]]: in the order of the list.
  const char* const set =
      R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "b", "c"]}})";
  ExpectAll("accepted", set, {"[]", R"(["b"])", R"(["a","c"])", R"([ "a" , "b" , "c" ])"});
  ExpectAll("rejected", set, {R"(["a","a"])", R"(["d"])", R"(["b","a"])", R"(["a",])"});
  const char* const some =
      R"({"uniqueItems": true, "items": {"enum": [1, 1.0, 2, true, null]}, "minItems": 2, "maxItems": 3})";
  ExpectAll("accepted", some, {"[1,2]", "[1,true]", "[2,true,null]"});
  ExpectAll("rejected", some, {"[]", "[1]", "[1,1.0]", "[1,2,true,null]"});
  ExpectAll("accepted", R"({"uniqueItems": true, "maxItems": 1, "items": {"type": "string"}})",
            {"[]", R"(["x"])"});
}

TEST_F(SchemaEbnfTest, TypesBesideReferencesAndAlternatives) {
  ExpectAll("accepted",
            R"({"type": ["string", "null"], "$ref": "#/$defs/a", "$defs": {"a": {"const": "x"}}})",
            {"\"x\""});
  ExpectAll("accepted", R"({"type": "number", "allOf": [{"type": "integer"}]})", {"1"});
  ExpectAll("rejected", R"({"type": "number", "allOf": [{"type": "integer"}]})", {"1.5", "null"});
  ExpectAll("accepted", R"({"type": "integer", "anyOf": [{"const": 1}, {"enum": [2.0, 3]}]})",
            {"1", "2.0", "3"});
  EXPECT_EQ(RejectionOf(R"({"oneOf": [{"type": "integer"}, {"const": 1.5}]})"), "");
  EXPECT_THAT(RejectionOf(R"({"oneOf": [{"type": "integer"}, {"const": 1.0}]})"),
              HasSubstr("may both be valid"));
}

// NVIDIA Dynamo asks so for calls of one of several functions.
TEST_F(SchemaEbnfTest, AlternativesWithoutATypeHaveThatBesideThem) {
  const std::string calls =
      R"({"type": "array", "items": {"type": "object", "anyOf": [
          {"properties": {"name": {"const": "a"}, "parameters": {"type": "object"}},
           "required": ["name", "parameters"]},
          {"properties": {"name": {"const": "b"}, "parameters": {"type": "integer"}},
           "required": ["name", "parameters"]}]}, "minItems": 1})";
  EXPECT_EQ(RejectionOf(calls), "");
  ExpectAll("accepted", calls,
            {R"([{"name": "a", "parameters": {}}])",
             R"([{"name": "b", "parameters": 1}, {"name": "a", "parameters": {}}])"});
  ExpectAll("rejected", calls,
            {"[]", "[1]", R"([{"name": "a", "parameters": 1}])", R"([{"name": "b"}])"});
  // All of the types, and each keyword for its own.
  const std::string mixed = R"({"type": ["string", "integer"],
                                "anyOf": [{"minLength": 2, "maximum": 5}, {"const": "a"}]})";
  ExpectAll("accepted", mixed, {"\"ab\"", "\"a\"", "5"});
  ExpectAll("rejected", mixed, {"\"b\"", "6", "null", "[]"});
  const std::string any = R"({"type": "boolean", "anyOf": [{"anyOf": [{}, {"title": "x"}]}]})";
  ExpectAll("accepted", any, {"true"});
  ExpectAll("rejected", any, {"null", "1"});
  const std::string one = R"({"type": "object", "oneOf": [
      {"properties": {"is": {"const": 1}}}, {"properties": {"is": {"const": 2}}}]})";
  ExpectAll("accepted", one, {R"({"is": 1})", R"({"is": 2})"});
  ExpectAll("rejected", one, {"{}", "[]"});
  EXPECT_EQ(RejectionOf(R"({"type": "object", "anyOf": [{"minimum": 1}]})"),
            "at '#/anyOf/0': the keyword 'minimum' is for the type 'number', which 'type' does not "
            "have");
  // What a reference leads to stands for itself.
  EXPECT_THAT(RejectionOf(R"({"type": "object", "anyOf": [{"$ref": "#/$defs/a"}],
                              "$defs": {"a": {"properties": {}}}})"),
              HasSubstr("'#/anyOf/0' has"));
}

TEST_F(SchemaEbnfTest, LengthsCountCharacters) {
  const char* const schema = R"({"type": "string", "minLength": 2, "maxLength": 4})";
  ExpectAll("accepted", schema, {R"("ab")", R"("😀😀😀😀")", R"("a\nb")", R"("éé")"});
  ExpectAll("rejected", schema,
            {R"("")", R"("a")", R"("abcde")", R"("😀")", R"("abcd\n")", R"("\n\n\n")"});
  // An escape that begins within the limit may end behind it: it is one character.
  ExpectAll("accepted", schema, {R"("abc\u0041")"});
  ExpectAll("accepted", R"({"type": "string", "maxLength": 0})", {"\"\""});
  ExpectAll("rejected", R"({"type": "string", "maxLength": 0})", {"\"a\""});
  ExpectAll("accepted", R"({"type": "string", "minLength": 8})",
            {R"("12345678")", R"("1234567890")"});
  ExpectAll("rejected", R"({"type": "string", "minLength": 8})", {R"("1234567")"});
  ExpectAll("rejected", R"({"type": "string", "maxLength": 2})", {R"("abc")"});
}

TEST_F(SchemaEbnfTest, Values) {
  ExpectAll("accepted", R"({"enum": ["a", 1, null, {"k": [1]}]})",
            {"\"a\"", "1", "null", R"({"k":[1]})"});
  ExpectAll("rejected", R"({"enum": ["a", 1]})", {"\"b\"", "2"});
  ExpectAll("rejected", R"({"type": "string", "enum": ["a", 1]})", {"1"});
  ExpectAll("accepted", R"({"const": "é\n\"\\\u0001\u007f"})",
            {R"("é\n\"\\\u0001)"
             "\x7f\""});
  EXPECT_THAT(RejectionOf(R"({"type": "null", "enum": ["a", 1]})"),
              HasSubstr("no value of the keyword 'enum'"));
  EXPECT_THAT(RejectionOf(R"({"const": 1e300})"), HasSubstr("2^53"));
}

TEST_F(SchemaEbnfTest, References) {
  const char* const list =
      R"({"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"},
      "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v", "next"]}}, "$ref": "#/$defs/n"})";
  ExpectAll("accepted", list, {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"});
  ExpectAll("rejected", list, {R"({"v":1,"next":1})"});
  ExpectAll("accepted", R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"});
  ExpectAll("accepted", R"({"$defs": {"a/b~ c": {"type": "null"}}, "$ref": "#/$defs/a~1b~0%20c"})",
            {"null"});
  ExpectAll("accepted", R"({"prefixItems": [{"type": "null"}, {"$ref": "#/prefixItems/0"}]})",
            {"[null,null]"});
  // A chain that would overflow a stack.
  Json chain = {{"$ref", "#/$defs/0"}};
  for (int i = 0; i < 1500; ++i)
    chain["$defs"][std::to_string(i)] = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
  chain["$defs"]["1500"] = {{"type", "null"}};
  ExpectAll("accepted", chain.dump(), {"null"});
}

TEST_F(SchemaEbnfTest, ReferencesWithoutAnEndAreRejected) {
  EXPECT_EQ(RejectionOf(R"({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})"),
            "at '#/$defs/a': the keyword '$ref' leads back to this schema with nothing between: no "
            "value would end it");
  EXPECT_THAT(RejectionOf(R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]},
                              "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"})"),
              AllOf(HasSubstr("leads back"), HasSubstr("#/$defs/")));
  // Behind a reference that was read before, inside of an object.
  EXPECT_THAT(
      RejectionOf(
          R"({"$defs": {"a": {"anyOf": [{"properties": {"x": {"$ref": "#/$defs/b"}}}, {"$ref": "#/$defs/b"}]},
                              "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"})"),
      HasSubstr("leads back"));
  EXPECT_THAT(RejectionOf(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})"),
              HasSubstr("leads back"));
  EXPECT_EQ(RejectionOf(
                R"({"$defs": {"a": {"properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}},
                            "$ref": "#/$defs/a"})"),
            "at '#/$defs/a': no finite value is valid: it requires itself");
  EXPECT_THAT(RejectionOf(R"({"type": "array", "items": {"$ref": "#"}, "minItems": 1})"),
              HasSubstr("no finite value"));
}

TEST_F(SchemaEbnfTest, OneOfNeedsAlternativesThatExcludeEachOther) {
  // Pydantic's discriminated unions: the tag has a default, and so is not required.
  const char* const tagged = R"({"$defs": {
      "Cat": {"type": "object", "properties": {"kind": {"const": "cat", "default": "cat"}, "lives": {"type": "integer"}},
              "required": ["lives"]},
      "Dog": {"type": "object", "properties": {"kind": {"const": "dog", "default": "dog"}, "name": {"type": "string"}}}},
      "discriminator": {"propertyName": "kind"}, "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]})";
  ExpectAll("accepted", tagged, {R"({"kind":"cat","lives":9})", R"({"kind":"dog"})"});
  ExpectAll("rejected", tagged, {"{}", R"({"lives":9})", R"({"kind":"cat","name":"x"})"});
  ExpectAll("accepted",
            R"({"oneOf": [{"type": "integer"}, {"type": "string"}, {"enum": [null, true]}]})",
            {"1", "\"\"", "true"});
  for (
      const char* schema :
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})",
       R"({"oneOf": [{"const": 1}, {"enum": [2, 1.0]}]})",
       R"({"oneOf": [{"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}]})",
       R"({"oneOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": 2}}}]})",
       R"({"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"b": {}}}]})"}) {
    EXPECT_THAT(RejectionOf(schema),
                HasSubstr("the alternatives 0 and 1 of the keyword 'oneOf' may both be valid"))
        << schema;
  }
}

TEST_F(SchemaEbnfTest, WhateverWouldNotBeEnforcedIsRejectedByName) {
  const std::map<std::string, std::string> rejections = {
      {R"({"properties": {"a": {"type": "integer", "multipleOf": 3}}})",
       "at '#/properties/a': the keyword 'multipleOf' is not supported"},
      {R"({"not": {}})", "at '#': the keyword 'not' is not supported"},
      {R"({"$defs": {"s": {}}, "$ref": "#/$defs/s", "maxLength": 2})",
       "at '#': the keyword 'maxLength' is not supported beside '$ref'"},
      {R"({"anyOf": [{}], "properties": {}})",
       "at '#': the keyword 'properties' is not supported beside 'anyOf'"},
      {R"({"type": "integer", "maxLength": 2})",
       "at '#': the keyword 'maxLength' is for the type 'string', which 'type' does not have"},
      {R"({"maxLength": 2, "maxItems": 1})",
       "at '#': the keyword 'type' is missing, and 'maxItems' is for another type than other "
       "keywords"},
      {R"({"items": [{"type": "null"}]})",
       "at '#': the keyword 'items' must be a schema; 'prefixItems' takes a list of them"},
      {R"({"uniqueItems": true})",
       "at '#': the keyword 'uniqueItems' is supported only where 'items' has an 'enum' without "
       "lists and objects, as a grammar cannot compare items"},
      {R"({"uniqueItems": true, "items": {"enum": [1, [1]]}})",
       "at '#': the keyword 'uniqueItems' is supported only where 'items' has an 'enum' without "
       "lists and objects, as a grammar cannot compare items"},
      {R"({"uniqueItems": true, "items": {"enum": [1, 1.0]}, "minItems": 2})",
       "at '#': the keyword 'minItems' is 2, but there are only 1"},
      {R"({"propertyNames": {"maxLength": 2}, "properties": {"a": {}}})",
       "at '#': the keyword 'propertyNames' is not supported beside 'properties'"},
      {R"({"propertyNames": {"type": "integer"}})",
       "at '#': the keyword 'propertyNames' must be a schema of strings, or an 'enum' of them"},
      {R"({"propertyNames": {"enum": ["a"]}, "required": ["b"]})",
       "at '#': the keyword 'required' names 'b', which is not in 'properties'"},
      {R"({"properties": {"a": {}}, "required": ["a"], "maxProperties": 0})",
       "at '#': the keyword 'maxProperties' is 0, but more are required"},
      {R"({"type": "string", "$ref": "#/$defs/a", "$defs": {"a": {"type": ["string", "null"]}}})",
       "at '#': the keyword 'type' is supported beside '$ref' only where the schemas there have no "
       "other types; '#/$defs/a' has"},
      {R"({"type": "integer", "allOf": [{}]})",
       "at '#': the keyword 'type' is supported beside 'allOf' only where the schemas there have "
       "no other types; '#/allOf/0' has"},
      {R"({"type": ["integer", "string"], "anyOf": [{"type": "string"}, {"type": "number"}]})",
       "at '#': the keyword 'type' is supported beside 'anyOf' only where the schemas there have "
       "no other types; '#/anyOf/1' has"},
      {R"({"required": ["z"]})",
       "at '#': the keyword 'required' names 'z', which is not in 'properties'"},
      {R"({"allOf": [{}, {}]})",
       "at '#': the keyword 'allOf' is supported only with one schema in its list"},
      {R"({"$ref": "#/nothing"})",
       "at '#': the keyword '$ref' points to '#/nothing', which does not exist"},
      {R"({"$ref": "other.json"})",
       "at '#': the keyword '$ref' must be '#' or begin with '#/': only references into the same "
       "schema are supported"},
      {R"({"type": "strin"})",
       "at '#': the keyword 'type' must be 'null', 'boolean', 'integer', 'number', 'string', "
       "'array' or 'object', or a list of them, not \"strin\""},
      {R"({"minLength": -1})",
       "at '#': the keyword 'minLength' must be a whole number that is not negative"},
      {R"({"minLength": 9})", "at '#': the keyword 'minLength' must be at most 8, got 9"},
      {R"({"minItems": 3, "maxItems": 2})",
       "at '#': the keyword 'maxItems' is less than 'minItems'"},
      {R"({"minLength": 3, "maxLength": 2})",
       "at '#': the keyword 'maxLength' is less than 'minLength'"},
      {"false", "at '#': the schema is false: no value is valid"},
      {"5", "at '#': a schema must be an object, true or false"},
      {R"({"items": 5})", "at '#': the keyword 'items' must be a schema"},
      {R"({"properties": {"a~/": 5}})",
       "at '#/properties/a~0~1': a schema must be an object, true or false"},
      {R"({"properties": 5})", "at '#': the keyword 'properties' must be an object with schemas"},
      {R"({"required": "a"})", "at '#': the keyword 'required' must be a list of names"},
      {R"({"enum": []})", "at '#': the keyword 'enum' is empty: it allows no value"},
      {R"({"properties": {"a": {"$id": "x"}}})",
       "at '#/properties/a': the keyword '$id' is not supported"},
      {R"({"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{}]})",
       "at '#': the keyword 'prefixItems' is not known to the draft that '$schema' names"},
      {R"({"prefixItems": [{}], "items": false, "minItems": 2})",
       "at '#': the keyword 'minItems' asks for more items than 'prefixItems' and 'items' allow"},
      {R"({"properties": {"a": {}}, "minProperties": 2})",
       "at '#': the keyword 'minProperties' is 2, but there are only 1"},
  };
  for (const auto& [schema, message] : rejections)
    EXPECT_EQ(RejectionOf(schema), message) << schema;
}

TEST_F(SchemaEbnfTest, LongNamesAreCutBetweenCharacters) {
  std::string name = "x";
  for (int i = 0; i < 400; ++i) name += "é";
  const std::string part = name.substr(0, 201);  // Two of them are too long for a path, too.
  for (const Json& schema :
       {Json{{"properties", {{part, {{"properties", {{part, {{"not", 1}}}}}}}}}},
        Json{{"required", {name}}},
        Json{{"properties", {{"a", Json::object()}}}, {"required", {name}}}, Json{{name, 1}},
        Json{{"$ref", "#/" + name}}, Json{{"type", name}}, Json{{"$ref", "#"}, {name, 1}}}) {
    const std::string message = RejectionOf(schema.dump());
    EXPECT_LT(message.size(), 400) << message;
    EXPECT_TRUE(base::IsValidUtf8(message)) << message;
    EXPECT_THAT(message, AllOf(HasSubstr("éééé"), HasSubstr("...")));
  }
}

// Each within a second, whatever it says.
TEST_F(SchemaEbnfTest, LargeSchemasAreRejectedEarly) {
  Json many = Json::object();
  for (int i = 0; i < 300; ++i) many["properties"]["p" + std::to_string(i)] = {{"type", "null"}};
  EXPECT_THAT(RejectionOf(many.dump()),
              HasSubstr("the keyword 'properties' has too many optional ones"));
  Json values = Json::array();
  for (int i = 0; i < 1001; ++i) values.push_back(i);
  EXPECT_THAT(RejectionOf(Json{{"enum", values}}.dump()),
              HasSubstr("too many values: at most 1000"));
  EXPECT_THAT(RejectionOf(Json{{"const", std::string(100'000, 'x')}}.dump()),
              HasSubstr("the schema is too large"));
  Json deep = {{"type", "null"}};
  for (int i = 0; i < 500; ++i) deep = {{"items", deep}};
  EXPECT_THAT(RejectionOf(deep.dump()), HasSubstr("is nested deeper than"));
  // Each level has two ways to the next: 2^30 of them.
  Json ways = {{"oneOf", {{{"$ref", "#/$defs/0"}}, {{"type", "null"}}}}};
  for (int i = 0; i < 30; ++i) {
    const Json next = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    ways["$defs"][std::to_string(i)] = {{"anyOf", {next, next}}};
  }
  ways["$defs"]["30"] = {{"type", "string"}};
  EXPECT_THAT(RejectionOf(ways.dump()), HasSubstr("too complex"));
}

// Drafts differ, and `$id` changes what references mean.
TEST_F(SchemaEbnfTest, OtherDraftsAndNestedIdsAreRejected) {
  for (const char* draft :
       {"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-03/schema"}) {
    EXPECT_THAT(RejectionOf(Json{{"$schema", draft}, {"type", "null"}}.dump()),
                HasSubstr("names a draft"));
  }
  EXPECT_EQ(
      RejectionOf(R"({"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"})"), "");
  EXPECT_EQ(
      RejectionOf(
          R"({"$ref": "#/$defs/a/$defs/b", "$defs": {"a": {"$id": "http://x.test/a", "$defs": {
                            "b": {"$ref": "#/$defs/c"}, "c": {"type": "integer"}}}, "c": {"type": "string"}}})"),
      "at '#/$defs/a': the keyword '$id' is not supported");
}

TEST_F(SchemaEbnfTest, LongNamesAndCountsOfManyAreRejectedEarly) {
  EXPECT_THAT(
      RejectionOf(Json{{"properties", {{std::string(1'000'000, '/'), {{"type", "null"}}}}}}.dump()),
      HasSubstr("a name has 1000000 bytes: at most 256"));
  EXPECT_THAT(RejectionOf(Json{{"$ref", "#/" + std::string(1'000'000, '~')}}.dump()),
              HasSubstr("which does not exist"));
  Json many = {{"minProperties", 1000}, {"required", Json::array()}};
  for (int i = 0; i < 1500; ++i) {
    many["properties"]["p" + std::to_string(i)] = {{"type", "null"}};
    many["required"].push_back("p" + std::to_string(i));
  }
  EXPECT_THAT(RejectionOf(many.dump()), HasSubstr("too large for so many"));
}

TEST_F(SchemaEbnfTest, EqualPartsAreOneRule) {
  const StatusOr<std::string> once =
      Convert(R"({"properties": {"a": {"minLength": 4}}, "required": ["a"]})");
  Json schema = {{"required", Json::array()}};
  for (int i = 0; i < 20; ++i) {
    schema["properties"]["p" + std::to_string(i)] = {{"minLength", 4}};
    schema["required"].push_back("p" + std::to_string(i));
  }
  const StatusOr<std::string> often = SchemaToEbnf(schema);
  ASSERT_TRUE(once.ok() && often.ok());
  EXPECT_LT(MustCompile(*vocabulary_, *often)->work(),
            8 * MustCompile(*vocabulary_, *once)->work());
}

TEST_F(SchemaEbnfTest, AnyObjectIsAnObject) {
  const auto grammar = MustCompile(*vocabulary_, AnyObjectEbnf());
  for (const char* text : {"{}", R"({"a": [1, {"b": null}]})"})
    EXPECT_EQ(grammar::Judge(*vocabulary_, grammar, text), "accepted");
  for (const char* text : {"[]", "1", R"({"a"})", "{,}"})
    EXPECT_EQ(grammar::Judge(*vocabulary_, grammar, text), "rejected");
}

// A digit behind a control character is no part of how that is written.
TEST_F(SchemaEbnfTest, ControlCharactersStandBeforeDigits) {
  std::vector<std::string> texts;
  for (int control = 1; control < 0x20; ++control) {
    for (const char* behind : {"0", "b", "F", "be"}) {
      texts.push_back(std::string("a") + static_cast<char>(control) + behind);
    }
  }
  texts.push_back(std::string("a\x7f") + "f");
  // The model has no token for some of them.
  std::erase_if(texts, [&](const std::string& text) {
    return vocabulary_->Decode(vocabulary_->Encode(text)) != text;
  });
  ASSERT_GT(texts.size(), 80U);
  const StatusOr<std::string> ebnf = ChoiceEbnf(texts);
  ASSERT_TRUE(ebnf.ok());
  const auto grammar = MustCompile(*vocabulary_, *ebnf);
  for (const std::string& text : texts) {
    EXPECT_EQ(grammar::Judge(*vocabulary_, grammar, text), "accepted") << int{text[1]} << text[2];
  }
}

TEST_F(SchemaEbnfTest, ChoicesAreTextsAsTheyAre) {
  const StatusOr<std::string> ebnf = ChoiceEbnf({"yes", "no \"x\"\n", "né"});
  ASSERT_TRUE(ebnf.ok());
  const auto grammar = MustCompile(*vocabulary_, *ebnf);
  for (const char* text : {"yes", "no \"x\"\n", "né"})
    EXPECT_EQ(grammar::Judge(*vocabulary_, grammar, text), "accepted");
  for (const char* text : {"Yes", "yess", "no \"x\"\\n"})
    EXPECT_EQ(grammar::Judge(*vocabulary_, grammar, text), "rejected");
  EXPECT_FALSE(ChoiceEbnf({}).ok());
  EXPECT_FALSE(ChoiceEbnf({"a", ""}).ok());
  EXPECT_FALSE(ChoiceEbnf({std::string(70'000, 'a')}).ok());
}

}  // namespace

}  // namespace ropeway::grammar
