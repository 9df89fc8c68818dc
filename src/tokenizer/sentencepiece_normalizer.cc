#include "tokenizer/sentencepiece_normalizer.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/characters.h"

namespace ropeway::tokenizer {
bool MayHaveSpacePrefix(SpacePrefix prefix, Before before) {
  switch (prefix) {
    case SpacePrefix::kNone:
      return false;
    case SpacePrefix::kEach:
    case SpacePrefix::kEachIfNone:
      return before != Before::kText;
    case SpacePrefix::kBeginningOnly:
      return before == Before::kNothing;
  }
  return false;
}

bool HasSpacePrefix(SpacePrefix prefix, Before before, std::string_view text) {
  if (!MayHaveSpacePrefix(prefix, before)) return false;
  return prefix == SpacePrefix::kEach || !(text.starts_with(' ') || text.starts_with(kSpaceSymbol));
}

void WordBounds::Add(std::string_view token) {
  for (size_t at = token.find(kSpaceSymbol); at != std::string_view::npos;
       at = token.find(kSpaceSymbol, at + 1)) {
    if (at > 0) spanned_.set(static_cast<uint8_t>(token[at - 1]));
  }
}

namespace {

constexpr const char* kCharMapField = "tokenizer.ggml.precompiled_charsmap";

// A wrong array may have a circle. What is mapped in real ones has up to some ten bytes.
constexpr size_t kMostMappedBytes = 64;

// A unit of the array is a node: its label (the byte that leads to it), whether a text ends there,
// and the way to its children; or, behind an end, the position of what the text maps to.
constexpr uint32_t kIsValue = 1U << 31U;

uint32_t LabelOf(uint32_t unit) { return unit & (kIsValue | 0xFFU); }
bool EndsText(uint32_t unit) { return (unit >> 8U & 1U) != 0; }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10U << ((unit >> 9U & 1U) * 8U); }
uint32_t ValueOf(uint32_t unit) { return unit & (kIsValue - 1); }

uint32_t ReadLittleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8U * static_cast<unsigned>(i));
  }
  return value;
}

}  // namespace

StatusOr<CharMap> CharMap::Create(std::string_view bytes) {
  CharMap map;
  if (bytes.empty()) return map;
  if (bytes.size() < 4) return VocabularyError(kCharMapField, "has no header");
  const size_t size = ReadLittleEndian(bytes);
  bytes.remove_prefix(4);
  if (size == 0 || size % 4 != 0 || size >= bytes.size()) {
    return VocabularyError(
        kCharMapField, "its array of " + std::to_string(size) + " bytes does not fit into the " +
                           std::to_string(bytes.size()) + " bytes after its header");
  }
  if (bytes.back() != '\0') return VocabularyError(kCharMapField, "must end with a zero byte");
  for (size_t at = 0; at < size; at += 4) {
    map.units_.push_back(ReadLittleEndian(bytes.substr(at, 4)));
  }
  map.texts_ = bytes.substr(size);
  return map;
}

