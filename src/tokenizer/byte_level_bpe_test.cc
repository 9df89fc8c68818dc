#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tokenizer/bpe_tables.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_tokenizer.h"
#include "tokenizer/test_vocabulary.h"
#include "tokenizer/text_model.h"

namespace ropeway::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

// Neither bos nor special tokens.
constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr EncodeOptions kParse = {.add_special = false, .parse_special = true};

std::string ErrorField(Vocabulary vocabulary) {
  const auto tokenizer = MakeTokenizer(std::move(vocabulary));
  if (tokenizer.ok()) return "";
  EXPECT_EQ(tokenizer.status().message().rfind(tokenizer.status().field(), 0), 0U)
      << "the sentence does not name the field";
  return tokenizer.status().field();
}

std::string Decode(const Tokenizer& tokenizer, const Ids& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.Bytes(id, /*with_special=*/true);
  return bytes;
}

// Sanitizers slow everything down: no time limits.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kOneSecond = 20;
#else
constexpr double kOneSecond = 1;
#endif

// CPU time: other processes do not count.
double SecondsSince(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// One name of each family of split patterns.
const std::vector<const char*> kFamilies = {
    "gpt-2",  "smollm", "llama-bpe", "dbrx",         "glm4",           "qwen2",      "qwen35",
    "gpt-4o", "tekken", "falcon",    "deepseek-llm", "deepseek-coder", "deepseek-v3"};

// Ids 256.. are: he, ll, hell, "Ġw", aa, aaaa.
const std::vector<std::string> kMerges = {"h e", "l l", "he ll", "Ġ w", "a a", "aa aa"};

TEST(ByteLevelBpeTest, MergesByRankWithinPieces) {
  const auto tokenizer = MustMakeTokenizer(MakeVocabulary("gpt-2", kMerges));
  EXPECT_EQ(tokenizer->Encode("hello w", kPlain), (Ids{258, 'o', 259}));
  EXPECT_EQ(tokenizer->Encode("aaaaaaa", kPlain), (Ids{261, 260, 'a'}));
  EXPECT_EQ(tokenizer->Encode("", kPlain), Ids{});
  EXPECT_EQ(tokenizer->Bytes(259), " w");
}

// Found by fuzzing: with ignore_merges, a piece whose byte letters spell an added token became that
// token, even a control token without parse_special.
TEST(ByteLevelBpeTest, APieceIsNeverTheAddedTokenThatItsLettersSpell) {
  const auto tokenizer = MustMakeTokenizer(MakeVocabulary("llama-bpe", {}, {"stop"}, {"Ã©"}));
  EXPECT_EQ(tokenizer->Encode("stop", kPlain), (Ids{'s', 't', 'o', 'p'}));
  EXPECT_EQ(tokenizer->Encode("stop", kParse), Ids{256});
  EXPECT_EQ(tokenizer->Encode("é", kPlain), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(tokenizer->Encode("Ã©", kPlain), Ids{257});
}

TEST(ByteLevelBpeTest, BeginsAndEndsTextsAsTheFileSays) {
  Vocabulary vocabulary = MakeVocabulary("gpt-2", {}, {"<s>", "</s>"});
  vocabulary.bos = 256;
  vocabulary.eos = 257;
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("a", {}), Ids{'a'});
  vocabulary.add_bos = true;
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("a", {}), (Ids{256, 'a'}));
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("a", kParse), Ids{'a'});
  vocabulary.add_eos = true;
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("a", {}), (Ids{256, 'a', 257}));
  vocabulary.pre = "llama-bpe";
  vocabulary.add_bos.reset();
  vocabulary.add_eos.reset();
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("a", {}), (Ids{256, 'a'}));
}

