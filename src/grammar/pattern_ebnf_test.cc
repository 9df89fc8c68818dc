#include "grammar/pattern_ebnf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "base/random.h"
#include "grammar/schema_ebnf.h"
#include "grammar/test_vocabularies.h"

namespace ropeway::grammar {

namespace {

using testing::HasSubstr;

StatusOr<std::string> ConvertPattern(const std::string& pattern) {
  return SchemaToEbnf({{"type", "string"}, {"pattern", pattern}});
}

class PatternEbnfTest : public testing::Test {
 protected:
  void SetUp() override {
    vocabulary_ = SmallVocabulary();
    if (vocabulary_ == nullptr) GTEST_SKIP() << "no vocabulary: ROPEWAY_TEST_MODEL is not set";
  }

  // The grammar of the keyword, or of texts as they are.
  void Use(const std::string& pattern, bool in_json = true) {
    const StatusOr<std::string> ebnf = in_json ? ConvertPattern(pattern) : PatternEbnf(pattern);
    ASSERT_TRUE(ebnf.ok()) << pattern << ": " << ebnf.status().message();
    grammar_ = MustCompile(*vocabulary_, *ebnf);
    ASSERT_NE(grammar_, nullptr);
  }
  bool IsAccepted(const std::string& text) {
    return Judge(*vocabulary_, grammar_, text) == "accepted";
  }
  // The texts are those of the JSON strings.
  void ExpectOnly(const std::string& pattern, const std::vector<std::string>& accepted,
                  const std::vector<std::string>& rejected) {
    Use(pattern);
    for (const std::string& text : accepted)
      EXPECT_TRUE(IsAccepted(nlohmann::json(text).dump())) << pattern << " " << text;
    for (const std::string& text : rejected)
      EXPECT_FALSE(IsAccepted(nlohmann::json(text).dump())) << pattern << " " << text;
  }

  const TestVocabulary* vocabulary_ = nullptr;
  std::shared_ptr<const Grammar> grammar_;
};

// Random expressions over few characters, for the standard library to judge.
class RandomRegex {
 public:
  explicit RandomRegex(base::Random* random) : random_(random) {}

  std::string Choice(int depth) {
    std::string text = Sequence(depth);
    while (random_->Below(4) == 0) text += "|" + Sequence(depth);
    return text;
  }

 private:
  std::string Sequence(int depth) {
    std::string text;
    for (uint64_t i = random_->Below(4); i-- > 0;) text += Atom(depth) + Quantifier();
    return text;
  }
  std::string Atom(int depth) {
    constexpr const char* kAtoms[] = {"a", "b", "\"", "\\\\", ".", "[ab]", "[^a]", "\\d", "\\w"};
    if (depth > 0 && random_->Below(3) == 0) return "(?:" + Choice(depth - 1) + ")";
    return kAtoms[random_->Below(std::size(kAtoms))];
  }
  std::string Quantifier() {
    constexpr const char* kQuantifiers[] = {"",  "",    "",     "*",     "+",
                                            "?", "{2}", "{1,}", "{0,2}", "*?"};
    return kQuantifiers[random_->Below(std::size(kQuantifiers))];
  }

