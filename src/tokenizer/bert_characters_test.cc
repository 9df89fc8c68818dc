#include "tokenizer/bert_characters.h"

#include <gtest/gtest.h>

namespace ropeway::tokenizer {
namespace {

// As `tokenizers` 0.23 divides "a" + character + "b" with all-MiniLM-L6-v2's files: one word, two,
// a word of its own, or as if it were not there.
TEST(BertCharactersTest, AreThoseOfUnicode8) {
  using enum CharacterKind;
  struct Row {
    char32_t c;
    CharacterKind kind;
  };
  const Row rows[] = {
      // Not assigned, and what never will be.
      {0x378, kOther},
      {0x191F, kOther},
      {0x2FE0, kOther},
      {0x40000, kOther},
      {0xFFFE, kOther},
      {0x10FFFF, kOther},
      // Control and format characters, private use.
      {0x7, kControl},
      {0xAD, kControl},
      {0x200B, kControl},
      {0xFEFF, kControl},
      {0xE000, kControl},
      {0xF8FF, kControl},
      {0xF0000, kControl},
      {0x10FFFD, kControl},
      {0xE0001, kControl},
      // Younger format characters.
      {0x890, kOther},
      {0x8E2, kOther},
      {0x13430, kOther},
      // Marks, old and young ones.
      {0x301, kNonspacingMark},
      {0x8E3, kNonspacingMark},
      {0xA8F1, kNonspacingMark},
      {0x8E1, kOther},
      {0x9FE, kOther},
      {0xAFA, kOther},
      {0x1DFB, kOther},
      {0x1DFC, kNonspacingMark},
      {0x1E4EF, kOther},
      {0x903, kMark},
      // Punctuation, old and young.
      {'!', kPunctuation},
      {0x3002, kPunctuation},
      {0x2E42, kPunctuation},
      {0x2E43, kOther},
      {0x2E5D, kOther},
      {0x1E95E, kOther},
      {0x11FFF, kOther},
      {0x12000, kOther},
      // Categories that Unicode changed.
      {0x166D, kPunctuation},
      {0x111C9, kPunctuation},
      {0x1734, kNonspacingMark},
  };
  for (const Row& row : rows) EXPECT_EQ(BertKindOf(row.c), row.kind) << std::hex << uint32_t{row.c};
}

}  // namespace
}  // namespace ropeway::tokenizer