TEST(ByteLevelBpeTest, ControlTokensOnlyWhereAsked) {
  const auto tokenizer = MustMakeTokenizer(MakeVocabulary("gpt-2", {}, {"<x>", "<x>>"}, {"<u>"}));
  EXPECT_EQ(tokenizer->Encode("a<x>>b", kParse), (Ids{'a', 257, 'b'}));  // The longest.
  EXPECT_EQ(tokenizer->Encode("<<x><x", kParse), (Ids{'<', 256, '<', 'x'}));
  EXPECT_EQ(tokenizer->Encode("<x>", kPlain), (Ids{'<', 'x', '>'}));
  EXPECT_EQ(tokenizer->Encode("<u><x>", kPlain), (Ids{258, '<', 'x', '>'}));
  EXPECT_EQ(tokenizer->Bytes(256), "");
  EXPECT_EQ(tokenizer->Bytes(256, true), "<x>");
  EXPECT_EQ(tokenizer->Bytes(258), "<u>");
  EXPECT_TRUE(tokenizer->IsSpecial(256));
  EXPECT_FALSE(tokenizer->IsSpecial(258));
  EXPECT_EQ(tokenizer->Find("<x>"), 256);
  EXPECT_EQ(tokenizer->Find("<y>"), std::nullopt);
}

TEST(ByteLevelBpeTest, KnowsTheEnds) {
  Vocabulary vocabulary =
      MakeVocabulary("gpt-2", {}, {"<|im_end|>", "<eos>", "<eom>", "<other>"}, {"<|eot_id|>"});
  vocabulary.eos = 257;
  vocabulary.eom = 258;
  const auto tokenizer = MustMakeTokenizer(vocabulary);
  EXPECT_TRUE(tokenizer->IsEnd(256));
  EXPECT_TRUE(tokenizer->IsEnd(257));
  EXPECT_TRUE(tokenizer->IsEnd(258));
  EXPECT_FALSE(tokenizer->IsEnd(259));
  EXPECT_FALSE(tokenizer->IsEnd(260)) << "not a control token";
  EXPECT_FALSE(tokenizer->IsEnd('a'));
}

TEST(ByteLevelBpeTest, LlamaTakesAWholePieceThatIsAToken) {
  // No merge makes the token "abc".
  Vocabulary vocabulary = MakeVocabulary("llama-bpe", {"b c"});
  vocabulary.tokens.emplace_back("abc");
  vocabulary.types.push_back(1);
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("abc", kPlain), (Ids{257}));
  vocabulary.pre = "qwen2";
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("abc", kPlain), (Ids{'a', 256}));
}

TEST(ByteLevelBpeTest, BytesThatAreNotUtf8StayAndTheirNeighboursMerge) {
  const auto tokenizer = MustMakeTokenizer(MakeVocabulary("gpt-2", kMerges));
  EXPECT_EQ(tokenizer->Encode("he\xFFhe\xE2\x82", kPlain), (Ids{256, 0xFF, 256, 0xE2, 0x82}));
}

TEST(ByteLevelBpeTest, AnyBytesRoundTrip) {
  std::mt19937 random(3);
  const std::string favourites = "ahel w'1\n\t<x>\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\xFF";
  for (const char* pre : kFamilies) {
    const auto tokenizer = MustMakeTokenizer(MakeVocabulary(pre, kMerges, {"<x>"}));
    for (int round = 0; round < 300; ++round) {
      std::string bytes;
      for (size_t i = random() % 60; i > 0; --i) {
        bytes.push_back(random() % 6 == 0 ? static_cast<char>(random())
                                          : favourites[random() % favourites.size()]);
      }
      ASSERT_EQ(Decode(*tokenizer, tokenizer->Encode(bytes, kPlain)), bytes) << pre;
      ASSERT_EQ(Decode(*tokenizer, tokenizer->Encode(bytes, kParse)), bytes) << pre;
    }
  }
}

TEST(ByteLevelBpeTest, AByteWithoutATokenIsLeftOut) {
  Vocabulary vocabulary = MakeVocabulary("gpt-2", {"a b"});
  vocabulary.tokens[0x04] = "lost";
  const auto tokenizer = MustMakeTokenizer(vocabulary);
  EXPECT_EQ(tokenizer->Encode("x\x04y", kPlain), (Ids{'x', 'y'}));
}

