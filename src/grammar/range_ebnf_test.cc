#include "grammar/range_ebnf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/random.h"
#include "grammar/schema_ebnf.h"
#include "grammar/test_vocabularies.h"

namespace ropeway::grammar {

namespace {

using testing::HasSubstr;

class RangeEbnfTest : public testing::Test {
 protected:
  void SetUp() override {
    vocabulary_ = SmallVocabulary();
    if (vocabulary_ == nullptr) GTEST_SKIP() << "no vocabulary: ROPEWAY_TEST_MODEL is not set";
  }

  void Use(const std::string& schema) {
    schema_ = schema;
    const StatusOr<std::string> ebnf = SchemaToEbnf(nlohmann::ordered_json::parse(schema));
    message_ = ebnf.ok() ? "" : ebnf.status().message();
    grammar_ = ebnf.ok() ? MustCompile(*vocabulary_, *ebnf) : nullptr;
  }
  std::string Message(const std::string& schema) {
    Use(schema);
    return message_;
  }
  bool IsAccepted(const std::string& text) {
    return Judge(*vocabulary_, grammar_, text) == "accepted";
  }
  void ExpectOnly(const std::string& schema, const std::vector<std::string>& accepted,
                  const std::vector<std::string>& rejected) {
    Use(schema);
    ASSERT_NE(grammar_, nullptr) << schema << ": " << message_;
    for (const std::string& text : accepted) EXPECT_TRUE(IsAccepted(text)) << schema << " " << text;
    for (const std::string& text : rejected)
      EXPECT_FALSE(IsAccepted(text)) << schema << " " << text;
  }