  base::Random* const random_;
};

TEST_F(PatternEbnfTest, MatchesWhatTheStandardLibraryMatches) {
  base::SeededRandom random(7);
  RandomRegex regexes(&random);
  int matched = 0;
  int dear = 0;
  for (int round = 0; round < 60; ++round) {
    const bool from_start = random.Below(2) == 0;
    const bool to_end = random.Below(2) == 0;
    const std::string body = regexes.Choice(2);
    const std::string pattern = (from_start ? "^(?:" : "(?:") + body + (to_end ? ")$" : ")");
    const std::regex judge(pattern);
    const std::regex whole(body);
    std::vector<std::string> texts = {""};
    for (int i = 0; i < 12; ++i) {
      std::string text;
      for (uint64_t j = random.Below(7) + 1; j-- > 0;) text += "aab1\"\\ "[random.Below(7)];
      texts.push_back(text);
    }
    const StatusOr<std::string> keyword = ConvertPattern(pattern);
    ASSERT_TRUE(keyword.ok()) << pattern << ": " << keyword.status().message();
    // A few of them take too much work.
    const auto compiled = Grammar::Compile(vocabulary_->vocabulary, *keyword);
    if (!compiled.ok()) {
      EXPECT_THAT(compiled.status().message(), HasSubstr("too much work")) << *keyword;
      ++dear;
      continue;
    }
    grammar_ = *compiled;
    for (const std::string& text : texts) {
      const bool matches = std::regex_search(text, judge);
      matched += matches ? 1 : 0;
      EXPECT_EQ(IsAccepted(nlohmann::json(text).dump()), matches) << pattern << " " << text;
    }
    const StatusOr<std::string> text_ebnf = PatternEbnf(body);
    if (!text_ebnf.ok()) continue;
    const auto texts_grammar = Grammar::Compile(vocabulary_->vocabulary, *text_ebnf);
    if (!texts_grammar.ok()) {
      EXPECT_THAT(texts_grammar.status().message(), HasSubstr("too much work")) << *text_ebnf;
      ++dear;
      continue;
    }
    grammar_ = *texts_grammar;
    for (const std::string& text : texts)
      EXPECT_EQ(IsAccepted(text), std::regex_match(text, whole)) << body << " " << text;
  }
  EXPECT_GE(matched, 200);
  EXPECT_LE(dear, 5);
}

TEST_F(PatternEbnfTest, AnchorsAreOnlyWhereTheyAreWritten) {
  ExpectOnly("ab", {"ab", "xab", "abx", "x\nab\"\\"}, {"a", "a b", ""});
  ExpectOnly("^ab", {"ab", "abx"}, {"xab"});
  ExpectOnly("ab$", {"ab", "xab"}, {"abx", "ab\n"});
  ExpectOnly("^a|b$", {"a", "ax", "b", "xb", "ab"}, {"x", "xa", "bx", "b\n"});
  ExpectOnly("^(?:a|b)$", {"a", "b"}, {"ab", ""});
  ExpectOnly("", {"", "x"}, {});
  ExpectOnly("^$", {""}, {"x"});
  ExpectOnly("^(a||b)$", {"", "a", "b"}, {"ab"});
}

TEST_F(PatternEbnfTest, CharactersAreThoseOfBothReadings) {
  ExpectOnly("^\\d+$", {"0", "42"}, {"", "a", "\u0664"});
  ExpectOnly("^\\D$", {"a", "\n", "\""}, {"1", "\u0664"});
  ExpectOnly("^\\w$", {"_", "a", "Z", "0"}, {"-", "\u00e9"});
  ExpectOnly("^\\W$", {"-", " ", "\t", "\\"}, {"_", "a", "\u00e9"});
  ExpectOnly("^\\s$", {" ", "\t", "\n", "\f"}, {"a", "\u00a0", "\x1c"});
  ExpectOnly("^\\S$", {"a", "\u00e9", "\U0001f600", "\""}, {" ", "\n", "\u00a0", "\u3000"});
  ExpectOnly("^[^\\W]$", {"a"}, {"-", "\u00e9"});
  ExpectOnly("^[^\\w]$", {"-"}, {"a", "\u00e9"});
  ExpectOnly("^.$", {"a", "\t", "\"", "\\", "\x01", "\u00e9", "\U0001f600"},
             {"", "\n", "\r", "\u2028", "ab"});
  ExpectOnly("^[a-c\\]^-]$", {"a", "c", "]", "^", "-"}, {"d", "b-"});
  ExpectOnly("^[^a\\n]$", {"b", "\r", "\"", "\x1f"}, {"a", "\n"});
  ExpectOnly("^\\u00e9\\x41\\t\\.\\/$",
             {"\u00e9"
              "A\t./"},
             {"\u00e9"
              "A\tx/"});
  ExpectOnly("^[\\u4e00-\\u9fff]{2}$", {"\u4e2d\u6587"}, {"\u4e2d", "ab"});
  ExpectOnly("^}]$", {"}]"}, {"}"});
  // Each character has one spelling.
  Use("^\"\n\x01\xc3\xa9$");
  EXPECT_TRUE(IsAccepted(R"("\"\n\u0001é")"));
  for (const char* text : {R"("\u0022\n\u0001é")", R"("\"\u000a\u0001é")", R"("\"\n\u0001\u00e9")"})
    EXPECT_FALSE(IsAccepted(text)) << text;
  // What JSON does not allow.
  Use("^[^a]*$");
  for (const char* text : {"\"b\nb\"", R"("b\x")", R"("\ud83d")"}) EXPECT_FALSE(IsAccepted(text));
}

TEST_F(PatternEbnfTest, CountsAreExact) {
  for (const char* pattern :
       {"^[ab]{0,70}b$", "^[ab]{3,20}$", "^x[ab]{2,90}(?:b|c)$", "^([ab]{1,70},){2}$", "^.{3,14}$",
        "^(?:ab){2,30}$", "^[^,]{0,12}b$"}) {
    const std::regex judge(pattern);
    Use(pattern);
    int matches = 0;
    for (int length = 0; length < 100; ++length) {
      for (const char* form : {"{}", "x{}b", "x{}c", "{},{},", "{}b"}) {
        std::string run;
        for (int i = 0; i < length; ++i) run += "ab"[i % 2];
        const std::string text = fmt::format(fmt::runtime(form), run, run);
        matches += std::regex_search(text, judge) ? 1 : 0;
        EXPECT_EQ(IsAccepted(nlohmann::json(text).dump()), std::regex_search(text, judge))
            << pattern << " " << text;
      }
    }
    EXPECT_GE(matches, 10) << pattern;
  }
}

TEST_F(PatternEbnfTest, WhatIsNotReadAlikeIsRejectedWithItsPlace) {
  const std::map<std::string, std::string> rejections = {
      {"a(?=b)", "at character 1, a lookahead"},
      {"(?!b)", "at character 0, a lookahead"},
      {"(?<=b)", "at character 0, a lookbehind"},
      {"(?P<n>b)", "at character 0, a named group"},
      {"(?i)b", "at character 0, a group with flags or of an unknown kind"},
      {"(a)\\1", "at character 3, a backreference"},
      {"é\\b", "at character 1, a word boundary"},
      {"\\p{L}", "at character 0, a class of Unicode properties"},
      {"\\q", "at character 0, an escape of an unknown kind"},
      {"\\ud83d", "at character 0, a surrogate"},
      {"\\x4", "at character 0, an escape without its 2 hexadecimal digits"},
      {"a^b", "at character 1, an anchor that is not at an end"},
      {"(^a)", "at character 1, an anchor that is not at an end"},
      {"a$b", "at character 2, an anchor that is not at an end"},
      {"(a", "at character 0, a '(' without its ')'"},
      {"a)", "at character 1, a ')' without its '('"},
      {"[a", "at character 0, a '[' without its ']'"},
      {"[]a]", "at character 0, a class that is empty or begins with ']'"},
      {"[b-a]", "at character 1, a range in the wrong order"},
      {"[\\w-z]", "at character 1, a range that ends in a class"},
      {"[^\\w\\W]", "at character 0, a class that no character matches"},
      {"*a", "at character 0, a quantifier with nothing before it"},
      {"a++", "at character 2, a quantifier behind another one"},
      {"a{2}{3}", "at character 4, a quantifier behind another one"},
      {"a{,3}", "at character 1, a '{' without counts"},
      {"{a}", "at character 0, a '{' without counts"},
      {"a{3,2}", "at character 1, counts in the wrong order"},
      {"(a|b){101}", "at character 5, a quantifier with a count above 100, for a group"},
      {"a{257}", "at character 1, a quantifier with a count above 256"},
      {"a\\", "at character 1, a '\\' with nothing behind it"},
      {std::string(17, '(') + std::string(17, ')'), "groups nested deeper than 16"},
      {std::string(1025, 'a'), "more than 1024 characters"},
      {"((a|b{0,100}){0,100}c){0,100}", "too large once its counts are written out"},
  };
  for (const auto& [pattern, message] : rejections) {
    const StatusOr<std::string> keyword = ConvertPattern(pattern);
    ASSERT_FALSE(keyword.ok()) << pattern;
    EXPECT_THAT(keyword.status().message(),
                testing::AllOf(testing::StartsWith("at '#': the keyword 'pattern': the regular "),
                               HasSubstr(message)));
    EXPECT_THAT(PatternEbnf(pattern).status().message(), HasSubstr(message));
  }
  EXPECT_THAT(PatternEbnf("(|)").status().message(), HasSubstr("the empty text alone"));
  EXPECT_THAT(PatternEbnf(std::string(1, '\0')).status().message(), HasSubstr("a NUL character"));
}

TEST_F(PatternEbnfTest, LengthsBesideAPatternMustFollowFromIt) {
  const auto message = [](const char* schema) {
    const StatusOr<std::string> ebnf = SchemaToEbnf(nlohmann::ordered_json::parse(schema));
    return ebnf.ok() ? "" : ebnf.status().message();
  };
  EXPECT_EQ(message(R"({"pattern": "^[a-z]{2,9}(ab)?$", "minLength": 2, "maxLength": 11})"), "");
  EXPECT_EQ(message(R"({"pattern": "a+b", "minLength": 2})"), "");
  EXPECT_THAT(message(R"({"pattern": "a+b", "minLength": 3})"), HasSubstr("'minLength'"));
  EXPECT_THAT(message(R"({"pattern": "^[a-z]{2,9}$", "maxLength": 8})"), HasSubstr("'maxLength'"));
  EXPECT_THAT(message(R"({"pattern": "^[a-z]{2,9}", "maxLength": 9})"), HasSubstr("'maxLength'"));
  EXPECT_THAT(message(R"({"pattern": "^a*$", "maxLength": 9})"), HasSubstr("'maxLength'"));
  EXPECT_THAT(message(R"({"pattern": 5})"), HasSubstr("the keyword 'pattern' must be a text"));
}

TEST_F(PatternEbnfTest, UsualPatternsAreCheap) {
  for (const char* pattern :
       {"^[a-z0-9_-]+$", "^[A-Z]{2,3}-\\d{1,6}$", "^[a-z]{3,20}$", "^.*$", "foo.*bar",
        "^\\S+@\\S+\\.\\S+$", "^#[0-9a-fA-F]{6}$", "^.{1,100}$", "^[^,]{1,256}$",
        "^(\\([0-9]{3}\\))?[0-9]{3}-[0-9]{4}$", "^(\\w+,)*\\w+$"}) {
    Use(pattern);
    EXPECT_LT(grammar_->work(), 2'000'000) << pattern;
    if (!PatternEbnf(pattern).ok()) continue;
    Use(pattern, false);
    EXPECT_LT(grammar_->work(), 2'000'000) << pattern;
  }
}

}  // namespace

}  // namespace ropeway::grammar
