#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_char_map.h"
#include "tokenizer/test_tokenizer.h"
#include "tokenizer/test_vocabulary.h"
#include "tokenizer/text_model.h"

namespace ropeway::tokenizer {
namespace {

using UniIds = std::vector<TokenId>;

constexpr EncodeOptions kUniPlain = {.add_special = false};
constexpr TokenId kUniFirst = kByteTokens + 256;

// "a" to "d" score 0, longer ones more.
Vocabulary UniVocabulary() {
  Vocabulary vocabulary = MakeSentencePieceVocabulary(
      "t5", {"▁", "a", "b", "c", "d", "cd", "ab", "abc", "abcd", "▁a"}, false);
  const std::vector<float> scores = {0, 0, 0, 0, 0, 1, 2, 5, 10, 0.5};
  std::copy(scores.begin(), scores.end(), vocabulary.scores.begin() + kUniFirst);
  return vocabulary;
}

std::string UniDecoded(const Tokenizer& tokenizer, const UniIds& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.Bytes(id, /*with_special=*/true);
  return bytes;
}

std::string UniPieces(const Tokenizer& tokenizer, std::string_view text) {
  std::string pieces;
  for (const TokenId id : tokenizer.Encode(text, kUniPlain)) {
    pieces += "|";
    pieces += tokenizer.Bytes(id, /*with_special=*/true);
  }
  return pieces;
}

TEST(UnigramTest, TakesTheBestDivision) {
  const auto tokenizer = MustMakeTokenizer(UniVocabulary());
  EXPECT_EQ(UniPieces(*tokenizer, "abcdacdxx"), "|abcd|a|cd|<unk>");
  EXPECT_EQ(UniPieces(*tokenizer, "ab a xaay"), "|ab| a| |<unk>|a|a|<unk>");
  EXPECT_EQ(UniPieces(*tokenizer, ""), "");
}

TEST(UnigramTest, SpacesAreAsTheVocabularySays) {
  Vocabulary vocabulary = UniVocabulary();
  const auto pieces = [&](std::string_view text) {
    return UniPieces(*MustMakeTokenizer(vocabulary), text);
  };
  EXPECT_EQ(pieces(" a  b "), "| a| | |b| ");
  vocabulary.space_prefix = SpacePrefix::kEach;
  EXPECT_EQ(pieces("a"), "| a");
  EXPECT_EQ(pieces(" a"), "| | a");
  vocabulary.remove_extra_spaces = true;
  EXPECT_EQ(pieces("  a   b  "), "| a| |b");
  EXPECT_EQ(pieces("   "), "");
  EXPECT_EQ(pieces("a<s>  a"), "| a|<s>| a");
  vocabulary.space_prefix = SpacePrefix::kNone;
  EXPECT_EQ(pieces("  a   b  "), "|a| |b");
}

TEST(UnigramTest, TheTextIsNormalizedFirst) {
  Vocabulary vocabulary = UniVocabulary();
  vocabulary.char_map = WriteCharMap({{"Ａ", "a"}, {"\t", " "}, {"㎈", "cab d"}, {"\x01", ""}});
  vocabulary.remove_extra_spaces = true;
  const auto tokenizer = MustMakeTokenizer(vocabulary);
  EXPECT_EQ(UniPieces(*tokenizer, "Ａ\t \tＡ"), "|a| a");
  EXPECT_EQ(UniPieces(*tokenizer, "㎈"), "|c|ab| |d");
  EXPECT_EQ(UniPieces(*tokenizer, "\x01"), "");
  EXPECT_EQ(UniPieces(*tokenizer, "a\xFF"), "|a|<unk>");
}

TEST(UnigramTest, UnknownCharactersBecomeTheirBytes) {
  Vocabulary vocabulary = MakeSentencePieceVocabulary("t5", {"▁", "a"});
  const auto tokenizer = MustMakeTokenizer(vocabulary);
  EXPECT_EQ(tokenizer->Encode("aé", kUniPlain),
            (UniIds{kUniFirst + 1, kByteTokens + 0xC3, kByteTokens + 0xA9}));
  EXPECT_EQ(UniDecoded(*tokenizer, tokenizer->Encode("aé日 x", kUniPlain)), "aé日 x");
}

// The best sum of scores of all divisions.
double BestSum(const std::map<std::string, double>& pieces, double unknown, std::string_view word) {
  std::vector<double> best(word.size() + 1, -1e30);
  best[0] = 0;
  for (size_t begin = 0; begin < word.size(); ++begin) {
    if (best[begin] < -1e29) continue;
    for (size_t length = 1; begin + length <= word.size(); ++length) {
      const auto found = pieces.find(std::string(word.substr(begin, length)));
      double score = -1e30;
      if (found != pieces.end()) {
        score = found->second;
      } else if (length == CharacterLength(word, begin)) {
        score = unknown;
      }
      best[begin + length] = std::max(best[begin + length], best[begin] + score);
    }
  }
  return best[word.size()];
}

TEST(UnigramTest, NoDivisionIsBetter) {
  std::mt19937 random(31);
  const std::vector<std::string> letters = {"a", "b", "é", "▁", "x", "日"};
  for (int round = 0; round < 100; ++round) {
    std::vector<std::string> pieces = {"a", "b", "é", "▁"};
    for (size_t i = random() % 20; i > 0; --i) {
      const std::string piece = pieces[random() % pieces.size()] + pieces[random() % pieces.size()];
      if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
    }
    // Bytes keep what is unknown apart.
    Vocabulary vocabulary = MakeSentencePieceVocabulary("t5", pieces);
    std::map<std::string, double> scores;
    double worst = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const float score = -static_cast<float>(random() % 1000) / 16;
      vocabulary.scores[kUniFirst + i] = score;
      scores[pieces[i]] = score;
      worst = std::min(worst, double{score});
    }
    const auto tokenizer = MustMakeTokenizer(vocabulary);
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (size_t k = random() % 20; k > 0; --k) text += letters[random() % letters.size()];
      double sum = 0;
      size_t unknown_bytes = 0;
      for (const TokenId id : tokenizer->Encode(text, kUniPlain)) {
        if (id >= kUniFirst) {
          sum += vocabulary.scores[static_cast<size_t>(id)];
        } else {
          // An unknown character costs as much as its first byte.
          const auto byte = static_cast<unsigned>(id - kByteTokens);
          sum += (byte & 0xC0U) == 0x80U ? 0 : worst - 10;
          ++unknown_bytes;
        }
      }
      ASSERT_NEAR(sum, BestSum(scores, worst - 10, text), 1e-6) << text << " " << unknown_bytes;
    }
  }
}

