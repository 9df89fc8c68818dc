#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace ropeway::base {
namespace {

constexpr std::string_view kR = kReplacementCharacter;

std::string Times(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += kR;
  return text;
}

TEST(Utf8Test, EveryScalarValueRoundTrips) {
  for (char32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    AppendUtf8(code_point, text);
    const Utf8Step step = StepUtf8(text, 0);
    ASSERT_EQ(step.kind, Utf8Kind::kValid) << static_cast<uint32_t>(code_point);
    ASSERT_EQ(step.length, text.size());
    ASSERT_EQ(step.code_point, code_point);
  }
}

// The expected counts come from Python's bytes.decode("utf-8", "replace").
TEST(Utf8Test, ReplacesMaximalSubparts) {
  EXPECT_EQ(ReplaceInvalidUtf8("plain"), "plain");
  EXPECT_EQ(ReplaceInvalidUtf8("\x80"), Times(1));
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\xAF"), Times(2));             // Overlong.
  EXPECT_EQ(ReplaceInvalidUtf8("\xE0\x80\x80"), Times(3));         // Overlong.
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80"), Times(3));         // A surrogate.
  EXPECT_EQ(ReplaceInvalidUtf8("\xF4\x90\x80\x80"), Times(4));     // Beyond U+10FFFF.
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\x98z"), Times(1) + "z");  // One subpart of three bytes.
  EXPECT_EQ(ReplaceInvalidUtf8("\xE2\x82\xE2\x82\xAC"), Times(1) + "\xE2\x82\xAC");
  EXPECT_EQ(ReplaceInvalidUtf8("\xF1\x80\x80"), Times(1));
}

TEST(Utf8Test, PrintableTextMovesNoCursor) {
  EXPECT_EQ(PrintableText("a \xC3\xA9~"), "a \xC3\xA9~");
  EXPECT_EQ(PrintableText("\x1B[2J\n"), Times(1) + "[2J" + Times(1));
  EXPECT_EQ(PrintableText("\x7F\xC2\x80\xC2\x9F\xC2\xA0"), Times(3) + "\xC2\xA0");
  EXPECT_EQ(PrintableText("\xFFz\xF0\x9F"), Times(1) + "z" + Times(1));
  for (const char* moves :
       {"\xD8\x9C", "\xE2\x80\x8E", "\xE2\x80\x8F", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAA",
        "\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x81\xA9"}) {
    EXPECT_EQ(PrintableText(moves), Times(1));
  }
  // A joiner, which emoji have, and a dash.
  EXPECT_EQ(PrintableText("\xE2\x80\x8D\xE2\x80\x94"), "\xE2\x80\x8D\xE2\x80\x94");
}

TEST(Utf8Test, TellsTruncatedFromInvalid) {
  EXPECT_EQ(StepUtf8("\xF0\x9F", 0).kind, Utf8Kind::kTruncated);
  EXPECT_EQ(StepUtf8("\xF0\x9F", 0).length, 2U);
  EXPECT_EQ(StepUtf8("\xF0\x80", 0).kind, Utf8Kind::kInvalid);
  EXPECT_EQ(StepUtf8("\xF0\x80", 0).length, 1U);
  EXPECT_EQ(StepUtf8("\xF5", 0).kind, Utf8Kind::kInvalid);
}

}  // namespace
}  // namespace ropeway::base
