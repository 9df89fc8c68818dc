#include "tokenizer/sentencepiece_text.h"

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

}  // namespace ropeway::tokenizer
