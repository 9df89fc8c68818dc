#include "model/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/open_model.h"
#include "model/test_gguf_writer.h"

namespace ropeway::model {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Describe(const GgufWriter& writer) {
  const TempFile temp(writer.Bytes());
  const auto file = OpenModel(temp.path());
  return file.ok() ? DescribeGguf(**file) : "cannot open: " + file.status().message();
}

TEST(DescribeTest, ShowsWhatIsInAModel) {
  const std::string text = Describe(TinyLlama());
  EXPECT_THAT(text, HasSubstr("GGUF version 3"));
  EXPECT_THAT(text, ::testing::ContainsRegex("llama.block_count +uint32 +2\n"));
  EXPECT_THAT(text,
              ::testing::ContainsRegex("tokenizer.ggml.tokens +string\\[267\\] +\\[\"<\\|end"));
  EXPECT_THAT(text,
              ::testing::ContainsRegex("tokenizer.ggml.token_type +int32\\[267\\] +\\[3, 3, 3, 1"));
  EXPECT_THAT(text, ::testing::ContainsRegex("blk.1.ffn_down.weight +Q4_1 +\\[96, 64\\] +3840\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("F32 +5 tensors, 1280 bytes"));
}

TEST(DescribeTest, ShowsTypesThatAreUnknown) {
  GgufWriter unknown = TinyLlama();
  unknown.RemoveTensor("output_norm.weight");
  unknown.AddRawTensor("output_norm.weight", {64}, 77, "");
  EXPECT_THAT(Describe(unknown), HasSubstr("type 77"));
}

TEST(DescribeTest, EscapesWhatWouldReachTheTerminal) {
  GgufWriter writer;
  writer.SetString("evil", std::string("\x1b[31mred\x07\xff\xc2\x9b") + std::string(500, 'x'));
  const std::string text = Describe(writer);
  EXPECT_THAT(text, HasSubstr("\\x1B[31mred\\x07\\xFF\\xC2\\x9B"));
  EXPECT_THAT(text, HasSubstr("... (512 bytes)"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr(std::string(100, 'x'))));
}

TEST(DescribeTest, QuoteKeepsWholeCharacters) {
  EXPECT_EQ(QuoteForTerminal("a\"\\\n", 10), "\"a\\\"\\\\\\n\"");
  EXPECT_EQ(QuoteForTerminal("d\xc3\xa9j\xc3\xa0", 2), "\"d\xc3\xa9\"... (6 bytes)");
  EXPECT_EQ(QuoteForTerminal("\xed\xa0\x80", 9), "\"\\xED\\xA0\\x80\"");  // A surrogate.
  EXPECT_EQ(QuoteForTerminal("\xe2\x82", 9), "\"\\xE2\\x82\"");           // Cut short.
  EXPECT_EQ(QuoteForTerminal("\xc0\xaf", 9), "\"\\xC0\\xAF\"");           // Overlong.
}

}  // namespace
}  // namespace ropeway::model
