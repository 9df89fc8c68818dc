#include "tokenizer/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>

#include "base/utf8.h"

namespace ropeway::tokenizer {
namespace {

constexpr char32_t kLastSpace = 0x3000;

std::bitset<256> BytesOfSpaces() {
  std::bitset<256> bytes;
  for (char32_t c = 0; c <= kLastSpace; ++c) {
    if (!IsWhiteSpace(c)) continue;
    std::string text;
    base::AppendUtf8(c, text);
    for (const char byte : text) bytes.set(static_cast<uint8_t>(byte));
  }
  return bytes;
}

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0U) == 0x80U; }

}  // namespace

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == kLastSpace;
}

size_t LeadingSpace(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    if (step.kind != base::Utf8Kind::kValid || !IsWhiteSpace(step.code_point)) break;
    at += step.length;
  }
  return at;
}

size_t TrailingSpace(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && IsContinuation(text[begin])) --begin;
    const base::Utf8Step step = base::StepUtf8(text.substr(0, end), begin);
    if (step.kind != base::Utf8Kind::kValid || begin + step.length != end ||
        !IsWhiteSpace(step.code_point)) {
      break;
    }
    end = begin;
  }
  return text.size() - end;
}

size_t FirstSpace(std::string_view text) {
  if (text.starts_with(' ')) return 1;
  return text.starts_with(kSpaceSymbol) ? kSpaceSymbol.size() : 0;
}

size_t LastSpace(std::string_view text) {
  if (text.ends_with(' ')) return 1;
  return text.ends_with(kSpaceSymbol) ? kSpaceSymbol.size() : 0;
}

bool IsByteOfSpace(uint8_t byte) {
  static const std::bitset<256> bytes = BytesOfSpaces();
  return bytes[byte];
}

size_t CharacterLength(std::string_view text, size_t at) {
  const base::Utf8Step step = base::StepUtf8(text, at);
  return step.kind == base::Utf8Kind::kValid ? step.length : 1;
}

namespace {

// No character decomposes into more.
constexpr size_t kMostDecomposed = 4;

constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kDotAbove = 0x307;

bool IsAsciiByte(char byte) { return static_cast<uint8_t>(byte) < 0x80; }

// Whether the character may combine with one before it, or change places with it.
bool MayCombine(char32_t c) {
  constexpr char32_t kFirstMark = 0x300;
  if (c < kFirstMark) return false;
  // Hangul's vowels and final consonants.
  if (c >= 0x1160 && c <= 0x11FF) return true;
  const CharacterKind kind = KindOf(c);
  return kind == CharacterKind::kMark || kind == CharacterKind::kNonspacingMark;
}

}  // namespace

CharacterKind KindOf(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
      return CharacterKind::kNonspacingMark;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharacterKind::kMark;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharacterKind::kPunctuation;
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return CharacterKind::kControl;
    default:
      return CharacterKind::kOther;
  }
}

void AppendLowercase(char32_t c, std::u32string* text) {
  // The one character whose lower case is two.
  if (c == kCapitalIWithDot) {
    text->append({U'i', kDotAbove});
  } else {
    text->push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

void AppendDecomposed(char32_t c, std::u32string* text) {
  std::array<utf8proc_int32_t, 2 * kMostDecomposed> to{};
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), to.data(), static_cast<utf8proc_ssize_t>(to.size()),
      UTF8PROC_DECOMPOSE, nullptr);
  if (count <= 0 || static_cast<size_t>(count) > to.size()) {
    text->push_back(c);
    return;
  }
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    text->push_back(static_cast<char32_t>(to[i]));
  }
}

void Composer::Begin(std::string_view text) {
  text_ = text;
  at_ = 0;
}

bool Composer::Run(Work* work, std::string* out) {
  while (at_ < text_.size()) {
    if (!work->left()) return false;
    // ASCII stays; but its last character may take marks that follow.
    const size_t most = std::min(text_.size(), at_ + work->window());
    size_t end = at_;
    while (end < most && IsAsciiByte(text_[end])) ++end;
    if (end > at_ && end < text_.size() && !IsAsciiByte(text_[end])) --end;
    if (end > at_) {
      out->append(text_.substr(at_, end - at_));
      work->SpendScan(end - at_);
      at_ = end;
      continue;
    }
    size_t characters = 0;
    end = BlockEnd(&characters);
    ComposeBlock(text_.substr(at_, end - at_), characters, out);
    // Reordering marks takes the square of their number.
    work->Spend(characters * (1 + characters / 8));
    at_ = end;
  }
  return true;
}

size_t Composer::BlockEnd(size_t* characters) const {
  size_t end = at_ + base::StepUtf8(text_, at_).length;
  for (*characters = 1; end < text_.size() && *characters < kMostTogether; ++*characters) {
    const base::Utf8Step step = base::StepUtf8(text_, end);
    if (!MayCombine(step.code_point)) break;
    end += step.length;
  }
  return end;
}

void Composer::ComposeBlock(std::string_view block, size_t characters, std::string* out) {
  code_points_.resize(characters * kMostDecomposed);
  const utf8proc_ssize_t decomposed =
      utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t*>(block.data()),
                         static_cast<utf8proc_ssize_t>(block.size()), code_points_.data(),
                         static_cast<utf8proc_ssize_t>(code_points_.size()),
                         static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (decomposed < 0 || static_cast<size_t>(decomposed) > code_points_.size()) {
    out->append(block);
    return;
  }
  const utf8proc_ssize_t composed =
      utf8proc_normalize_utf32(code_points_.data(), decomposed,
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < composed; ++i) {
    base::AppendUtf8(static_cast<char32_t>(code_points_[static_cast<size_t>(i)]), *out);
  }
}

}  // namespace ropeway::tokenizer
