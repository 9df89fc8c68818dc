#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/test_tokenizer.h"
#include "tokenizer/test_vocabulary.h"
#include "tokenizer/text_model.h"

namespace ropeway::tokenizer {
namespace {

const std::vector<std::string> kWpPieces = {"▁un", "able",    "aff",     "s",     "▁a",
                                            "▁e",  "▁\u00E9", "▁\u0130", "▁!",    "▁?",
                                            "▁$",  "▁日",     "▁\u1112", "\u1161"};

std::string WpTokens(const Tokenizer& tokenizer, std::string_view text, bool add_special = false) {
  std::string tokens;
  for (const TokenId id : tokenizer.Encode(text, {.add_special = add_special})) {
    tokens += "|";
    tokens += tokenizer.Bytes(id, /*with_special=*/true);
  }
  return tokens;
}

TEST(WordPieceTest, TakesTheLongestBeginning) {
  const auto tokenizer = MustMakeTokenizer(MakeWordPieceVocabulary(kWpPieces));
  EXPECT_EQ(WpTokens(*tokenizer, "unaffable"), "| un|aff|able");
  EXPECT_EQ(WpTokens(*tokenizer, "un able"), "| un|[UNK]");
  EXPECT_EQ(WpTokens(*tokenizer, "unx a"), "|[UNK]| a");
  EXPECT_EQ(WpTokens(*tokenizer, " \n\t"), "");
  EXPECT_EQ(WpTokens(*tokenizer, "as", true), "|[CLS]| a|s|[SEP]");
}

TEST(WordPieceTest, PunctuationAndIdeographsAreWords) {
  const auto tokenizer = MustMakeTokenizer(MakeWordPieceVocabulary(kWpPieces));
  EXPECT_EQ(WpTokens(*tokenizer, "a!?a$"), "| a| !| ?| a| $");
  EXPECT_EQ(WpTokens(*tokenizer, "a日日a"), "| a| 日| 日| a");
  // The Greek question mark is a semicolon.
  EXPECT_EQ(WpTokens(*tokenizer, "a\u037Ea"), "| a|[UNK]| a");
}

TEST(WordPieceTest, ControlCharactersAreDroppedAndSpacesEndWords) {
  const auto tokenizer = MustMakeTokenizer(MakeWordPieceVocabulary(kWpPieces));
  EXPECT_EQ(WpTokens(*tokenizer, std::string_view("u\0n\x07\u200B\uFFFD\xFF", 11)), "| un");
  EXPECT_EQ(WpTokens(*tokenizer, "a\u00A0a\u3000a\u2028a\ra"), "| a| a| a| a| a");
}

// As in Unicode 8, so that the ids are those of `tokenizers`.
TEST(WordPieceTest, CharactersThatUnicode8LacksStay) {
  const auto tokenizer = MustMakeTokenizer(MakeWordPieceVocabulary(kWpPieces));
  EXPECT_EQ(WpTokens(*tokenizer, "a \u0378"), "| a|[UNK]") << "not assigned";
  EXPECT_EQ(WpTokens(*tokenizer, "a\U0001CF00"), "|[UNK]") << "a younger mark";
  EXPECT_EQ(WpTokens(*tokenizer, "a\u2E52a"), "|[UNK]") << "younger punctuation";
  EXPECT_EQ(WpTokens(*tokenizer, "a\u166Da"), "| a|[UNK]| a") << "punctuation at that time";
}

TEST(WordPieceTest, CaseAndAccentsAreDroppedAsTheVocabularySays) {
  Vocabulary vocabulary = MakeWordPieceVocabulary(kWpPieces);
  EXPECT_EQ(WpTokens(*MustMakeTokenizer(vocabulary), "UN \u00C9 e\u0301"), "| un| e| e");
  // Hangul is decomposed too.
  EXPECT_EQ(WpTokens(*MustMakeTokenizer(vocabulary), "\uD558"), "| \u1112|\u1161");
  vocabulary.strip_accents = false;
  EXPECT_EQ(WpTokens(*MustMakeTokenizer(vocabulary), "UN \u00C9"), "| un| \u00E9");
  vocabulary.lowercase = false;
  EXPECT_EQ(WpTokens(*MustMakeTokenizer(vocabulary), "UN un \u00E9 \u0130"),
            "|[UNK]| un| \u00E9| \u0130");
}

TEST(WordPieceTest, AWordOfMoreThanAHundredCharactersIsUnknown) {
  const auto tokenizer = MustMakeTokenizer(MakeWordPieceVocabulary(kWpPieces));
  std::string expected = "| a";
  for (int i = 0; i < 99; ++i) expected += "|s";
  EXPECT_EQ(WpTokens(*tokenizer, "a" + std::string(99, 's')), expected);
  EXPECT_EQ(WpTokens(*tokenizer, "a" + std::string(100, 's')), "|[UNK]");
  EXPECT_EQ(WpTokens(*tokenizer, "a" + std::string(1'000'000, 's') + " a"), "|[UNK]| a");
}

TEST(WordPieceTest, PiecesGiveTheIdsOfTheWhole) {
  const auto tokenizer = MustMakeTokenizer(MakeWordPieceVocabulary(kWpPieces));
  std::mt19937 random(41);
  const std::vector<std::string> parts = {"un",     "aff",   "able", "a",      " ", "!", "日",
                                          "\u00C9", "[SEP]", "\xFF", "\u0301", "s", "▁"};
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t i = random() % 40; i > 0; --i) text += parts[random() % parts.size()];
    const std::vector<TokenId> whole = tokenizer->Encode(text, {});
    const std::unique_ptr<Encoding> encoding = tokenizer->Begin(text, {});
    while (!encoding->Run(1 + random() % 20)) {
    }
    ASSERT_EQ(encoding->ids(), whole) << base::PrintableText(text);
  }
}

}  // namespace
}  // namespace ropeway::tokenizer
