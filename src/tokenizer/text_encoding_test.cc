// A text encoded in pieces has the ids that it has as a whole, wherever it is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/bpe_tables.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/spans.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::tokenizer {
namespace {

using PieceIds = std::vector<TokenId>;

const std::vector<std::string> kPieceMerges = {"h e", "l l", "he ll", "Ġ w", "a a", "aa aa", "1 2"};
const std::vector<std::string> kPieceControl = {"<x>", "<x>>", "<|im_end|>"};
const std::vector<std::string> kPieceUserDefined = {"<u>", "\n\n", "!<"};

std::unique_ptr<Tokenizer> MakeFor(const char* pre) {
  auto tokenizer =
      MakeTokenizer(MakeVocabulary(pre, kPieceMerges, kPieceControl, kPieceUserDefined));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

// Texts that hold whatever a stage looks for, cut in any way.
std::string RandomText(std::mt19937& random) {
  static const std::vector<std::string> parts = {
      "hello", " w", "aaaaaaa", "1",    "12",  "'ll",  "\n",           "\n\n", "  ",  "!",
      "<x>",   "<",  "<x",      "<x>>", "<u>", "\xFF", "\xE2\x82\xAC", "\xE2", "ä",   "<|im_end|>",
      "\t",    "日", "<|im",    "!<x>", "",    "x",    "\xF0\x9F",     "é",    "\r ", "Zz9"};
  std::string text;
  for (size_t i = random() % 40; i > 0; --i) text += parts[random() % parts.size()];
  if (random() % 8 == 0) text += std::string(600 + random() % 2000, "aeh"[random() % 3]);
  return text;
}

Spans RandomSpans(std::mt19937& random, size_t size) {
  Spans spans;
  for (size_t at = random() % 12; at < size;) {
    const size_t end = std::min(size, at + 1 + random() % 20);
    AddSpan(at, end, &spans);
    at = end + random() % 20;
  }
  return spans;
}

PieceIds InPieces(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options,
                  std::mt19937& random) {
  const std::unique_ptr<Encoding> encoding = tokenizer.Begin(text, options);
  while (!encoding->Run(1 + random() % 60)) {
  }
  return encoding->TakeIds();
}

TEST(TextEncodingTest, PiecesGiveTheIdsOfTheWhole) {
  std::mt19937 random(11);
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    const auto tokenizer = MakeFor(pre);
    for (int round = 0; round < 400; ++round) {
      const std::string text = RandomText(random);
      const Spans spans = RandomSpans(random, text.size());
      const EncodeOptions options = {
          .add_special = random() % 2 == 0, .parse_special = random() % 4 != 0, .quoted = spans};
      const PieceIds whole = tokenizer->Encode(text, options);
      ASSERT_EQ(InPieces(*tokenizer, text, options, random), whole)
          << pre << " " << base::PrintableText(text);
      std::string decoded;
      for (const TokenId id : whole) decoded += tokenizer->Bytes(id, true);
      ASSERT_EQ(decoded, text);
    }
  }
}

// What the stages do, written down in one go: the same ids, for text without added tokens.
TEST(TextEncodingTest, OrdinaryTextIsWhatItsPiecesMergeTo) {
  std::mt19937 random(12);
  for (const char* pre : {"gpt-2", "smollm", "qwen2"}) {
    const auto tokenizer = MakeFor(pre);
    const StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Create(pre);
    ASSERT_TRUE(pre_tokenizer.ok());
    std::vector<Merge> merges;
    for (const std::string& merge : kPieceMerges) {
      const size_t space = merge.find(' ');
      std::string joined = merge;
      joined.erase(space, 1);
      merges.push_back({*tokenizer->Find(merge.substr(0, space)),
                        *tokenizer->Find(merge.substr(space + 1)), *tokenizer->Find(joined)});
    }
    const MergeTable table(merges);
    for (int round = 0; round < 200; ++round) {
      std::string text;
      for (const char c : RandomText(random)) {
        if (c != '<' && c != '\n' && static_cast<unsigned char>(c) < 0x80) text += c;
      }
      PieceIds expected;
      for (const std::string_view piece : pre_tokenizer->Split(text)) {
        PieceIds ids;
        for (const char byte : piece) ids.push_back(static_cast<uint8_t>(byte));
        table.Apply(ids);
        expected.insert(expected.end(), ids.begin(), ids.end());
      }
      ASSERT_EQ(tokenizer->Encode(text, {.add_special = false}), expected) << pre << " " << text;
    }
  }
}

TEST(TextEncodingTest, ALongWordIsMergedInManyPieces) {
  const auto tokenizer = MakeFor("gpt-2");
  std::mt19937 random(13);
  std::string text;
  while (text.size() < 100'000) text += "hela"[random() % 4];
  const std::unique_ptr<Encoding> encoding = tokenizer->Begin(text, {});
  int pieces = 1;
  while (!encoding->Run(1000)) ++pieces;
  EXPECT_GT(pieces, 100);
  EXPECT_EQ(encoding->ids(), tokenizer->Encode(text, {}));
}

// The memory is charged to the request that the text belongs to.
TEST(TextEncodingTest, TheMemoryOfALongWordIsTold) {
  const auto tokenizer = MakeFor("gpt-2");
  const std::string text(100'000, 'h');
  const std::unique_ptr<Encoding> encoding = tokenizer->Begin(text, {});
  size_t most = 0;
  while (!encoding->Run(1000)) most = std::max(most, encoding->bytes());
  EXPECT_GE(most, 20 * text.size());
  EXPECT_LE(most, 30 * text.size());
  // Once it is merged, the ids alone are left.
  EXPECT_EQ(encoding->bytes(), encoding->ids().capacity() * sizeof(TokenId));
}

TEST(TextEncodingTest, QuotedTextHasNoControlTokens) {
  const auto tokenizer = MakeFor("gpt-2");
  const auto ids = [&](std::string_view text, const Spans& quoted) {
    return tokenizer->Encode(text, {.add_special = false, .quoted = quoted});
  };
  const TokenId x = *tokenizer->Find("<x>");
  const TokenId longer = *tokenizer->Find("<x>>");
  const TokenId user = *tokenizer->Find("<u>");
  EXPECT_EQ(ids("a<x>b", {}), (PieceIds{'a', x, 'b'}));
  EXPECT_EQ(ids("a<x>b", {{0, 5}}), (PieceIds{'a', '<', 'x', '>', 'b'}));
  // A part is enough, at either end and in the middle.
  for (size_t at = 1; at < 4; ++at) {
    EXPECT_EQ(ids("a<x>b", {{at, at + 1}}), (PieceIds{'a', '<', 'x', '>', 'b'})) << at;
  }
  EXPECT_EQ(ids("a<x>b", {{0, 1}, {4, 5}}), (PieceIds{'a', x, 'b'}));
  // The longest that is the template's own.
  EXPECT_EQ(ids("<x>>", {{3, 4}}), (PieceIds{x, '>'}));
  EXPECT_EQ(ids("<x>>", {}), (PieceIds{longer}));
  // What begins in a quotation leaves the template's own token alone.
  EXPECT_EQ(ids("<x<x>", {{0, 2}}), (PieceIds{'<', 'x', x}));
  // User-defined tokens are ordinary text.
  EXPECT_EQ(ids("<u>", {{0, 3}}), (PieceIds{user}));
}

// Without control tokens in it, a quotation changes no id, also where words and user-defined tokens
// cross its ends.
TEST(TextEncodingTest, QuotationsWithoutControlTokensChangeNothing) {
  std::mt19937 random(14);
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    const auto tokenizer = MakeFor(pre);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (const char c : RandomText(random)) {
        if (c != '<') text += c;
      }
      const Spans spans = RandomSpans(random, text.size());
      ASSERT_EQ(tokenizer->Encode(text, {.quoted = spans}), tokenizer->Encode(text, {}))
          << pre << " " << base::PrintableText(text);
    }
  }
}

// All of it quoted is the same as not looked at for special tokens.
TEST(TextEncodingTest, AllQuotedIsPlain) {
  std::mt19937 random(15);
  const auto tokenizer = MakeFor("smollm");
  for (int round = 0; round < 300; ++round) {
    const std::string text = RandomText(random);
    Spans all;
    AddSpan(0, text.size(), &all);
    ASSERT_EQ(tokenizer->Encode(text, {.quoted = all}),
              tokenizer->Encode(text, {.parse_special = false}));
  }
}

TEST(TextEncodingTest, LeastIsALowerBoundAtEveryMoment) {
  std::mt19937 random(16);
  for (const char* pre : {"gpt-2", "llama-bpe"}) {
    const auto tokenizer = MakeFor(pre);
    for (int round = 0; round < 200; ++round) {
      const std::string text = RandomText(random);
      const size_t count = tokenizer->Encode(text, {}).size();
      for (const size_t most : {count, count / 2, size_t{0}}) {
        const std::unique_ptr<Encoding> encoding = tokenizer->Begin(text, {}, most);
        while (!encoding->Run(1 + random() % 60)) ASSERT_LE(encoding->least(), count);
        ASSERT_LE(encoding->least(), count);
        // Ended early if and only if there are more.
        if (count > most) {
          ASSERT_GT(encoding->least(), most);
        } else {
          ASSERT_EQ(encoding->ids(), tokenizer->Encode(text, {}));
        }
      }
    }
  }
}

TEST(TextEncodingTest, BytesWithoutATokenDoNotCount) {
  Vocabulary vocabulary = MakeVocabulary("gpt-2", {"! ?"});
  vocabulary.tokens[0x04] = "lost";
  const auto tokenizer = MakeTokenizer(vocabulary);
  ASSERT_TRUE(tokenizer.ok());
  // Merges join what stands around them, so a token may cover any number of them.
  const std::string text = "!" + std::string(1000, '\x04') + "?";
  const std::unique_ptr<Encoding> encoding = (*tokenizer)->Begin(text, {.add_special = false}, 1);
  while (!encoding->Run(10)) {
  }
  EXPECT_EQ(encoding->ids(), (PieceIds{256}));
  EXPECT_EQ(encoding->least(), 1U);
}

// A text that cannot fit is found out from a part of it, words or not.
TEST(TextEncodingTest, FarTooLongIsSeenAtOnce) {
  const auto tokenizer = MakeFor("gpt-2");
  std::mt19937 random(17);
  std::string letters;
  while (letters.size() < 660'000) letters += static_cast<char>('a' + random() % 26);
  std::string words;
  while (words.size() < 660'000) words += "hello world ";
  for (const std::string& text : {letters, words}) {
    const std::unique_ptr<Encoding> encoding = tokenizer->Begin(text, {}, 8192);
    // No token of letters has more than 4 bytes, so 33 kB are looked at.
    EXPECT_TRUE(encoding->Run(5000));
    EXPECT_GT(encoding->least(), 8192U);
    EXPECT_TRUE(encoding->ids().empty());
  }
}

// Not only an added token in the text: a piece of ordinary text, and the unknown token.
TEST(TextEncodingTest, NoTextBecomesATokenWithoutARow) {
  Vocabulary pieces = MakeVocabulary("gpt-2", {"a b"});
  pieces.without_row = 1;
  Vocabulary unknown = MakeSentencePieceVocabulary("llama", {"a", "b", "<u>"}, false, {});
  unknown.unk = static_cast<TokenId>(unknown.tokens.size() - 1);
  unknown.without_row = 1;
  for (const auto& [vocabulary, text] : {std::pair(pieces, "xab"), {unknown, "az"}}) {
    const auto tokenizer = MakeTokenizer(vocabulary);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_THROW((*tokenizer)->Encode(text, {}), EncodingError);
    const auto ids = (*tokenizer)->Encode(text, {.without_row = true});
    EXPECT_EQ(ids.back(), (*tokenizer)->vocab_size()) << "as /tokenize gives it";
    EXPECT_NO_THROW((*tokenizer)->Encode("a", {}));
  }
}

}  // namespace
}  // namespace ropeway::tokenizer
