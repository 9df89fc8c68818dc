#include "tokenizer/hf_text_steps.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "tokenizer/characters.h"
#include "tokenizer/hf_fields.h"
#include "tokenizer/split_patterns.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

// What ByteLevel splits by where it has use_regex, and Digits.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kOneDigit = R"(\p{N})";
constexpr const char* kDigits = R"(\p{N}+)";

class TextStepsReader {
 public:
  StatusOr<TextSteps> Read(const json& tokenizer) {
    if (!ReadPreTokenizer(Member(tokenizer, "pre_tokenizer")) ||
        !ReadNormalizer(Member(tokenizer, "normalizer")) ||
        !CheckSpaces(Member(Member(tokenizer, "model"), "byte_fallback") == true)) {
      return status_;
    }
    return std::move(steps_);
  }

 private:
  // Each returns false after it has set status_.
  bool ReadNormalizer(const json& normalizer);
  bool ReadPreTokenizer(const json& pre);
  bool ReadSplit(const json& split);
  bool ReadMetaspace(const json& metaspace);
  bool CheckSpaces(bool byte_fallback);

  bool Lacks(const char* field, const std::string& what) {
    const std::string where = "tokenizer.json " + Quoted(field);
    status_ = {StatusCode::kUnimplemented, where + ": " + what + " is not supported", where};
    return false;
  }

  TextSteps steps_;
  bool metaspace_ = false;        // The pre-tokenizer does.
  bool splits_at_space_ = false;  // A Split by " ".
  Status status_;
};

bool TextStepsReader::ReadNormalizer(const json& normalizer) {
  if (normalizer.is_null()) return true;
  const std::string type = TextOf(Member(normalizer, "type"));
  if (type == "Sequence") {
    for (const json& part : Member(normalizer, "normalizers")) {
      if (!ReadNormalizer(part)) return false;
    }
    return true;
  }
  if (type == "NFC" && steps_.byte_level) {
    steps_.form = TextForm::kNfc;
    return true;
  }
  if (!steps_.byte_level && type == "Prepend" &&
      TextOf(Member(normalizer, "prepend")) == kSpaceSymbol) {
    steps_.space_prefix = SpacePrefix::kEach;
    steps_.normalizes_prefix = true;
    return true;
  }
  if (!steps_.byte_level && type == "Replace" &&
      TextOf(Member(normalizer, "content")) == kSpaceSymbol &&
      TextOf(Member(Member(normalizer, "pattern"), "String")) == " ") {
    steps_.normalizes_spaces = true;
    return true;
  }
  return Lacks("normalizer", "type " + Quoted(type));
}

bool TextStepsReader::ReadPreTokenizer(const json& pre) {
  if (pre.is_null()) return true;
  const std::string type = TextOf(Member(pre, "type"));
  if (type == "Sequence") {
    for (const json& part : Member(pre, "pretokenizers")) {
      if (!ReadPreTokenizer(part)) return false;
    }
    return true;
  }
  // It would split the letters of bytes.
  if (steps_.byte_level)
    return Lacks("pre_tokenizer", "type " + Quoted(type) + " behind ByteLevel");
  if (type == "ByteLevel") {
    if (Member(pre, "add_prefix_space") == true) {
      return Lacks("pre_tokenizer", "add_prefix_space of ByteLevel");
    }
    steps_.byte_level = true;
    if (Member(pre, "use_regex") != false) steps_.patterns.emplace_back(kByteLevelPattern);
    return true;
  }
  if (type == "Split") return ReadSplit(pre);
  if (type == "Digits") {
    steps_.patterns.emplace_back(Member(pre, "individual_digits") == true ? kOneDigit : kDigits);
    return true;
  }
  if (type == "Metaspace") return ReadMetaspace(pre);
  return Lacks("pre_tokenizer", "type " + Quoted(type));
}

bool TextStepsReader::ReadSplit(const json& split) {
  const json& pattern = Member(split, "pattern");
  const std::string behavior = TextOf(Member(split, "behavior"));
  const bool inverted = Member(split, "invert") == true;
  if (TextOf(Member(pattern, "String")) == " " && !inverted) {
    splits_at_space_ = true;
    return true;
  }
  const json& regex = Member(pattern, "Regex");
  // "Removed" of what lies between matches is nothing where they match all of a text.
  const bool pieces = (behavior == "Isolated" && !inverted) ||
                      (behavior == "Removed" && inverted && MatchesAllText(TextOf(regex)));
  if (!regex.is_string() || !pieces) {
    return Lacks("pre_tokenizer", "a Split with behavior " + Quoted(behavior) +
                                      (inverted ? ", inverted," : "") +
                                      (regex.is_string() ? "" : " by a text"));
  }
  steps_.patterns.push_back(regex.get<std::string>());
  return true;
}

bool TextStepsReader::ReadMetaspace(const json& metaspace) {
  const std::string scheme = TextOf(Member(metaspace, "prepend_scheme"));
  const bool prefix = Member(metaspace, "add_prefix_space") != false;
  if (scheme == "never" || (scheme.empty() && !prefix)) {
    steps_.space_prefix = SpacePrefix::kNone;
  } else if (scheme == "first") {
    steps_.space_prefix = SpacePrefix::kBeginningOnly;
  } else if (scheme == "always" || scheme.empty()) {
    steps_.space_prefix = SpacePrefix::kEachIfNone;
  } else {
    return Lacks("pre_tokenizer", "prepend_scheme " + Quoted(scheme));
  }
  metaspace_ = true;
  if (Member(metaspace, "split") != false)
    steps_.splits_words = true;  // Older files do not say so.
  if (TextOf(Member(metaspace, "replacement")) == kSpaceSymbol) return true;
  return Lacks("pre_tokenizer", "another replacement than U+2581");
}

// Byte-level BPE splits by patterns and spells spaces as bytes, the other kind writes "▁" and does
// not split. What a file says besides must not change that.
bool TextStepsReader::CheckSpaces(bool byte_fallback) {
  if (steps_.byte_level) {
    if (metaspace_) return Lacks("pre_tokenizer", "Metaspace beside ByteLevel");
    if (splits_at_space_) return Lacks("pre_tokenizer", "a Split by \" \" beside ByteLevel");
    return true;
  }
  if (!byte_fallback) {
    return Lacks("pre_tokenizer", "a BPE without ByteLevel and without byte_fallback");
  }
  if (!steps_.patterns.empty())
    return Lacks("pre_tokenizer", "a split by patterns without ByteLevel");
  // As in Gemma's files, whose normalizer leaves no space to split at.
  if (splits_at_space_ && !steps_.normalizes_spaces) {
    return Lacks("pre_tokenizer", "a Split by \" \" where the normalizer does not replace it");
  }
  if (metaspace_ || steps_.normalizes_spaces) return true;
  return Lacks("normalizer", "a BPE with byte_fallback that does not write spaces as U+2581");
}

}  // namespace

StatusOr<TextSteps> ReadTextSteps(const json& tokenizer) {
  return TextStepsReader().Read(tokenizer);
}

}  // namespace ropeway::tokenizer
