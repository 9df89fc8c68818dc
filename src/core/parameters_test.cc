#include "core/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "core/request_check.h"

namespace ropeway::core {
namespace {

using testing::HasSubstr;

const Parameter& Row(const char* name) {
  const Parameter* row = FindParameter(name);
  if (row == nullptr) throw std::runtime_error(name);
  return *row;
}

TEST(ParametersTest, NamesAndBitsAreDistinct) {
  std::set<std::string> names;
  uint32_t given = 0;
  for (const Parameter& row : Parameters()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    for (const char* alias : row.aliases) {
      EXPECT_TRUE(alias == nullptr || names.insert(alias).second) << row.name;
    }
    EXPECT_EQ(given & row.given, 0u) << row.name;
    given |= row.given;
    EXPECT_EQ(row.known & row.known_as, row.known_as) << row.name;
    EXPECT_TRUE(row.known_as == 0 || row.aliases[0] != nullptr) << row.name;
    EXPECT_EQ(row.gguf != nullptr, HasDefault(row)) << row.name;
  }
  EXPECT_EQ(FindParameter("temprature"), nullptr);
}

// What a request has that says nothing is in range, and changes nothing where it can.
TEST(ParametersTest, TheDefaultsAreInRangeAndOff) {
  const Request request;
  for (const Parameter& row : Parameters()) {
    EXPECT_TRUE(CheckParameter(row, request).ok()) << row.name;
    EXPECT_EQ(Changes(row, request), std::isnan(row.off)) << row.name;
  }
}

TEST(ParametersTest, RangesHaveTheirEdges) {
  EXPECT_TRUE(Within(Row("temperature"), 0));
  EXPECT_TRUE(Within(Row("temperature"), 2));
  EXPECT_FALSE(Within(Row("temperature"), 2.1));
  EXPECT_FALSE(Within(Row("temperature"), NAN));
  EXPECT_FALSE(Within(Row("top_p"), 0));
  EXPECT_FALSE(Within(Row("top_p"), 1e-60)) << "none as a float";
  EXPECT_TRUE(Within(Row("top_k"), -1));
  EXPECT_TRUE(Within(Row("top_k"), std::numeric_limits<int32_t>::max()));
  EXPECT_FALSE(Within(Row("top_k"), std::numeric_limits<int32_t>::max() + 1.0));
}

TEST(ParametersTest, AMessageNamesTheParameterAndWhatItHasToBe) {
  const auto message = [](auto set) {
    Request request;
    request.prompt = "x";
    set(&request);
    const Status status = CheckRequest(request);
    EXPECT_THAT(status.message(), HasSubstr(status.field()));
    return status.message();
  };
  EXPECT_EQ(message([](Request* r) { r->sampling.temperature = 3; }),
            "temperature must be a number of at least 0 and at most 2, not 3");
  EXPECT_EQ(message([](Request* r) { r->sampling.top_p = 0; }),
            "top_p must be a number above 0 and at most 1, not 0");
  EXPECT_EQ(message([](Request* r) { r->sampling.top_k = -2; }),
            "top_k must be an integer from -1 to 2147483647, not -2");
  EXPECT_EQ(message([](Request* r) {
              r->sampling.logit_bias = {{7, 101}};
            }),
            "logit_bias of token 7 must be a number of at least -100 and at most 100, not 101");
  EXPECT_EQ(message([](Request* r) { r->stop_token_ids.resize(129); }),
            "stop_token_ids may hold at most 128 entries, not 129");
  EXPECT_EQ(message([](Request* r) { r->stop = {""}; }),
            "a string in stop must have 1 to 1024 bytes, not 0");
  EXPECT_EQ(message([](Request* r) { r->cache_salt.assign(257, 's'); }),
            "cache_salt must have 1 to 256 bytes, not 257");
  EXPECT_EQ(message([](Request* r) { r->max_tokens = -7; }),
            "max_tokens must be an integer from 0 to 2147483647, not -7");
}

TEST(ParametersTest, WhatIsGivenMayChangeNothing) {
  Request request;
  EXPECT_TRUE(IsGiven(Row("top_k"), request)) << "all bits are set";
  EXPECT_FALSE(IsGiven(Row("seed"), request)) << "there is none";
  EXPECT_FALSE(IsGiven(Row("stop"), request));
  request.sampling.top_k = -1;
  EXPECT_FALSE(Changes(Row("top_k"), request));
  request.sampling.top_k = 4;
  EXPECT_TRUE(Changes(Row("top_k"), request));
  request.sampling.given = SamplingParams::kSeed;
  EXPECT_FALSE(IsGiven(Row("top_k"), request));
  EXPECT_FALSE(Changes(Row("top_k"), request));
}

TEST(ParametersTest, ServersHaveNamesOfTheirOwn) {
  const Parameter& penalty = Row("repetition_penalty");
  EXPECT_STREQ(NameAt(penalty, kVllm), "repetition_penalty");
  EXPECT_STREQ(NameAt(penalty, kLlamaCpp), "repeat_penalty");
  EXPECT_EQ(NameAt(penalty, kOpenAi), nullptr);
}

TEST(ParametersTest, SetDefaultKeepsTheType) {
  SamplingDefaults defaults;
  SetDefault(Row("top_k"), 40, &defaults);
  SetDefault(Row("min_p"), 0.5, &defaults);
  SetDefault(Row("typical_p"), 0.5, &defaults);  // No model comes with it.
  EXPECT_EQ(defaults.top_k, 40);
  EXPECT_EQ(defaults.min_p, 0.5F);
  SamplingParams params;
  params.top_p = 0.25F;
  defaults.ApplyTo(&params);
  EXPECT_EQ(params.top_k, 40);
  EXPECT_EQ(params.min_p, 0.5F);
  EXPECT_EQ(params.top_p, 0.25F) << "what they do not say stays";
  EXPECT_EQ(params.typical_p, 1.0F);
}

}  // namespace
}  // namespace ropeway::core
