#include "grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "grammar/schema_ebnf.h"
#include "grammar/test_vocabularies.h"

namespace ropeway::grammar {

namespace {

using testing::HasSubstr;

constexpr const char* kAnyJson = R"(root ::= any
b ::= "\"" | [\x20-\x21\x23-\x5b\x5d-\x7f\u0080-\ud7ff\ue000-\U0010ffff] b | "\\" e b
e ::= ["\\/bfnrt] | "u" ([0-9a-ce-fA-CE-F] h h h | [dD] [0-7] h h)
h ::= [0-9a-fA-F]
num ::= "-"? ("0" | [1-9] [0-9]{0,17}) ("." [0-9]{1,17})? ([eE] [+-]? [0-9]{1,3})?
w ::= " "?
any ::= "\"" b | num | "true" | "false" | "null" | "{" w (("\"" b w ":" w any w) ("," w "\"" b w ":" w any w)*)? "}" | "[" w (any w ("," w any w)*)? "]"
)";
// A parser's work on it grows with the third power of the output.
constexpr const char* kCubic = "root ::= root root | \"a\"\n";

std::vector<uint32_t> MaskOf(const TestVocabulary& of, Matcher* matcher) {
  std::vector<uint32_t> mask(of.vocabulary->mask_words());
  const Status status = matcher->Mask(mask);
  EXPECT_TRUE(status.ok()) << status.message();
  return mask;
}

std::vector<TokenId> AllowedIn(const std::vector<uint32_t>& mask) {
  std::vector<TokenId> ids;
  for (size_t word = 0; word < mask.size(); ++word) {
    for (uint32_t rest = mask[word]; rest != 0; rest &= rest - 1) {
      ids.push_back(static_cast<TokenId>(word * 32 + static_cast<size_t>(__builtin_ctz(rest))));
    }
  }
  return ids;
}

// Tries every token of the vocabulary where the matcher stands.
void ExpectMaskEqualsAccept(const TestVocabulary& of, Matcher* matcher,
                            const std::vector<TokenId>& ids) {
  const std::vector<uint32_t> mask = MaskOf(of, matcher);
  int differ = 0;
  for (TokenId id = 0; id < of.vocabulary->size(); ++id) {
    const bool accepted = matcher->Copy().Accept(id).ok();
    if (accepted != IsAllowed(mask, id) && ++differ < 5) {
      ADD_FAILURE() << "token " << id << " '" << of.tokenizer->Bytes(id) << "' after '"
                    << of.Decode(ids) << "': accepted " << accepted << ", in the mask "
                    << IsAllowed(mask, id);
    }
  }
  EXPECT_EQ(differ, 0);
}

class GrammarTest : public testing::TestWithParam<const TestVocabulary* (*)()> {
 protected:
  void SetUp() override {
    vocabulary_ = GetParam()();
    if (vocabulary_ == nullptr)
      GTEST_SKIP() << "no vocabulary: ROPEWAY_TEST_MODEL or ROPEWAY_VOCAB_DIR is not set";
  }

