#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_tokenizer.h"
#include "tokenizer/test_vocabulary.h"
#include "tokenizer/text_model.h"

namespace ropeway::tokenizer {
namespace {

using SpIds = std::vector<TokenId>;

constexpr EncodeOptions kNoSpecial = {.add_special = false};
constexpr TokenId kFirstPiece = kByteTokens + 256;

std::string SpDecoded(const Tokenizer& tokenizer, const SpIds& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.Bytes(id, /*with_special=*/true);
  return bytes;
}

SpIds SpByteIds(std::string_view bytes) {
  SpIds ids;
  for (const char byte : bytes) ids.push_back(kByteTokens + static_cast<uint8_t>(byte));
  return ids;
}

// Ids from kFirstPiece on.
const std::vector<std::string> kSpPieces = {"▁", "a", "b", "c", "é", "ab", "▁a", "▁ab", "bc", "▁▁"};

TEST(SentencePieceBpeTest, MergesTheBestScoreFirst) {
  const auto tokenizer = MustMakeTokenizer(MakeSentencePieceVocabulary("llama", kSpPieces));
  const auto id = [&](const char* piece) { return *tokenizer->Find(piece); };
  EXPECT_EQ(tokenizer->Encode("abc", kNoSpecial), (SpIds{id("ab"), id("c")}));
  // "ab" is better than "▁a".
  EXPECT_EQ(tokenizer->Encode("b ab c", kNoSpecial), (SpIds{id("b"), id("▁ab"), id("▁"), id("c")}));
  EXPECT_EQ(tokenizer->Encode("", kNoSpecial), SpIds{});
  EXPECT_EQ(tokenizer->Bytes(id("▁ab")), " ab");
}

TEST(SentencePieceBpeTest, WritesASpaceInFront) {
  Vocabulary vocabulary = MakeSentencePieceVocabulary("llama", kSpPieces, true, {"<x>"});
  const auto ids = [&](SpacePrefix prefix, std::string_view text,
                       std::optional<TokenId> after = std::nullopt) {
    vocabulary.space_prefix = prefix;
    const auto tokenizer = MustMakeTokenizer(vocabulary);
    return SpDecoded(*tokenizer, tokenizer->Encode(text, {.add_special = false, .after = after}));
  };
  EXPECT_EQ(ids(SpacePrefix::kNone, "a<x>b"), "a<x>b");
  EXPECT_EQ(ids(SpacePrefix::kEach, "a<x>b"), " a<x> b");
  EXPECT_EQ(ids(SpacePrefix::kEach, " a<x> b"), "  a<x>  b");
  EXPECT_EQ(ids(SpacePrefix::kEach, "<x><x>"), "<x><x>");
  EXPECT_EQ(ids(SpacePrefix::kEach, ""), "");
  EXPECT_EQ(ids(SpacePrefix::kEachIfNone, "a<x>b"), " a<x> b");
  EXPECT_EQ(ids(SpacePrefix::kEachIfNone, " a<x> b"), " a<x> b");
  EXPECT_EQ(ids(SpacePrefix::kBeginningOnly, "a<x>b"), " a<x>b");
  EXPECT_EQ(ids(SpacePrefix::kBeginningOnly, "<x>b"), "<x>b");
  // Where the text goes on from other ids.
  EXPECT_EQ(ids(SpacePrefix::kEach, "a", kFirstPiece), "a");
  EXPECT_EQ(ids(SpacePrefix::kEach, "a", kBosToken), " a");
  EXPECT_EQ(ids(SpacePrefix::kBeginningOnly, "a", kBosToken), "a");
}

TEST(SentencePieceBpeTest, ACharacterWithoutATokenBecomesItsBytes) {
  const auto tokenizer = MustMakeTokenizer(MakeSentencePieceVocabulary("llama", kSpPieces));
  EXPECT_EQ(tokenizer->Encode("é", kNoSpecial), SpIds{*tokenizer->Find("é")});
  EXPECT_EQ(tokenizer->Encode("ü", kNoSpecial), SpByteIds("ü"));
  EXPECT_EQ(tokenizer->Encode("\xFF\xE2\x82", kNoSpecial), SpByteIds("\xFF\xE2\x82"));
  EXPECT_EQ(tokenizer->Bytes(kByteTokens + 0x0A), "\n");
  // It is an ordinary token: "<0x0A>" in a text is text.
  EXPECT_EQ(tokenizer->Encode("<0x0A>", {}), SpByteIds("<0x0A>"));
}

TEST(SentencePieceBpeTest, WithoutTokensOfBytesItIsUnknown) {
  const auto tokenizer = MustMakeTokenizer(MakeSentencePieceVocabulary("llama", kSpPieces, false));
  const TokenId a = *tokenizer->Find("a");
  EXPECT_EQ(tokenizer->Encode("aüüxa", kNoSpecial), (SpIds{a, kUnknownToken, a}));
  EXPECT_EQ(tokenizer->Encode("ü\xFF", kNoSpecial), SpIds{kUnknownToken});
  EXPECT_EQ(tokenizer->Encode("ü ü", kNoSpecial),
            (SpIds{kUnknownToken, *tokenizer->Find("▁"), kUnknownToken}));
}

TEST(SentencePieceBpeTest, AMergeListCountsWhereThereAreNoScores) {
  Vocabulary vocabulary = MakeSentencePieceVocabulary("llama", kSpPieces);
  vocabulary.merges = {"b c", "a b"};
  EXPECT_EQ(SpDecoded(*MustMakeTokenizer(vocabulary), {kFirstPiece + 5}), "ab");
  const SpIds by_scores = MustMakeTokenizer(vocabulary)->Encode("abc", kNoSpecial);
  EXPECT_EQ(by_scores, (SpIds{kFirstPiece + 5, kFirstPiece + 3}));
  vocabulary.scores.clear();
  const SpIds by_merges = {kFirstPiece + 1, kFirstPiece + 8};
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("abc", kNoSpecial), by_merges);
  vocabulary.model = "gemma4";
  vocabulary.scores.assign(vocabulary.tokens.size(), -1000.0F);
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("abc", kNoSpecial), by_merges);
}