CharMap::Mapping CharMap::Find(std::string_view text, size_t at) const {
  Mapping longest;
  if (units_.empty()) return longest;
  size_t node = OffsetOf(units_[0]);
  const size_t most = std::min(text.size() - at, kMostMappedBytes);
  for (size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<uint8_t>(text[at + i]);
    node ^= byte;
    // A zero byte is the way to a value.
    if (byte == 0 || node >= units_.size() || LabelOf(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= OffsetOf(unit);
    if (!EndsText(unit) || node >= units_.size()) continue;
    const size_t begin = ValueOf(units_[node]);
    if (begin < texts_.size()) longest = {i + 1, std::string_view(texts_.c_str() + begin)};
  }
  return longest;
}

namespace {

// Far more than any word, and less than what the merging of one may have.
constexpr size_t kMostWordBytes = size_t{1} << 27U;

}  // namespace

StatusOr<SentencePieceRules> SentencePieceRules::Create(const Vocabulary& vocabulary,
                                                        const TokenTable* table) {
  StatusOr<CharMap> char_map = CharMap::Create(vocabulary.char_map);
  if (!char_map.ok()) return char_map.status();
  SentencePieceRules rules(*std::move(char_map));
  rules.symbols_ = &table->symbols();
  rules.prefix_ = vocabulary.space_prefix;
  rules.remove_extra_spaces_ = vocabulary.remove_extra_spaces;
  rules.keeps_first_space_ = vocabulary.remove_extra_spaces && vocabulary.keeps_first_space;
  rules.maps_space_symbol_ = rules.char_map().Find(kSpaceSymbol, 0).to == " ";
  rules.keeps_characters_ = vocabulary.char_map.empty() && !vocabulary.remove_extra_spaces;
  return rules;
}

void NormalizedWords::Begin(std::string_view text, Before before) {
  text_ = text;
  at_ = 0;
  letters_ = {};
  spaces_ = 0;
  prefix_ = MayHaveSpacePrefix(rules_.prefix(), before);
  drops_spaces_ = rules_.remove_extra_spaces() && before != Before::kText && !KeepsFirstSpace();
  DropWord();
}

// Transformers has sentencepiece encode a text that begins with a space, its own in front or one of
// the text, behind another word, which it takes off again. What only becomes a space, as a tab may,
// is dropped as ever; so is what comes behind its own, a "▁", where the table makes a space of
// that.
bool NormalizedWords::KeepsFirstSpace() const {
  if (!rules_.keeps_first_space()) return false;
  if (prefix_) return !rules_.maps_space_symbol();
  return text_.starts_with(' ') || text_.starts_with(kSpaceSymbol);
}

bool NormalizedWords::Next(Work* work) {
  if (whole_) DropWord();
  while (!letters_.empty() || at_ < text_.size()) {
    if (!work->left()) return false;
    if (letters_.empty()) TakeLetters(work);
    if (!letters_.empty() && TakeLetter()) return whole_ = true;
  }
  EndText();
  return whole_ = true;
}

void NormalizedWords::DropWord() {
  word_.clear();
  whole_ = false;
  if (word_.capacity() > kMostKept) std::string().swap(word_);
}

// What the next bytes of the text are normalized to.
void NormalizedWords::TakeLetters(Work* work) {
  size_t length = 0;
  if (rules_.keeps_first_space() && text_.substr(at_).starts_with(kSpaceSymbol)) {
    length = kSpaceSymbol.size();
    letters_ = " ";
  } else if (const auto symbol = rules_.symbols().FindFirst(text_, at_, at_ + 1)) {
    length = symbol->length;
    letters_ = text_.substr(at_, length);
  } else if (const CharMap::Mapping mapping = rules_.char_map().Find(text_, at_);
             mapping.length > 0) {
    length = mapping.length;
    letters_ = mapping.to;
  } else {
    const base::Utf8Step step = base::StepUtf8(text_, at_);
    const bool valid = step.kind == base::Utf8Kind::kValid;
    length = valid ? step.length : 1;
    letters_ = valid ? text_.substr(at_, length) : base::kReplacementCharacter;
  }
  at_ += length;
  work->Spend(std::max(length, letters_.size()));
  if (drops_spaces_) {
    letters_.remove_prefix(std::min(letters_.find_first_not_of(' '), letters_.size()));
  }
  if (!letters_.empty()) {
    drops_spaces_ = rules_.remove_extra_spaces() && letters_.back() == ' ';
  }
}

// Adds the next letter to the word, or a space that comes before it; or returns true, where the
// word ends before that.
bool NormalizedWords::TakeLetter() {
  const std::string_view letter = letters_.substr(0, CharacterLength(letters_, 0));
  const bool space = letter == " " || letter == kSpaceSymbol;
  const bool always = rules_.prefix() == SpacePrefix::kEach || rules_.keeps_first_space();
  if (std::exchange(prefix_, false) && (always || !space)) ++spaces_;
  // With remove_extra_spaces those at the end are dropped, so they wait for what comes after them.
  if (space && rules_.remove_extra_spaces()) {
    ++spaces_;
    letters_.remove_prefix(letter.size());
    return false;
  }
  if (spaces_ > 0) return WriteSpace();
  if (space) {
    ++spaces_;
    letters_.remove_prefix(letter.size());
    return WriteSpace();
  }
  if (word_.size() >= kMostWordBytes) return true;
  word_ += letter;
  letters_.remove_prefix(letter.size());
  return false;
}

// Or returns true, where the word ends before it.
bool NormalizedWords::WriteSpace() {
  if (EndsWord()) return true;
  word_ += kSpaceSymbol;
  --spaces_;
  return false;
}

void NormalizedWords::EndText() {
  if (rules_.remove_extra_spaces()) return;
  // A text that is normalized to nothing leaves the space in front.
  if (std::exchange(prefix_, false) && rules_.prefix() == SpacePrefix::kEach) ++spaces_;
  for (; spaces_ > 0; --spaces_) word_ += kSpaceSymbol;
}

bool NormalizedWords::EndsWord() const {
  if (word_.size() >= kMostWordBytes) return true;
  return !word_.empty() && bounds_.MayCutAfter(static_cast<uint8_t>(word_.back()));
}

}  // namespace ropeway::tokenizer
