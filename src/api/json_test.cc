#include "api/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace ropeway::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(JsonReader, ReadsWhatTheLibraryReads) {
  for (const char* text :
       {"null", "true", "-3", "18446744073709551615", "1.5e3", R"("a\u00e9\ud83d\ude00\u0000b")",
        "[]", "{}", R"([1,[2,{"a":[3,{"b":null}]},4],"x"])",
        R"({"a":{"b":{"c":[1,2,{"d":{}}]},"e":2},"f":[[],[[]]]})", " \n\t[ 1 , 2 ] \r\n"}) {
    StatusOr<json> read = ReadJson(text, {});
    ASSERT_TRUE(read.ok()) << text << ": " << read.status().message();
    EXPECT_EQ(*read, json::parse(text)) << text;
  }
}

TEST(JsonReader, RejectsWhatIsNotJson) {
  for (const std::string& text : std::initializer_list<std::string>{"",
                                                                    " ",
                                                                    "{",
                                                                    "[1,",
                                                                    "[1,]",
                                                                    "{\"a\"}",
                                                                    "{\"a\":}",
                                                                    "{a:1}",
                                                                    "'a'",
                                                                    "nul",
                                                                    "1 2",
                                                                    "{}{}",
                                                                    "01",
                                                                    "+1",
                                                                    ".5",
                                                                    "1.",
                                                                    "NaN",
                                                                    "Infinity",
                                                                    "-",
                                                                    "0x10",
                                                                    "\"",
                                                                    "\"\\x\"",
                                                                    "\"\\ud800\"",
                                                                    "\"\n\"",
                                                                    "\"\xff\"",
                                                                    "\"\xc0\xaf\"",
                                                                    "\"\xed\xa0\x80\"",
                                                                    "\"\xe2\x82\"",
                                                                    "// c\n1",
                                                                    std::string("\0", 1),
                                                                    std::string("[1]\0", 4),
                                                                    "1e400",
                                                                    "-1e400",
                                                                    "]",
                                                                    "}"}) {
    StatusOr<json> read = ReadJson(text, {});
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(read.status().message(), HasSubstr("not valid JSON at byte")) << text;
    EXPECT_LT(read.status().message().size(), 300U);
  }
}

TEST(JsonReader, LongGarbageGivesAShortMessage) {
  StatusOr<json> read = ReadJson("\"" + std::string(1 << 20, 'x'), {});
  ASSERT_FALSE(read.ok());
  EXPECT_LT(read.status().message().size(), 300U);
}

TEST(JsonReader, RejectsADuplicateKeyAtAnyDepth) {
  for (const char* text : {R"({"a":1,"a":1})", R"([{"b":{"a":1,"c":2,"a":null}}])"}) {
    StatusOr<json> read = ReadJson(text, {});
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(read.status().message(), HasSubstr("'a' is given twice"));
  }
  EXPECT_TRUE(ReadJson(R"({"a":{"a":1},"b":{"a":1}})", {}).ok());
}

TEST(JsonReader, BoundsTheDepth) {
  const base::JsonBounds bounds{.max_depth = 3};
  EXPECT_TRUE(ReadJson("[[[1]]]", bounds).ok());
  EXPECT_FALSE(ReadJson("[[[[1]]]]", bounds).ok());
  EXPECT_FALSE(ReadJson(R"({"a":{"b":[{}]}})", bounds).ok());
  EXPECT_TRUE(ReadJson("[[],[],[[]],[[]]]", bounds).ok());
  // Would overflow the stack of a reader that recurses.
  StatusOr<json> deep = ReadJson(std::string(4 << 20, '['), {});
  ASSERT_FALSE(deep.ok());
  EXPECT_THAT(deep.status().message(), HasSubstr("nested deeper than 32"));
}

TEST(JsonReader, BoundsTheValues) {
  const base::JsonBounds bounds{.max_values = 4};
  EXPECT_TRUE(ReadJson("[1,2,3]", bounds).ok());
  EXPECT_FALSE(ReadJson("[1,2,3,4]", bounds).ok());
  EXPECT_FALSE(ReadJson(R"({"a":1,"b":2})", bounds).ok());
}

// Whatever bytes a text has, it becomes one line of JSON that reads back as the library's would.
TEST(AppendJsonString, EqualsTheLibraryOnAnyBytes) {
  std::mt19937 random(7);
  const std::vector<std::string> parts = {"a",
                                          "\"",
                                          "\\",
                                          "\n",
                                          "\r",
                                          "\t",
                                          "\x7f",
                                          "\xc3\xa9",
                                          "\xf0\x9f\x98\x80",
                                          "\xe2\x80\xa8",
                                          "\xc3",
                                          "\xff",
                                          "\xed\xa0\x80",
                                          std::string(1, '\0'),
                                          "\x1f",
                                          "</s>"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (size_t n = random() % 8; n > 0; --n) text += parts[random() % parts.size()];
    std::string out;
    AppendJsonString(text, &out);
    EXPECT_EQ(out.find('\n'), std::string::npos);
    const std::string expected = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
    EXPECT_EQ(json::parse(out), json::parse(expected)) << out;
  }
}

}  // namespace
}  // namespace ropeway::api