  const TestVocabulary* vocabulary_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Vocabularies, GrammarTest,
                         testing::Values(&SmallVocabulary, &LargeVocabulary),
                         [](const auto& info) { return info.index == 0 ? "Small" : "Large"; });

// What does not depend on the size of the vocabulary.
class SmallGrammarTest : public GrammarTest {};
INSTANTIATE_TEST_SUITE_P(Vocabularies, SmallGrammarTest, testing::Values(&SmallVocabulary));

TEST_P(GrammarTest, AMaskHasTheTokensThatAreAccepted) {
  const auto grammar = MustCompile(*vocabulary_, kAnyJson);
  for (const char* text : {"", "[12.5, {\"J\xC3\xBC\": \"a\", \"b\": tr", "{\"a\": [1]}"}) {
    const std::vector<TokenId> ids = vocabulary_->Encode(text);
    Matcher matcher(grammar);
    for (const TokenId id : ids) ASSERT_TRUE(matcher.Accept(id).ok()) << text;
    ExpectMaskEqualsAccept(*vocabulary_, &matcher, ids);
  }
}

// A limited string may begin inside of a token.
TEST_P(GrammarTest, AMaskKnowsTheLimitsThatBeginInsideATokensText) {
  for (
      const char* schema :
      {R"({"type": "array", "items": {"type": "string", "maxLength": 1}})",
       R"({"type": "array", "items": {"type": "string", "maxLength": 3}})",
       R"({"properties": {"a": {"type": "string", "minLength": 1, "maxLength": 5}}, "required": ["a"]})"}) {
    const StatusOr<std::string> ebnf = SchemaToEbnf(nlohmann::ordered_json::parse(schema));
    ASSERT_TRUE(ebnf.ok());
    const auto grammar = MustCompile(*vocabulary_, *ebnf);
    const char* const text = *schema == '{' && schema[2] == 't' ? "[\"a\"," : "{\"a\":";
    const std::vector<TokenId> ids = vocabulary_->Encode(text);
    Matcher matcher(grammar);
    for (const TokenId id : ids) ASSERT_TRUE(matcher.Accept(id).ok()) << text;
    ExpectMaskEqualsAccept(*vocabulary_, &matcher, ids);
  }
}

// Masks near the end of a limited string are made by lengths of tokens (third_party/xgrammar).
TEST_P(GrammarTest, AMaskKnowsTheLimitThatIsNear) {
  const StatusOr<std::string> ebnf = SchemaToEbnf(nlohmann::ordered_json::parse(
      R"({"properties": {"a": {"type": "string", "maxLength": 6},
          "b": {"anyOf": [{"type": "string", "maxLength": 70}, {"enum": ["abcdef\"g", 1]},
                          {"type": "string", "minLength": 2, "maxLength": 4}]}},
          "required": ["a", "b"]})"));
  ASSERT_TRUE(ebnf.ok()) << ebnf.status().message();
  const auto grammar = MustCompile(*vocabulary_, *ebnf);
  std::vector<std::string> texts = {"{\"a\":\"abcd", "{\"a\":\"abcde\\"};
  if (vocabulary_ == SmallVocabulary()) {
    for (const char* a : {"", "abcdef", "abc\\", "abcd\\u00", "abcdef\",\"b\":", "\",\"b\":\"",
                          "\",\"b\":\"a", "\",\"b\":\"abc", "\",\"b\":\"abcdef\\", "abc\xC3",
                          "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82"}) {
      texts.push_back(std::string("{\"a\":\"") + a);
    }
    // Nearly as much is left as the longest tokens have.
    texts.push_back("{\"a\":\"\",\"b\":\"" + std::string(7, 'x'));
    texts.push_back("{\"a\":\"\",\"b\":\"" + std::string(50, 'x'));
  }
  for (const std::string& text : texts) {
    const std::vector<TokenId> ids = vocabulary_->Encode(text);
    Matcher matcher(grammar);
    for (const TokenId id : ids) ASSERT_TRUE(matcher.Accept(id).ok()) << text;
    ExpectMaskEqualsAccept(*vocabulary_, &matcher, ids);
  }
}

// A limited rule may also be a part of a string, and no mark need follow it.
TEST_P(SmallGrammarTest, AMaskKnowsLimitsOutsideOfStrings) {
  const auto grammar = MustCompile(
      *vocabulary_,
      "root ::= \"\\\"\" r1 \"/\" r1 \"x\" [a-z]* \"\\\"\"\nr1[max_chars=4] ::= [a-z]*\n");
  for (const char* text : {"\"", "\"ab", "\"abc", "\"abcd", "\"ab/", "\"ab/cde", "\"ab/cdefx"}) {
    const std::vector<TokenId> ids = vocabulary_->Encode(text);
    Matcher matcher(grammar);
    for (const TokenId id : ids) ASSERT_TRUE(matcher.Accept(id).ok()) << text;
    ExpectMaskEqualsAccept(*vocabulary_, &matcher, ids);
  }
}

// Escapes use up more of the limit than they count towards the minimum: the limit slips.
TEST_P(SmallGrammarTest, AMaskKnowsThatALimitMaySlip) {
  const StatusOr<std::string> ebnf = SchemaToEbnf(nlohmann::ordered_json::parse(
      R"({"type": "array", "items": {"type": "string", "minLength": 4, "maxLength": 4}})"));
  ASSERT_TRUE(ebnf.ok());
  const auto grammar = MustCompile(*vocabulary_, *ebnf);
  for (const char* text : {"[\"a\\n", "[\"a\\nb", "[\"\\n\\n", "[\"a\\nbc", "[\"abc", "[\"abcd"}) {
    const std::vector<TokenId> ids = vocabulary_->Encode(text);
    Matcher matcher(grammar);
    for (const TokenId id : ids) ASSERT_TRUE(matcher.Accept(id).ok()) << text;
    ExpectMaskEqualsAccept(*vocabulary_, &matcher, ids);
  }
}

// A kept mask takes the same work as a new one: where a matcher is made by the same ids, it ends at
// the same token.
TEST_P(SmallGrammarTest, AKeptMaskTakesItsWork) {
  const StatusOr<std::string> ebnf = SchemaToEbnf(nlohmann::ordered_json::parse(
      R"({"type": "array", "items": {"type": "string", "maxLength": 20}})"));
  ASSERT_TRUE(ebnf.ok());
  const auto grammar = MustCompile(*vocabulary_, *ebnf);
  const std::vector<TokenId> ids = vocabulary_->Encode("[\"a b c d e f g h");
  std::vector<uint32_t> mask(vocabulary_->vocabulary->mask_words());
  for (const int64_t work : {20, 100, 300, 600, 1000, 2000, 5000}) {
    Matcher stepped(grammar);
    Matcher replayed(grammar);
    bool made = true;
    for (const TokenId id : ids) {
      ASSERT_TRUE(stepped.Accept(id).ok());
      ASSERT_TRUE(replayed.Accept(id).ok());
      const bool last = id == ids.back();
      if (made) made = stepped.Mask(mask, last ? work : kStepWork).ok();
    }
    EXPECT_EQ(made, replayed.Mask(mask, work).ok()) << work;
  }
}

// As much work as far from the limit, and not that of all tokens that are too long.
TEST_P(GrammarTest, AMaskNearALimitTakesLittleWork) {
  const StatusOr<std::string> ebnf = SchemaToEbnf(nlohmann::ordered_json::parse(
      R"({"type": "array", "items": {"type": "string", "maxLength": 5}})"));
  ASSERT_TRUE(ebnf.ok());
  Matcher matcher(MustCompile(*vocabulary_, *ebnf));
  std::vector<uint32_t> mask(vocabulary_->vocabulary->mask_words());
  for (const TokenId id : vocabulary_->Encode("[\"abc")) ASSERT_TRUE(matcher.Accept(id).ok());
  EXPECT_TRUE(matcher.Mask(mask, kStepWork / 20).ok());
}

TEST_P(GrammarTest, ReplayEqualsStepping) {
  const auto limited = SchemaToEbnf(nlohmann::ordered_json::parse(
      R"({"type": "array", "items": {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string"}]}, "minItems": 20})"));
  ASSERT_TRUE(limited.ok());
  const auto near = SchemaToEbnf(nlohmann::ordered_json::parse(
      R"({"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 20})"));
  ASSERT_TRUE(near.ok());
  base::SeededRandom random(7);
  for (const std::string& ebnf : {std::string(kAnyJson), *limited, *near}) {
    const auto grammar = MustCompile(*vocabulary_, ebnf);
    Matcher stepped(grammar);
    std::vector<TokenId> ids;
    for (int i = 0; i < 60; ++i) {
      const std::vector<uint32_t> mask = MaskOf(*vocabulary_, &stepped);
      Matcher replayed(grammar);  // Asked for no mask on its way.
      for (const TokenId id : ids) ASSERT_TRUE(replayed.Accept(id).ok());
      ASSERT_EQ(MaskOf(*vocabulary_, &replayed), mask) << vocabulary_->Decode(ids);
      // Quotation marks and brackets, in turn with anything, so that the text gets on.
      std::vector<TokenId> allowed = AllowedIn(mask);
      ASSERT_FALSE(allowed.empty());
      if (i % 2 == 0) {
        std::vector<TokenId> marks;
        for (const TokenId id : allowed) {
          if (vocabulary_->tokenizer->Bytes(id).find('"') != std::string_view::npos)
            marks.push_back(id);
        }
        if (!marks.empty()) allowed = marks;
      }
      const TokenId next = allowed[random.Below(allowed.size())];
      ASSERT_TRUE(stepped.Accept(next).ok());
      if (stepped.ended()) break;
      ids.push_back(next);
    }
    EXPECT_GT(ids.size(), 0U);
  }
}

