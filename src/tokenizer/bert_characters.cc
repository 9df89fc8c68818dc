#include "tokenizer/bert_characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace ropeway::tokenizer {
namespace {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

// All punctuation, nonspacing marks and format characters that Unicode 9 to 15 added, and no older
// ones of these kinds. Other characters may be in between: they are kOther in any case.
constexpr auto kYounger = std::to_array<CharacterRange>({
    {0x61D, 0x61D},     {0x7FD, 0x7FD},     {0x890, 0x8E2},     {0x9FD, 0x9FE},
    {0xA76, 0xA76},     {0xAFA, 0xAFF},     {0xB55, 0xB55},     {0xC04, 0xC3C},
    {0xC77, 0xC77},     {0xC84, 0xC84},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
    {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x180F, 0x1886},
    {0x1ABF, 0x1ACE},   {0x1B7D, 0x1B7E},   {0x1DF6, 0x1DFB},   {0x2E43, 0x2E5D},
    {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},
    {0x10D24, 0x10F89}, {0x11070, 0x11074}, {0x110C2, 0x110CD}, {0x111CF, 0x111CF},
    {0x1123E, 0x11241}, {0x1133B, 0x1133B}, {0x11438, 0x1145E}, {0x11660, 0x1166C},
    {0x116B9, 0x116B9}, {0x1182F, 0x11FFF}, {0x12FF1, 0x13455}, {0x16E97, 0x16F4F},
    {0x16FE2, 0x16FE4}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E4EF}, {0x1E944, 0x1E95F},
});

bool IsYounger(char32_t c) {
  const auto* const behind = std::upper_bound(
      kYounger.begin(), kYounger.end(), c,
      [](char32_t value, const CharacterRange& range) { return value < range.first; });
  return behind != kYounger.begin() && c <= std::prev(behind)->last;
}

}  // namespace

CharacterKind BertKindOf(char32_t c) {
  switch (c) {
    // What later versions of Unicode changed.
    case 0x166D:   // Canadian syllabics' chi sign.
    case 0x111C9:  // Sharada's sandhi mark.
      return CharacterKind::kPunctuation;
    case 0x1734:  // Hanunoo's pamudpod.
      return CharacterKind::kNonspacingMark;
    default:
      break;
  }
  if (IsYounger(c) || utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_CN) {
    return CharacterKind::kOther;
  }
  return KindOf(c);
}

}  // namespace ropeway::tokenizer