TEST(SentencePieceBpeTest, AddedTokensTakeWhiteSpaceAlong) {
  Vocabulary vocabulary =
      MakeSentencePieceVocabulary("llama", kSpPieces, true, {"<left>", "<right>"});
  const auto left = static_cast<TokenId>(vocabulary.tokens.size() - 2);
  const TokenId right = left + 1;
  vocabulary.strip_left = {left};
  vocabulary.strip_right = {right};
  vocabulary.space_prefix = SpacePrefix::kEach;
  const auto tokenizer = MustMakeTokenizer(vocabulary);
  const TokenId a = *tokenizer->Find("▁a");
  EXPECT_EQ(tokenizer->Encode("a \n<left> a", kNoSpecial),
            (SpIds{a, left, *tokenizer->Find("▁"), a}));
  EXPECT_EQ(tokenizer->Encode("a<right>\u3000\n a", kNoSpecial), (SpIds{a, right, a}));
  EXPECT_EQ(tokenizer->Encode("<right> <left> <right>  ", kNoSpecial),
            (SpIds{right, left, *tokenizer->Find("▁▁"), right}))
      << "the prefix, and the space itself";
  EXPECT_EQ(tokenizer->Encode(" a", {.add_special = false, .after = right}), SpIds{a});
}

TEST(SentencePieceBpeTest, CoversTellsWhatOfATextAnIdStandsFor) {
  Vocabulary vocabulary = MakeSentencePieceVocabulary("llama", kSpPieces, true, {"<x>"});
  vocabulary.space_prefix = SpacePrefix::kEach;
  vocabulary.strip_right = {static_cast<TokenId>(vocabulary.tokens.size() - 1)};
  const auto tokenizer = MustMakeTokenizer(vocabulary);
  for (const char* text : {"a", " a", "ab c<x>\n ab", "<x>  a  <x>b", "  ab", "<s>a", ""}) {
    const SpIds ids = tokenizer->Encode(text, kNoSpecial);
    std::string_view rest = text;
    std::optional<TokenId> before;
    for (const TokenId id : ids) {
      const std::optional<size_t> bytes = tokenizer->Covers(rest, id, before);
      ASSERT_TRUE(bytes) << text << " before '" << rest << "'";
      rest.remove_prefix(*bytes);
      before = id;
    }
    EXPECT_EQ(rest, "") << text;
  }
  const TokenId word = *tokenizer->Find("▁ab");
  EXPECT_EQ(tokenizer->Covers("ab", word, std::nullopt), 2U);
  EXPECT_EQ(tokenizer->Covers(" ab", word, kBosToken), 3U);
  EXPECT_EQ(tokenizer->Covers("ab", word, word), std::nullopt);
  EXPECT_EQ(tokenizer->Covers("b", word, std::nullopt), std::nullopt);
}

