#include "tokenizer/hf_tokenizer_json.h"

#include <algorithm>
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
    status_ = LacksField(field, what);
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
  if (steps_.byte_level) return Lacks("pre_tokenizer", "type " + Quoted(type) + " after ByteLevel");
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
                                      (inverted ? " and invert" : "") +
                                      (regex.is_string() ? "" : " without a Regex pattern"));
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
  return Lacks("pre_tokenizer", "a replacement other than U+2581");
}

// Byte-level BPE splits by patterns and spells spaces as bytes, the other kind writes "▁" and does
// not split. What a file says besides must not change that.
bool TextStepsReader::CheckSpaces(bool byte_fallback) {
  if (steps_.byte_level) {
    if (metaspace_) return Lacks("pre_tokenizer", "Metaspace together with ByteLevel");
    if (splits_at_space_) return Lacks("pre_tokenizer", "a Split by \" \" together with ByteLevel");
    return true;
  }
  if (!byte_fallback) {
    return Lacks("pre_tokenizer", "a BPE without ByteLevel and without byte_fallback");
  }
  if (!steps_.patterns.empty())
    return Lacks("pre_tokenizer", "a split by patterns without ByteLevel");
  // As in Gemma's files, whose normalizer leaves no space to split at.
  if (splits_at_space_ && !steps_.normalizes_spaces) {
    return Lacks("pre_tokenizer", "a Split by \" \" if the normalizer does not replace spaces");
  }
  if (metaspace_ || steps_.normalizes_spaces) return true;
  return Lacks("normalizer", "a BPE with byte_fallback that does not write spaces as U+2581");
}

}  // namespace

StatusOr<TextSteps> ReadTextSteps(const json& tokenizer) {
  return TextStepsReader().Read(tokenizer);
}

namespace {

Status ReadVocab(const json& model, size_t rows, BpeModel* read) {
  const json& vocab = Member(model, "vocab");
  if (!vocab.is_object() || vocab.empty() || vocab.size() > kMaxVocabularyTokens) {
    return BrokenField("model.vocab", "must be an object of 1 to " +
                                          std::to_string(kMaxVocabularyTokens) + " tokens");
  }
  // Ids are dense except for a few; a single huge one must not allocate much.
  const size_t most = std::max(vocab.size(), rows) * 2 + 1000;
  std::vector<bool> seen;
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= most) {
      return BrokenField("model.vocab", "the id of " + Quoted(token) +
                                            " must be an integer from 0 to " +
                                            std::to_string(most - 1));
    }
    const auto at = static_cast<size_t>(id.get<uint64_t>());
    if (at >= seen.size()) seen.resize(at + 1);
    if (seen[at]) {
      return BrokenField("model.vocab", "the id " + std::to_string(at) + " is given to both " +
                                            Quoted(read->tokens[at]) + " and " + Quoted(token));
    }
    seen[at] = true;
    if (at >= read->tokens.size()) read->tokens.resize(at + 1);
    read->tokens[at] = token;
  }
  read->types.assign(read->tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) continue;
    read->tokens[i] = "[PAD" + std::to_string(i) + "]";
    read->types[i] = static_cast<int32_t>(TokenType::kUnused);
  }
  return {};
}

// "left right", or since transformers 4.45 ["left", "right"].
Status ReadMerges(const json& model, BpeModel* read) {
  const json& merges = Member(model, "merges");
  if (!merges.is_array()) return BrokenField("model.merges", "must be a list");
  read->merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const json& merge = merges[i];
    if (merge.is_string()) {
      read->merges.push_back(merge.get<std::string>());
      continue;
    }
    if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
      return BrokenField("model.merges[" + std::to_string(i) + "]", "must be a pair of tokens");
    }
    const auto& left = merge[0].get_ref<const std::string&>();
    const auto& right = merge[1].get_ref<const std::string&>();
    if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos) {
      return LacksField("model.merges[" + std::to_string(i) + "]", "a token with a space");
    }
    read->merges.push_back(left);
    read->merges.back().append(" ").append(right);
  }
  return {};
}