TEST_P(SmallGrammarTest, OnlyACompleteOutputMayEnd) {
  const auto grammar = MustCompile(*vocabulary_, "root ::= \"ab\" \"c\"*\n");
  Matcher matcher(grammar);
  const auto ends = [&] {
    std::vector<TokenId> found;
    for (const TokenId id : AllowedIn(MaskOf(*vocabulary_, &matcher))) {
      if (vocabulary_->tokenizer->IsEnd(id)) found.push_back(id);
    }
    return found;
  };
  EXPECT_THAT(ends(), testing::IsEmpty());
  EXPECT_FALSE(matcher.complete());
  for (const TokenId id : vocabulary_->Encode("ab")) ASSERT_TRUE(matcher.Accept(id).ok());
  EXPECT_TRUE(matcher.complete());
  const std::vector<TokenId> found = ends();
  ASSERT_FALSE(found.empty());
  EXPECT_FALSE(matcher.ended());
  ASSERT_TRUE(matcher.Accept(found.front()).ok());
  EXPECT_TRUE(matcher.ended());
}

// A control token stands for no text, also where any text is allowed.
TEST_P(SmallGrammarTest, ControlTokensAreNeverAllowed) {
  const auto grammar = MustCompile(*vocabulary_, "root ::= [^a]*\n");
  Matcher matcher(grammar);
  int control = 0;
  for (const TokenId id : AllowedIn(MaskOf(*vocabulary_, &matcher))) {
    control += vocabulary_->tokenizer->IsSpecial(id) && !vocabulary_->tokenizer->IsEnd(id);
  }
  EXPECT_EQ(control, 0);
}