// SentencePiece as it is written down: among neighbours that form a piece, the pair with the
// highest score is merged, the leftmost of equals.
SpIds NaiveSentencePiece(const std::map<std::string, std::pair<float, TokenId>>& pieces,
                         std::string_view text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterLength(text, at);
    const std::string_view letter = text.substr(at, length);
    parts.emplace_back(letter == " " ? kSpaceSymbol : letter);
    at += length;
  }
  while (true) {
    size_t best = parts.size();
    float best_score = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = pieces.find(parts[i] + parts[i + 1]);
      if (found == pieces.end()) continue;
      if (best == parts.size() || found->second.first > best_score) {
        best = i;
        best_score = found->second.first;
      }
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  SpIds ids;
  for (const std::string& part : parts) {
    const auto found = pieces.find(part);
    if (found != pieces.end()) {
      ids.push_back(found->second.second);
    } else {
      const SpIds bytes = SpByteIds(part);
      ids.insert(ids.end(), bytes.begin(), bytes.end());
    }
  }
  return ids;
}

std::string RandomSpText(std::mt19937& random, size_t most) {
  static const std::vector<std::string> letters = {"a", "b", "a", "b",  "c",    " ", " ",
                                                   "é", "▁", "ü", "\n", "\xFF", "日"};
  std::string text;
  for (size_t i = random() % most; i > 0; --i) text += letters[random() % letters.size()];
  return text;
}

// Also where pieces have equal scores, or span words.
TEST(SentencePieceBpeTest, AgreesWithTheDefinition) {
  std::mt19937 random(21);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> pieces = {"▁", "a", "b", "c", "é"};
    for (size_t i = random() % 24; i > 0; --i) {
      const std::string piece = pieces[random() % pieces.size()] + pieces[random() % pieces.size()];
      if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end() && piece.size() < 40) {
        pieces.push_back(piece);
      }
    }
    Vocabulary vocabulary = MakeSentencePieceVocabulary("llama", pieces);
    if (round % 2 == 0) {
      for (float& score : vocabulary.scores) score = -static_cast<float>(random() % 4);
    }
    std::map<std::string, std::pair<float, TokenId>> by_text;
    for (size_t i = kFirstPiece; i < vocabulary.tokens.size(); ++i) {
      by_text[vocabulary.tokens[i]] = {vocabulary.scores[i], static_cast<TokenId>(i)};
    }
    const auto tokenizer = MustMakeTokenizer(vocabulary);
    for (int i = 0; i < 20; ++i) {
      std::string text = RandomSpText(random, 40);
      if (i == 0 && round % 20 == 0) {
        // A word that is merged in parts.
        for (const char c : RandomSpText(random, 1500)) text += c == ' ' ? 'a' : c;
      }
      const SpIds ids = tokenizer->Encode(text, kNoSpecial);
      ASSERT_EQ(ids, NaiveSentencePiece(by_text, text)) << base::PrintableText(text);
    }
  }
}

