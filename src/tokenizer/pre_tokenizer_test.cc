#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ropeway {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces Split(const std::string& name, std::string_view text) {
  const StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Create(name);
  EXPECT_TRUE(pre_tokenizer.ok());
  return pre_tokenizer.ok() ? pre_tokenizer->Split(text) : Pieces{};
}

// The expected pieces are those of Hugging Face `tokenizers`; scripts/check_tokenizer.py compares
// thousands more.
TEST(PreTokenizerTest, EachFamilyCutsItsOwnWay) {
  constexpr std::string_view kText = "We'LL see 1234  x!!\n\n y";
  EXPECT_EQ(Split("gpt-2", kText),
            (Pieces{"We", "'", "LL", " see", " 1234", " ", " x", "!!", "\n\n", " y"}));
  EXPECT_EQ(Split("smollm", kText), (Pieces{"We", "'", "LL", " see", " ", "1", "2", "3", "4", " ",
                                            " x", "!!", "\n\n", " y"}));
  EXPECT_EQ(Split("llama-bpe", kText),
            (Pieces{"We", "'LL", " see", " ", "123", "4", " ", " x", "!!\n\n", " y"}));
  EXPECT_EQ(Split("qwen2", kText),
            (Pieces{"We", "'LL", " see", " ", "1", "2", "3", "4", " ", " x", "!!\n\n", " y"}));
}

TEST(PreTokenizerTest, SmollmSeesNothingBeyondADigit) {
  EXPECT_EQ(Split("smollm", "a  1"), (Pieces{"a", "  ", "1"}));
  EXPECT_EQ(Split("gpt-2", "a  1"), (Pieces{"a", " ", " 1"}));
}

TEST(PreTokenizerTest, SpaceIsWhatUnicodeCallsWhiteSpace) {
  EXPECT_EQ(Split("gpt-2", "a\u00a0\u3000b"), (Pieces{"a", "\u00a0", "\u3000", "b"}));
  // U+180E is none, though older Unicode (and PCRE2) took it for one.
  EXPECT_EQ(Split("gpt-2", "a!\u180e!"), (Pieces{"a", "!\u180e!"}));
}

TEST(PreTokenizerTest, AliasesMeanTheSame) {
  EXPECT_EQ(Split("llama3", "I'LL 1234"), Split("llama-bpe", "I'LL 1234"));
  EXPECT_EQ(Split("llama-v3", "I'LL 1234"), Split("llama-bpe", "I'LL 1234"));
}

TEST(PreTokenizerTest, OthersAreRefusedByName) {
  const StatusOr<PreTokenizer> unknown = PreTokenizer::Create("viking");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().message(),
            "tokenizer.ggml.pre: \"viking\" is not supported; supported: gpt-2, smollm, llama-bpe, "
            "qwen2");
}

}  // namespace
}  // namespace ropeway