TEST(UnigramTest, PiecesGiveTheIdsOfTheWhole) {
  std::mt19937 random(32);
  Vocabulary vocabulary = UniVocabulary();
  vocabulary.space_prefix = SpacePrefix::kEach;
  vocabulary.remove_extra_spaces = true;
  vocabulary.char_map = WriteCharMap({{"\n", " "}, {"ﬁ", "ab"}});
  const auto tokenizer = MustMakeTokenizer(vocabulary);
  const std::vector<std::string> parts = {"a",  "b", "c", "d", "abcd", " ",    "  ",
                                          "\n", "ﬁ", "é", "▁", "<s>",  "\xFF", "x"};
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t i = random() % 60; i > 0; --i) text += parts[random() % parts.size()];
    if (random() % 5 == 0) text += std::string(2000, 'a');
    const UniIds whole = tokenizer->Encode(text, {});
    const std::unique_ptr<Encoding> encoding = tokenizer->Begin(text, {}, whole.size());
    while (!encoding->Run(1 + random() % 50)) {
    }
    ASSERT_EQ(encoding->ids(), whole) << base::PrintableText(text);
  }
}

TEST(UnigramTest, ALongWordTakesLinearTimeAndItsMemoryIsTold) {
  const auto tokenizer = MustMakeTokenizer(UniVocabulary());
  const std::string text(200'000, 'a');
  const std::unique_ptr<Encoding> encoding = tokenizer->Begin(text, {});
  size_t most = 0;
  while (!encoding->Run(10'000)) most = std::max(most, encoding->bytes());
  EXPECT_GE(most, 16 * text.size());
  EXPECT_LE(most, 40 * text.size());
  EXPECT_EQ(encoding->bytes(), encoding->ids().capacity() * sizeof(TokenId));
  EXPECT_EQ(encoding->ids(), UniIds(text.size(), kUniFirst + 1));
}

TEST(UnigramTest, NeedsAnUnknownToken) {
  Vocabulary vocabulary = UniVocabulary();
  vocabulary.unk.reset();
  const auto tokenizer = MakeTokenizer(vocabulary);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().field(), "tokenizer.ggml.unknown_token_id");
}

}  // namespace
}  // namespace ropeway::tokenizer
