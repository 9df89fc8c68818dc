#include "tokenizer/make_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/spans.h"
#include "tokenizer/test_tokenizer.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::tokenizer {
namespace {

TEST(MakeTokenizerTest, OthersAreRejectedByName) {
  Vocabulary vocabulary = MakeVocabulary("gpt-2", {});
  vocabulary.model = "rwkv\x1b";
  const auto tokenizer = MakeTokenizer(vocabulary);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().message(),
            "tokenizer.ggml.model: \"rwkv\uFFFD\" is not supported; supported: gpt2 (byte-level "
            "BPE), llama (SentencePiece BPE), gemma4 (SentencePiece BPE by merges), t5 "
            "(SentencePiece unigram), bert (WordPiece)");
}

// By the file's ids, by known texts, and by generation_config.json.
TEST(MakeTokenizerTest, KnowsTheEndsOfEveryKind) {
  Vocabulary vocabulary = MakeSentencePieceVocabulary(
      "llama", {"a"}, true, {"<end_of_turn>", "<eot>", "<|end|>"}, {"</q>"});
  const auto end = [&](const char* token) {
    const auto tokenizer = MustMakeTokenizer(vocabulary);
    return tokenizer->IsEnd(*tokenizer->Find(token));
  };
  EXPECT_TRUE(end("</s>"));
  EXPECT_TRUE(end("<end_of_turn>"));
  EXPECT_TRUE(end("<|end|>"));
  EXPECT_FALSE(end("<eot>"));
  EXPECT_FALSE(end("<s>"));
  vocabulary.eot = static_cast<TokenId>(vocabulary.tokens.size() - 3);
  EXPECT_TRUE(end("<eot>"));
  vocabulary.ends = {static_cast<TokenId>(vocabulary.tokens.size() - 1), -1, 1 << 20};
  EXPECT_TRUE(end("</q>"));
}

// gpt-oss ends its messages with <|end|> and goes on.
TEST(MakeTokenizerTest, AnEndOfAMessageIsNoEndOfATurn) {
  const auto tokenizer = MustMakeTokenizer(
      MakeVocabulary("gpt-4o", {}, {"<|end|>", "<|return|>", "<|call|>", "<|message|>"}));
  EXPECT_FALSE(tokenizer->IsEnd(256));
  EXPECT_TRUE(tokenizer->IsEnd(257));
  EXPECT_TRUE(tokenizer->IsEnd(258));
  EXPECT_FALSE(tokenizer->IsEnd(259));
}

// Some files call it ordinary text; then every prompt could write it, and no reader could parse it.
TEST(MakeTokenizerTest, TheFilesEndTokenIsAControlToken) {
  Vocabulary vocabulary = MakeVocabulary("gpt-2", {}, {}, {"<|endoftext|>"});
  vocabulary.eos = 256;
  const auto tokenizer = MustMakeTokenizer(vocabulary);
  EXPECT_TRUE(tokenizer->IsSpecial(256));
  EXPECT_EQ(tokenizer->Encode("<|endoftext|>", {.parse_special = false}).size(), 13U);
  EXPECT_EQ(tokenizer->Encode("<|endoftext|>", {}), std::vector<TokenId>{256});
  // Unless it looks like text.
  vocabulary.eos = 'a';
  EXPECT_FALSE(MustMakeTokenizer(vocabulary)->IsSpecial('a'));
}

TEST(MakeTokenizerTest, ATokenizerFileMayBringItsOwnPatternsAndForm) {
  Vocabulary vocabulary = MakeVocabulary("no family", {"a b", "\u00C3 \u00A9"});
  vocabulary.patterns = {R"(\p{L}+)"};
  EXPECT_EQ(MustMakeTokenizer(vocabulary)->Encode("ab e\u0301", {}),
            (std::vector<TokenId>{256, ' ', 'e', 0xCC, 0x81}));
  vocabulary.form = TextForm::kNfc;
  EXPECT_EQ(MustMakeTokenizer(vocabulary)
                ->Encode("ab e\u0301\xFF"
                         "e\u0301",
                         {}),
            (std::vector<TokenId>{256, ' ', 257, 0xFF, 257}));
  vocabulary.patterns = {"("};
  EXPECT_EQ(MakeTokenizer(vocabulary).status().field(), "pre_tokenizer");
  vocabulary.patterns.assign(100, "a");
  EXPECT_EQ(MakeTokenizer(vocabulary).status().field(), "pre_tokenizer");
}

// GGUF has no symbols.
TEST(MakeTokenizerTest, RejectsTypesByName) {
  Vocabulary vocabulary = MakeSentencePieceVocabulary("llama", {"▁", "a"});
  for (const int32_t type : {0, -1, 7, 8}) {
    vocabulary.types.back() = type;
    EXPECT_EQ(MakeTokenizer(vocabulary).status().message(),
              "tokenizer.ggml.token_type[260]: unknown type " + std::to_string(type));
  }
  vocabulary.types.back() = static_cast<int32_t>(TokenType::kSymbol);
  vocabulary.normalizes = true;
  EXPECT_TRUE(MakeTokenizer(vocabulary).ok());
}

TEST(MakeTokenizerTest, StripsMustBeTokens) {
  Vocabulary vocabulary = MakeVocabulary("gpt-2", {});
  vocabulary.strip_left = {256};
  EXPECT_EQ(MakeTokenizer(vocabulary).status().field(), "lstrip");
  vocabulary.strip_left = {};
  vocabulary.strip_right = {-1};
  EXPECT_EQ(MakeTokenizer(vocabulary).status().field(), "rstrip");
}

// What a message says is no token of the template, whatever the kind of vocabulary.
TEST(MakeTokenizerTest, QuotedTextHasNoControlTokensInAnyKind) {
  Spans quoted;
  AddSpan(1, 4, &quoted);
  for (const char* model : {"llama", "t5"}) {
    Vocabulary vocabulary = MakeSentencePieceVocabulary(model, {"▁", "a"});
    const auto tokenizer = MustMakeTokenizer(vocabulary);
    const std::vector<TokenId> ids = tokenizer->Encode("a<s>a<s>", {.quoted = quoted});
    EXPECT_EQ(std::count(ids.begin(), ids.end(), kBosToken), 1) << model;
    EXPECT_EQ(ids.size(), 1U + 3U + 1U + 1U) << model;
  }
  const auto tokenizer = MustMakeTokenizer(MakeWordPieceVocabulary({"▁a"}));
  AddSpan(4, 6, &quoted);
  const std::vector<TokenId> ids =
      tokenizer->Encode("a[SEP]a[SEP]", {.add_special = false, .quoted = quoted});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 1);
}

}  // namespace
}  // namespace ropeway::tokenizer