  const TestVocabulary* vocabulary_ = nullptr;
  std::string schema_;
  std::string message_;
  std::shared_ptr<const Grammar> grammar_;
};

TEST_F(RangeEbnfTest, IntegersAreExactlyThoseBetweenTheBounds) {
  const std::vector<int> bounds = {-1000, -119, -100, -10, -1, 0, 7, 10, 42, 99, 100, 305, 1000};
  std::set<int> values;
  for (const int bound : bounds) {
    for (const int near : {-90, -11, -10, -9, -2, -1, 0, 1, 2, 9, 10, 11, 90})
      values.insert(bound + near);
  }
  for (const int low : bounds) {
    for (const int high : bounds) {
      if (low > high) continue;
      Use(fmt::format(R"({{"type":"integer","minimum":{},"maximum":{}}})", low, high));
      ASSERT_NE(grammar_, nullptr) << message_;
      for (const int value : values)
        EXPECT_EQ(IsAccepted(std::to_string(value)), low <= value && value <= high)
            << schema_ << " " << value;
    }
  }
}

TEST_F(RangeEbnfTest, IntegersOpenOnOneSide) {
  ExpectOnly(R"({"type": "integer", "minimum": 5})", {"5", "9", "10", "999999999999999999"},
             {"4", "0", "-0", "-5", "05", "5.0", "1000000000000000000"});
  ExpectOnly(R"({"type": "integer", "maximum": -5})", {"-5", "-10", "-999999999999999999"},
             {"-4", "-0", "0", "5", "-05"});
  ExpectOnly(R"({"type": "integer", "maximum": 3})", {"3", "0", "-0", "-1", "-77"}, {"4", "10"});
  ExpectOnly(R"({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10})", {"1", "9"},
             {"0", "10", "-1"});
  ExpectOnly(R"({"type": "integer", "minimum": 0.5, "maximum": 2.999})", {"1", "2"}, {"0", "3"});
  ExpectOnly(R"({"type": "integer", "minimum": -2.5, "exclusiveMaximum": -0.5})", {"-2", "-1"},
             {"-3", "0", "-0"});
  ExpectOnly(R"({"type": "integer", "minimum": 3, "exclusiveMinimum": 3, "maximum": 9e0})",
             {"4", "9"}, {"3", "10"});
  ExpectOnly(R"({"type": "integer", "maximum": 9223372036854775807})", {"9223372036854775807"},
             {"9223372036854775808", "10000000000000000000"});
  ExpectOnly(R"({"type": "integer", "minimum": 18446744073709551615})",
             {"18446744073709551615", "100000000000000000000"},
             {"18446744073709551614", "1000000000000000000000"});
  ExpectOnly(R"({"minimum": 5})", {"5", "5.5"}, {"4", "4.9"});
  ExpectOnly(R"({"type": ["integer", "null"], "minimum": 5})", {"null", "5"}, {"4", "5.5"});
}

TEST_F(RangeEbnfTest, NumbersAreDecimals) {
  ExpectOnly(R"({"type": "number", "minimum": 0, "maximum": 1})",
             {"0", "1", "0.0", "1.0", "1.00000000000000000", "0.5", "0.99999999999999999"},
             {"1.1", "1.00000000000000001", "2", "10", "-0", "-0.5", "1e0", "0.", ".5", "00.5"});
  ExpectOnly(R"({"type": "number", "minimum": -1.5, "maximum": 2.25})",
             {"-1.5", "-1.50", "-1.49", "-1", "-0", "-0.0", "0", "2.25", "2.250", "2.2", "2.249"},
             {"-1.51", "-1.500001", "-1.6", "-2", "2.26", "2.251", "2.3", "3", "22.5"});
  ExpectOnly(R"({"type": "number", "minimum": 12.05})", {"12.05", "12.1", "13", "100", "99999.5"},
             {"12", "12.0", "12.04", "12.049999", "1", "2.05", "-12.05"});
  ExpectOnly(R"({"type": "number", "exclusiveMinimum": 0})", {"0.1", "0.00000000000001", "1"},
             {"0", "0.0", "-0", "0.00000000000000", "-1"});
  ExpectOnly(R"({"type": "number", "exclusiveMaximum": 0.5})", {"0.49", "0", "-3.25"},
             {"0.5", "0.50", "0.49999999999999999", "0.51"});
  // Tiny bounds are rounded to the inside.
  ExpectOnly(R"({"type": "number", "minimum": 1e-20})", {"0.00000000000000001"},
             {"0", "0.00000000000000000"});
  ExpectOnly(R"({"type": "number", "minimum": -5e-324, "maximum": 5e-324})", {"0", "0.00"},
             {"0.00000000000000001"});
}

// What a reader that rounds to doubles says of texts at the bound.
TEST_F(RangeEbnfTest, NumbersNeverRoundAcrossABound) {
  base::SeededRandom random(39);
  int accepted = 0;
  for (int round = 0; round < 120; ++round) {
    const int digits = static_cast<int>(random.Below(16));
    const int point = static_cast<int>(random.Below(16));
    std::string bound = random.Below(2) == 0 ? "-" : "";
    bound += std::to_string(random.Below(9) + 1);
    for (int i = 0; i < digits; ++i) bound += std::to_string(random.Below(10));
    if (bound.size() < 16) bound += fmt::format("e-{}", point);
    const double value = std::strtod(bound.c_str(), nullptr);
    if (std::abs(value) >= 9007199254740992) continue;
    const bool is_lower = random.Below(2) == 0;
    const bool exclusive = random.Below(2) == 0;
    Use(fmt::format(R"({{"type":"number","{}":{}}})",
                    std::string(exclusive ? "exclusiveM" : "m") + (is_lower ? "inimum" : "aximum"),
                    bound));
    ASSERT_NE(grammar_, nullptr) << schema_ << message_;
    for (int decimals = 0; decimals <= 17; ++decimals) {
      for (const double near :
           {value, std::nextafter(value, 1e300), std::nextafter(value, -1e300), value * 1.001}) {
        std::string text = fmt::format("{:.{}f}", near, decimals);
        for (int change = 0; change < 3; ++change) {
          const double read = std::strtod(text.c_str(), nullptr);
          const bool valid = exclusive ? (is_lower ? read > value : read < value)
                                       : (is_lower ? read >= value : read <= value);
          const bool is_accepted = IsAccepted(text);
          accepted += is_accepted ? 1 : 0;
          EXPECT_TRUE(valid || !is_accepted) << schema_ << " " << text;
          // Decimals of few digits are not left out, but for zero with a sign.
          if (text.size() <= 13 && bound.size() <= 15 && read != 0) {
            EXPECT_EQ(valid, is_accepted) << schema_ << " " << text;
          }
          text.back() = static_cast<char>('0' + random.Below(10));
          if (text == "-0") break;
        }
      }
    }
  }
  EXPECT_GE(accepted, 2'000);
}

TEST_F(RangeEbnfTest, BoundsThatCannotBeHeldAreRejected) {
  EXPECT_EQ(Message(R"({"type": "integer", "minimum": 6, "maximum": 5})"),
            "at '#': the keywords 'minimum' and 'maximum' leave no integer between them");
  EXPECT_EQ(Message(R"({"type": "integer", "exclusiveMinimum": 5, "maximum": 5.5})"),
            "at '#': the keywords 'exclusiveMinimum' and 'maximum' leave no integer between them");
  EXPECT_EQ(Message(R"({"type": "number", "exclusiveMinimum": 5, "maximum": 5})"),
            "at '#': the keywords 'exclusiveMinimum' and 'maximum' leave no number of at most 14 "
            "decimals between them");
  EXPECT_EQ(Message(R"({"type": "integer", "exclusiveMinimum": true, "minimum": 5})"),
            "at '#': the keyword 'exclusiveMinimum' must be a number; draft 4 alone has true and "
            "false");
  EXPECT_EQ(Message(R"({"type": "integer", "minimum": "5"})"),
            "at '#': the keyword 'minimum' must be a number");
  EXPECT_THAT(Message(R"({"type": "integer", "maximum": 1e30})"),
              HasSubstr("the keyword 'maximum' must be below 2^53, or a whole number of 64 bits"));
  EXPECT_THAT(Message(R"({"type": "number", "maximum": 9007199254740993})"),
              HasSubstr("the keyword 'maximum' must be below 2^53, got"));
  EXPECT_EQ(Message(R"({"type": "string", "maximum": 1})"),
            "at '#': the keyword 'maximum' is for the type 'number', which 'type' does not have");
  EXPECT_EQ(Message(R"({"type": "integer", "minimum": 0, "multipleOf": 3})"),
            "at '#': the keyword 'multipleOf' is not supported");
}

TEST_F(RangeEbnfTest, UsualRangesAreCheap) {
  for (
      const char* schema :
      {R"({"type": "integer", "minimum": 1, "maximum": 100})",
       R"({"type": "number", "minimum": 0, "maximum": 1})",
       R"({"type": "number", "minimum": -273.15, "exclusiveMaximum": 1e6})",
       R"({"type": "number", "exclusiveMinimum": 0.3333333333333333, "maximum": 1234567.8901234567})",
       R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})"}) {
    Use(schema);
    ASSERT_NE(grammar_, nullptr) << message_;
    EXPECT_LT(grammar_->work(), 2'000'000) << schema;
  }
}

}  // namespace

}  // namespace ropeway::grammar