// Metaspace may split a text before each "▁". No piece has one behind its beginning then, so the
// merges that would make such a token are never made, and the others do not reach across.
void SplitMergesAtSpaces(BpeModel* read) {
  std::erase_if(read->merges, [](const std::string& merge) {
    const size_t at = merge.rfind(kSpaceSymbol);
    return at != std::string::npos && at > 0;
  });
}

// "<0x0A>" stands for a byte.
void SetByteTypes(BpeModel* read) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (size_t i = 0; i < read->tokens.size(); ++i) {
    const std::string& token = read->tokens[i];
    if (token.size() == 6 && token.starts_with("<0x") && token.ends_with(">") &&
        kHex.find(token[3]) != kHex.npos && kHex.find(token[4]) != kHex.npos) {
      read->types[i] = static_cast<int32_t>(TokenType::kByte);
    }
  }
}

}  // namespace

Status CheckBpeModel(const json& model) {
  if (!model.is_object()) return BrokenField("model", "must be an object");
  const std::string type = TextOf(Member(model, "type"));
  if (type != "BPE" && !(type.empty() && model.contains("merges"))) {
    return LacksField("model", "type " + Quoted(type));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!TextOf(Member(model, key)).empty())
      return LacksField(std::string("model.") + key, "a non-empty string");
  }
  if (Member(model, "dropout").is_number() && Member(model, "dropout") != 0.0) {
    return LacksField("model.dropout", "a value other than 0");
  }
  return {};
}

StatusOr<BpeModel> ReadBpeModel(const json& model, size_t rows, const TextSteps& steps) {
  BpeModel read;
  if (Status status = ReadVocab(model, rows, &read); !status.ok()) return status;
  if (Status status = ReadMerges(model, &read); !status.ok()) return status;
  if (steps.splits_words) SplitMergesAtSpaces(&read);
  if (!steps.byte_level) SetByteTypes(&read);
  return read;
}

StatusOr<BpeModel> ReadVocabOnly(const json& model, size_t rows) {
  BpeModel read;
  if (Status status = ReadVocab(model, rows, &read); !status.ok()) return status;
  return read;
}

StatusOr<WordPieceSteps> ReadWordPieceSteps(const json& tokenizer, const json& tokenizer_config) {
  const json& model = Member(tokenizer, "model");
  const json& normalizer = Member(tokenizer, "normalizer");
  const json& pre = Member(tokenizer, "pre_tokenizer");
  if (TextOf(Member(normalizer, "type")) != "BertNormalizer") {
    return LacksField("normalizer", "a WordPiece without a BertNormalizer");
  }
  if (TextOf(Member(pre, "type")) != "BertPreTokenizer") {
    return LacksField("pre_tokenizer", "a WordPiece without a BertPreTokenizer");
  }
  if (TextOf(Member(model, "continuing_subword_prefix")) != kWordPiecePrefix) {
    return LacksField("model.continuing_subword_prefix", "another one than \"##\"");
  }
  const json& longest = Member(model, "max_input_chars_per_word");
  if (!longest.is_null() && longest != 100) {
    return LacksField("model.max_input_chars_per_word", "another number than 100");
  }
  const bool bert = TextOf(Member(tokenizer_config, "tokenizer_class")).starts_with("Bert");
  const auto said = [&](const char* of_config, const char* of_normalizer) -> const json& {
    const json& own = Member(tokenizer_config, of_config);
    return bert && own.is_boolean() ? own : Member(normalizer, of_normalizer);
  };
  for (const auto& [of_config, of_normalizer] :
       {std::pair("tokenize_chinese_chars", "handle_chinese_chars"),
        std::pair("clean_text", "clean_text")}) {
    if (said(of_config, of_normalizer) == false) {
      return LacksField("normalizer." + std::string(of_normalizer), "false");
    }
  }
  WordPieceSteps steps;
  steps.lowercase = said("do_lower_case", "lowercase") != false;
  const json& strip = said("strip_accents", "strip_accents");
  steps.strip_accents = strip.is_boolean() ? strip == true : steps.lowercase;
  return steps;
}

namespace {

class PostProcessorReader {
 public:
  explicit PostProcessorReader(const std::vector<std::string>& tokens) : tokens_(tokens) {}