TEST_P(SmallGrammarTest, ATokenThatIsNotAllowedEndsTheMatcher) {
  const auto grammar = MustCompile(*vocabulary_, "root ::= \"ab\"\n");
  Matcher matcher(grammar);
  EXPECT_THAT(matcher.Accept(vocabulary_->Encode("x").back()).message(),
              HasSubstr("does not allow token"));
  std::vector<uint32_t> mask(vocabulary_->vocabulary->mask_words());
  EXPECT_THAT(matcher.Mask(mask).message(), HasSubstr("does not allow token"));
  for (const TokenId id : {-1, vocabulary_->vocabulary->size()}) {
    Matcher other(grammar);
    EXPECT_EQ(other.Accept(id).code(), StatusCode::kInvalidArgument);
  }
}

TEST_P(GrammarTest, HostileGrammarsEndAtTheSameToken) {
  const auto grammar = MustCompile(*vocabulary_, kCubic);
  const TokenId a = vocabulary_->Encode("aa").size() == 1 ? vocabulary_->Encode("aa")[0]
                                                          : vocabulary_->Encode("a")[0];
  std::vector<int> lengths;
  for (int round = 0; round < 2; ++round) {
    Matcher matcher(grammar);
    std::vector<uint32_t> mask(vocabulary_->vocabulary->mask_words());
    Status status;
    int length = 0;
    for (; status.ok() && length < 5000; ++length) {
      status = matcher.Mask(mask);
      if (status.ok()) status = matcher.Accept(a);
    }
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("too much work"));
    EXPECT_THAT(matcher.Mask(mask).message(), HasSubstr("too much work"));
    lengths.push_back(length);
  }
  EXPECT_LT(lengths[0], 1000);
  EXPECT_EQ(lengths[0], lengths[1]);
}

TEST_P(SmallGrammarTest, CompilingEndsByItsWork) {
  StatusOr<std::shared_ptr<const Grammar>> grammar =
      Grammar::Compile(vocabulary_->vocabulary, kAnyJson, 1000);
  ASSERT_FALSE(grammar.ok());
  EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(grammar.status().message(),
            "the grammar is too complex: it takes too much work; fewer optional properties and "
            "choices, and smaller limits, take less");
  const auto first = MustCompile(*vocabulary_, kAnyJson);
  EXPECT_GT(first->work(), 1000);
  EXPECT_EQ(first->work(), MustCompile(*vocabulary_, kAnyJson)->work());
  EXPECT_TRUE(Grammar::Compile(vocabulary_->vocabulary, kAnyJson, first->work()).ok());
  EXPECT_FALSE(Grammar::Compile(vocabulary_->vocabulary, kAnyJson, first->work() - 1).ok());
}

TEST_P(SmallGrammarTest, TextsThatAreNoGrammarAreRejected) {
  for (const char* text : {"", "root = 1", "root ::= other\n", "root ::= \"a", "other ::= \"a\"\n",
                           "root ::= (\"a\"\n"}) {
    const auto grammar = Grammar::Compile(vocabulary_->vocabulary, text);
    EXPECT_FALSE(grammar.ok()) << text;
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST_P(SmallGrammarTest, ItsMemoryIsKnown) {
  const auto grammar = MustCompile(*vocabulary_, kAnyJson);
  EXPECT_GT(grammar->bytes(), 10'000U);
  EXPECT_LT(grammar->bytes(), 10'000'000U);
  Matcher matcher(grammar);
  for (const TokenId id : vocabulary_->Encode("[1, 2, 3")) ASSERT_TRUE(matcher.Accept(id).ok());
  const size_t before = matcher.bytes();
  EXPECT_GT(before, 3 * Matcher::kBytesPerToken);
  EXPECT_EQ(matcher.Copy().bytes(), before);
  EXPECT_GT(vocabulary_->vocabulary->bytes(),
            static_cast<size_t>(vocabulary_->vocabulary->size()) * 64);
}

}  // namespace

}  // namespace ropeway::grammar
