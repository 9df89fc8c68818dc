#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/wire_fields.h"

namespace ropeway::api::wire {
namespace {

using nlohmann::json;

// What is read of the text; the fault in `fault`.
std::vector<OutputToken> LogprobsOf(const std::string& text, std::string* fault) {
  FieldReader fields;
  uint64_t offset = 0;
  std::vector<OutputToken> tokens;
  ReadLogprobs(json::parse(text), 1, &fields, &offset, &tokens);
  *fault = fields.fault();
  return tokens;
}

TEST(WireLogprobs, WhatIsOfNoKnownShapeIsAFault) {
  const std::pair<const char*, const char*> cases[] = {
      {"7", "sent the field 'logprobs' as a number"},
      {"\"a\"", "sent the field 'logprobs' as a string"},
      {"[7]", "sent the field 'logprobs' as a number"},
      {R"({"content":7})", "sent the field 'logprobs.content' as a number"},
      {R"({"content":[null]})", "sent the field 'logprobs' as null"},
      {R"({"tokens":["a"]})",
       "sent the field 'logprobs' with different numbers of tokens and token_logprobs"},
      {R"({"tokens":"a","token_logprobs":[]})", "sent the field 'logprobs.tokens' as a string"},
      {R"({"tokens":[7],"token_logprobs":[-1]})", "sent the field 'logprobs.tokens' as a number"},
      {R"({"tokens":["a"],"token_logprobs":["-1"]})",
       "sent the field 'logprobs.logprob' as a string"},
      {R"({"tokens":["a"],"token_logprobs":[-1],"top_logprobs":{"a":-1}})",
       "sent the field 'logprobs.top_logprobs' as an object"},
      {R"({"tokens":["a"],"token_logprobs":[-1],"top_logprobs":[{"a":true}]})",
       "sent the field 'logprobs.logprob' as a boolean"},
      {R"([{"token":["a"],"logprob":-1}])", "sent the field 'logprobs.token' as a list"},
      {R"([{"token":"a","logprob":-1,"id":[1]}])", "sent the field 'logprobs.id' as a list"},
      {R"([{"token":"a","logprob":-1,"bytes":[256]}])",
       "sent the field 'logprobs.bytes' with an entry that is not a byte"},
      {R"([{"token":"a","logprob":-1,"bytes":"a"}])",
       "sent the field 'logprobs.bytes' as a string"},
      {R"([{"token":"a","logprob":-1,"top_logprobs":[1]}])",
       "sent the field 'logprobs' as a number"},
      {R"([{"token":"a","logprob":-1,"top_logprobs":7}])",
       "sent the field 'logprobs.top_logprobs' as a number"},
  };
  for (const auto& [text, words] : cases) {
    std::string fault;
    LogprobsOf(text, &fault);
    EXPECT_EQ(fault, words) << text;
  }
}

TEST(WireLogprobs, NullIsAsAbsent) {
  for (const char* text : {"null", "{}", R"({"content":null})",
                           R"({"tokens":null,"token_logprobs":null,"top_logprobs":null})"}) {
    std::string fault;
    EXPECT_TRUE(LogprobsOf(text, &fault).empty()) << text;
    EXPECT_EQ(fault, "") << text;
  }
  std::string fault;
  const std::vector<OutputToken> tokens = LogprobsOf(
      R"([{"token":"a","logprob":null,"bytes":null,"id":null,"top_logprobs":null}])", &fault);
  EXPECT_EQ(fault, "");
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens[0].bytes, "a");
  EXPECT_EQ(tokens[0].id, -1);
  EXPECT_TRUE(std::isnan(tokens[0].logprob));
}

TEST(WireLogprobs, ATextThatOnlyBeginsLikeBytesIsText) {
  std::string fault;
  const std::vector<OutputToken> tokens = LogprobsOf(
      R"({"tokens":["bytes:","bytes:\\xzz","bytes:\\xc3x","bytes:\\xc3\\xa9"],"token_logprobs":[-1,-1,-1,-1]})",
      &fault);
  ASSERT_EQ(tokens.size(), 4u) << fault;
  EXPECT_EQ(tokens[0].bytes, "bytes:");
  EXPECT_EQ(tokens[1].bytes, "bytes:\\xzz");
  EXPECT_EQ(tokens[2].bytes, "bytes:\\xc3x");
  EXPECT_EQ(tokens[3].bytes, "é");
}

}  // namespace
}  // namespace ropeway::api::wire