TEST(ByteLevelBpeTest, OneMegabyteOfOneLetterTakesUnderASecond) {
  std::vector<std::string> merges;
  std::string half = "a";
  for (int i = 0; i < 6; ++i) {
    merges.push_back(half + " " + half);
    half += half;
  }
  const auto tokenizer = MustMakeTokenizer(MakeVocabulary("smollm", merges));
  const std::string text(size_t{1} << 20U, 'a');
  const std::clock_t start = std::clock();
  const Ids ids = tokenizer->Encode(text, kPlain);
  EXPECT_LT(SecondsSince(start), kOneSecond);
  EXPECT_EQ(ids, Ids(text.size() / 64, 261));
}

TEST(ByteLevelBpeTest, LongRunsOfAnyKindTakeLinearTime) {
  for (const char* pre : kFamilies) {
    const auto tokenizer = MustMakeTokenizer(MakeVocabulary(pre, kMerges, {"<|im_end|>"}));
    for (const std::string unit :
         {" ", "\n", "1", "!", "'", "<|im_", " \n", "\xFF", "ä", "A", "日", "!$", "\u0301"}) {
      std::string text;
      while (text.size() < 100'000) text += unit;
      const std::clock_t start = std::clock();
      EXPECT_EQ(Decode(*tokenizer, tokenizer->Encode(text, kParse)), text);
      EXPECT_LT(SecondsSince(start), kOneSecond) << pre << " " << unit;
    }
  }
}

TEST(ByteLevelBpeTest, ManyThreadsMayEncodeAtOnce) {
  const auto tokenizer = MustMakeTokenizer(MakeVocabulary("smollm", kMerges));
  const std::string text = "hello w 123 aaaa aaaaaaa!  \n x";
  const Ids expected = tokenizer->Encode(text, kPlain);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) wrong[t] += tokenizer->Encode(text, kPlain) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(ByteLevelBpeTest, RejectsWrongFieldsByName) {
  const Vocabulary good = MakeVocabulary("gpt-2", kMerges);
  EXPECT_EQ(ErrorField(good), "");
  const auto with = [&](auto change) {
    Vocabulary vocabulary = good;
    change(vocabulary);
    return ErrorField(std::move(vocabulary));
  };
  EXPECT_EQ(with([](Vocabulary& v) { v.model = "rwkv"; }), "tokenizer.ggml.model");
  EXPECT_EQ(with([](Vocabulary& v) { v.pre = "viking"; }), "tokenizer.ggml.pre");
  EXPECT_EQ(with([](Vocabulary& v) { v.tokens.clear(); }), "tokenizer.ggml.tokens");
  EXPECT_EQ(with([](Vocabulary& v) { v.types.pop_back(); }), "tokenizer.ggml.token_type");
  EXPECT_EQ(with([](Vocabulary& v) { v.types[7] = 9; }), "tokenizer.ggml.token_type[7]");
  EXPECT_EQ(with([](Vocabulary& v) { v.bos = 262; }), "tokenizer.ggml.bos_token_id");
  EXPECT_EQ(with([](Vocabulary& v) { v.eos = -1; }), "tokenizer.ggml.eos_token_id");
  EXPECT_EQ(with([](Vocabulary& v) { v.eot = 1 << 30; }), "tokenizer.ggml.eot_token_id");
  for (const char* merge : {"", " ", "ab", "a ", " b", "a b c", "a  b", "zz a", "a b"}) {
    EXPECT_EQ(with([&](Vocabulary& v) { v.merges[2] = merge; }), "tokenizer.ggml.merges[2]")
        << merge;
  }
}

TEST(ByteLevelBpeTest, TypesMayBeAbsent) {
  Vocabulary vocabulary = MakeVocabulary("gpt-2", kMerges);
  vocabulary.types.clear();
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("he", kPlain), Ids{256});
}

TEST(ByteAlphabetTest, RoundTripsAndKnowsWhatIsNoLetter) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(FromByteLetters(ToByteLetters(all)), all);
  EXPECT_EQ(ToByteLetters(" \n"), "ĠĊ");
  EXPECT_EQ(FromByteLetters("日"), std::nullopt);
  EXPECT_EQ(FromByteLetters("a b"), std::nullopt);
}

}  // namespace
}  // namespace ropeway::tokenizer