  // Returns false after it has set status().
  bool Read(const json& processor);

  const Status& status() const { return status_; }
  const TextEnds& ends() const { return ends_; }

 private:
  bool ReadSequence(const json& processor);
  bool ReadTemplate(const json& processor);
  // The token of a piece of the template; nullopt after it has set status_.
  std::optional<TokenId> SpecialToken(const json& processor, const json& piece);

  bool Broken(const std::string& what) {
    status_ = BrokenField("post_processor", what);
    return false;
  }
  bool Lacks(const std::string& what) {
    status_ = LacksField("post_processor", what);
    return false;
  }

  const std::vector<std::string>& tokens_;
  TextEnds ends_;
  bool has_template_ = false;
  Status status_;
};

bool PostProcessorReader::Read(const json& processor) {
  if (processor.is_null()) return true;
  const std::string type = TextOf(Member(processor, "type"));
  if (type == "Sequence") return ReadSequence(processor);
  if (type == "TemplateProcessing") return ReadTemplate(processor);
  if (type != "ByteLevel") return Lacks("type " + Quoted(type));
  // It changes offsets alone, so there are no special tokens.
  if (!ends_.adds_first) ends_.adds_first = false;
  return true;
}

bool PostProcessorReader::ReadSequence(const json& processor) {
  const json& parts = Member(processor, "processors");
  if (!parts.is_array()) return Broken("\"processors\" must be a list");
  for (const json& part : parts) {
    if (!Read(part)) return false;
  }
  return true;
}

bool PostProcessorReader::ReadTemplate(const json& processor) {
  if (has_template_) return Lacks("more than one TemplateProcessing");
  has_template_ = true;
  const json& single = Member(processor, "single");
  if (!single.is_array()) return Broken("\"single\" must be a list");
  bool text = false;
  for (const json& piece : single) {
    if (const json& sequence = Member(piece, "Sequence"); sequence.is_object()) {
      if (text || TextOf(Member(sequence, "id")) != "A") {
        return Lacks("a TemplateProcessing with a sequence other than a single A");
      }
      text = true;
      continue;
    }
    std::optional<TokenId>& end = text ? ends_.last : ends_.first;
    if (end) return Lacks("a TemplateProcessing with two tokens on one side of the text");
    end = SpecialToken(processor, piece);
    if (!end) return false;
  }
  if (!text) return Lacks("a TemplateProcessing without the text");
  ends_.adds_first = ends_.first.has_value();
  ends_.adds_last = ends_.last.has_value();
  return true;
}

std::optional<TokenId> PostProcessorReader::SpecialToken(const json& processor, const json& piece) {
  const std::string name = TextOf(Member(Member(piece, "SpecialToken"), "id"));
  if (name.empty()) {
    Broken("a piece of \"single\" is neither a sequence nor a special token");
    return std::nullopt;
  }
  // What the name stands for is said beside the template.
  const json& entry = Member(Member(processor, "special_tokens"), name.c_str());
  if (entry.is_null()) {
    const auto at = std::find(tokens_.begin(), tokens_.end(), name);
    if (at != tokens_.end()) return static_cast<TokenId>(at - tokens_.begin());
    Broken("there is no token " + Quoted(name));
    return std::nullopt;
  }
  const json& ids = Member(entry, "ids");
  if (ids.is_array() && ids.size() > 1) {
    Lacks("the special token " + Quoted(name) + " with several ids");
    return std::nullopt;
  }
  const int64_t id =
      ids.is_array() && !ids.empty() && ids[0].is_number_integer() ? ids[0].get<int64_t>() : -1;
  if (id < 0 || static_cast<uint64_t>(id) >= tokens_.size()) {
    Broken("the special token " + Quoted(name) + " must have an id below the number of tokens, " +
           std::to_string(tokens_.size()));
    return std::nullopt;
  }
  return static_cast<TokenId>(id);
}

}  // namespace

StatusOr<TextEnds> ReadPostProcessor(const json& processor,
                                     const std::vector<std::string>& tokens) {
  PostProcessorReader reader(tokens);
  if (!reader.Read(processor)) return reader.status();
  return reader.ends();
}

}  // namespace ropeway::tokenizer