TEST(SentencePieceBpeTest, PiecesGiveTheIdsOfTheWholeAndAllBytesComeBack) {
  std::mt19937 random(22);
  for (const SpacePrefix prefix : {SpacePrefix::kNone, SpacePrefix::kEach}) {
    Vocabulary vocabulary =
        MakeSentencePieceVocabulary("llama", kSpPieces, true, {"<x>"}, {"b\n", "aa"});
    vocabulary.space_prefix = prefix;
    const auto tokenizer = MustMakeTokenizer(vocabulary);
    for (int round = 0; round < 300; ++round) {
      std::string text = RandomSpText(random, 60);
      if (random() % 4 == 0) text += std::string(700, "ab "[random() % 3]);
      if (random() % 3 == 0) text.insert(random() % (text.size() + 1), "<x>");
      const SpIds whole = tokenizer->Encode(text, {});
      const std::unique_ptr<Encoding> encoding = tokenizer->Begin(text, {});
      while (!encoding->Run(1 + random() % 40)) {
      }
      ASSERT_EQ(encoding->ids(), whole) << base::PrintableText(text);
      if (prefix == SpacePrefix::kNone && text.find("▁") == text.npos) {
        ASSERT_EQ(SpDecoded(*tokenizer, whole), text);
      }
      // Too long a text is known to be so, and no other.
      for (const size_t most : {whole.size(), whole.size() / 2}) {
        const std::unique_ptr<Encoding> bounded = tokenizer->Begin(text, {}, most);
        while (!bounded->Run(1 + random() % 40)) ASSERT_LE(bounded->least(), whole.size());
        ASSERT_EQ(bounded->least() > most, whole.size() > most);
      }
    }
  }
}

TEST(SentencePieceBpeTest, LongRunsTakeLinearTime) {
  std::vector<std::string> pieces = {"▁", "a", "b"};
  for (std::string run = "▁▁"; run.size() < 60; run += run) pieces.push_back(run);
  for (std::string run = "aa"; run.size() < 60; run += run) pieces.push_back(run);
  const auto tokenizer = MustMakeTokenizer(MakeSentencePieceVocabulary("llama", pieces));
  for (const std::string unit : {" ", "a", "ab", " a", "日", "\xFF", "\n"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    const SpIds ids = tokenizer->Encode(text, kNoSpecial);
    EXPECT_EQ(SpDecoded(*tokenizer, ids), text);
  }
}

TEST(SentencePieceBpeTest, RejectsWrongScoresByName) {
  const auto field = [](Vocabulary vocabulary) {
    const auto tokenizer = MakeTokenizer(std::move(vocabulary));
    return tokenizer.ok() ? std::string() : tokenizer.status().field();
  };
  Vocabulary vocabulary = MakeSentencePieceVocabulary("llama", kSpPieces);
  EXPECT_EQ(field(vocabulary), "");
  vocabulary.scores.pop_back();
  EXPECT_EQ(field(vocabulary), "tokenizer.ggml.scores");
  vocabulary.scores.push_back(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(field(vocabulary),
            "tokenizer.ggml.scores[" + std::to_string(vocabulary.scores.size() - 1) + "]");
  vocabulary.scores.clear();
  EXPECT_EQ(field(vocabulary), "tokenizer.ggml.scores");
  vocabulary = MakeSentencePieceVocabulary("llama", kSpPieces);
  vocabulary.tokens[kByteTokens + 7] = "<0x7>";
  EXPECT_EQ(field(vocabulary), "tokenizer.ggml.tokens[10]");
  vocabulary = MakeSentencePieceVocabulary("llama", {"a", std::string(5000, 'a')});
  EXPECT_EQ(field(vocabulary), "tokenizer.ggml.tokens[260]");
}

// Unknown characters in a row are one token on the way too: a text that just fits is not cut.
TEST(SentencePieceBpeTest, UnknownCharactersCountOnceWhileTheyAreEncoded) {
  Vocabulary vocabulary = MakeSentencePieceVocabulary("llama", {"▁", "a", "<u>"}, false, {});
  vocabulary.unk = static_cast<TokenId>(vocabulary.tokens.size() - 1);
  const auto tokenizer = MakeTokenizer(vocabulary);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const std::string text = "azzzzzzzzzza zzzzz" + std::string(500, 'z');
  const std::vector<TokenId> whole = (*tokenizer)->Encode(text, {});
  EXPECT_LT(whole.size(), 10U);
  const auto encoding = (*tokenizer)->Begin(text, {}, whole.size());
  while (!encoding->Run(1)) {
  }
  EXPECT_EQ(encoding->ids(), whole);
}

}  // namespace
}  // namespace ropeway::tokenizer
