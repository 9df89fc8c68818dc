#include "tokenizer/hf_vocabulary.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"
#include "tokenizer/hf_fields.h"
#include "tokenizer/hf_post_processor.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/split_patterns.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

// The largest published vocabularies have 262,144 tokens and twice as many merges.
constexpr base::JsonBounds kVocabularyBounds = {.max_depth = 32, .max_values = 4'000'000};
constexpr size_t kMaxIds = kMaxVocabularyTokens;

constexpr std::string_view kSpaceLetter = "\xE2\x96\x81";  // "▁", U+2581.

// What ByteLevel splits by where it has use_regex, and Digits.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kOneDigit = R"(\p{N})";
constexpr const char* kDigits = R"(\p{N}+)";
constexpr const char* kAnything = R"([\s\S]+)";

// A token in tokenizer_config.json: a text, or an object with the text as "content".
std::string TokenText(const json& value) {
  return TextOf(value.is_object() ? Member(value, "content") : value);
}

class FolderVocabulary {
 public:
  explicit FolderVocabulary(const HfTokenizerFiles& files) : files_(files) {}

  StatusOr<Vocabulary> Read() {
    if (!ReadTexts() || !ReadTokens()) return status_;
    Pad();
    if (!ReadSpecialTokens()) return status_;
    ReadChatTemplate();
    return std::move(v_);
  }

 private:
  // Each returns false after it has set status_.
  bool ReadTexts();
  bool Parse(const std::string& text, const char* name, json* document);
  bool ReadTokens();
  bool ReadVocab(const json& model);
  bool ReadMerges(const json& model);
  bool CheckModel(const json& model);
  bool ReadAdded(const json& list, const char* where);
  bool ReadAddedDecoder();
  SpacePrefix SpacePrefixBesideModel(bool model_adds) const;
  bool AddToken(const std::string& where, TokenId id, const json& token);
  bool ReadNormalizer(const json& normalizer);
  bool ReadPreTokenizer(const json& pre);
  bool ReadSplit(const json& split);
  bool ReadMetaspace(const json& metaspace);
  bool CheckSpaces();
  void SplitMergesAtSpaces();
  bool ReadSpecialTokens();
  bool ReadEnds(const json& document, const char* name);
  void ReadChatTemplate();
  void Pad();
  void SetSentencePieceTypes();

  bool Fail(StatusCode code, const std::string& field, const std::string& what) {
    status_ = {code, field + ": " + what, field};
    return false;
  }
  bool Broken(const std::string& field, const std::string& what) {
    return Fail(StatusCode::kDataLoss, "tokenizer.json \"" + field + "\"", what);
  }
  bool Lacks(const std::string& field, const std::string& what) {
    return Fail(StatusCode::kUnimplemented, "tokenizer.json \"" + field + "\"",
                what + " is not supported");
  }
  std::optional<TokenId> IdOf(const std::string& token) const {
    const auto at = std::find(v_.tokens.begin(), v_.tokens.end(), token);
    if (token.empty() || at == v_.tokens.end()) return std::nullopt;
    return static_cast<TokenId>(at - v_.tokens.begin());
  }

  const HfTokenizerFiles& files_;
  json tokenizer_;
  json tokenizer_config_;
  json config_;
  json generation_;
  Vocabulary v_;
  bool byte_level_ = false;
  bool replaces_spaces_ = false;  // The normalizer writes "▁".
  bool metaspace_ = false;        // The pre-tokenizer does,
  bool splits_words_ = false;     // and splits before each.
  bool splits_at_space_ = false;  // A Split by " ".
  TextEnds text_ends_;            // Of the post-processor.
  Status status_;
};

bool FolderVocabulary::Parse(const std::string& text, const char* name, json* document) {
  if (text.empty()) return true;
  StatusOr<json> read = base::ReadJson(text, kVocabularyBounds, "the file");
  if (!read.ok()) {
    return Fail(StatusCode::kDataLoss, name, base::PrintableText(read.status().message()));
  }
  *document = *std::move(read);
  return document->is_object() || Fail(StatusCode::kDataLoss, name, "is no JSON object");
}

bool FolderVocabulary::ReadTexts() {
  return Parse(files_.tokenizer_json, "tokenizer.json", &tokenizer_) &&
         Parse(files_.tokenizer_config, "tokenizer_config.json", &tokenizer_config_) &&
         Parse(files_.config, "config.json", &config_) &&
         Parse(files_.generation_config, "generation_config.json", &generation_);
}

bool FolderVocabulary::ReadTokens() {
  if (tokenizer_.is_null()) {
    if (files_.tokenizer_model.empty()) {
      return Fail(StatusCode::kDataLoss, "tokenizer.json",
                  "is missing, and there is no tokenizer.model either");
    }
    StatusOr<Vocabulary> read = ReadSentencePieceModel(files_.tokenizer_model);
    if (!read.ok()) {
      status_ = read.status();
      return false;
    }
    v_ = *std::move(read);
    v_.space_prefix = SpacePrefixBesideModel(v_.space_prefix != SpacePrefix::kNone);
    return ReadAddedDecoder();
  }
  const json& model = Member(tokenizer_, "model");
  if (!CheckModel(model) || !ReadPreTokenizer(Member(tokenizer_, "pre_tokenizer")) ||
      !ReadNormalizer(Member(tokenizer_, "normalizer"))) {
    return false;
  }
  v_.model = byte_level_ ? "gpt2" : "llama";
  if (!byte_level_ && Member(model, "byte_fallback") != true) {
    return Lacks("pre_tokenizer", "a BPE without ByteLevel and without byte_fallback");
  }
  v_.ignore_merges = Member(model, "ignore_merges") == true;
  if (!CheckSpaces() || !ReadVocab(model) || !ReadMerges(model)) return false;
  if (byte_level_ && v_.patterns.empty()) v_.patterns.emplace_back(kAnything);
  if (splits_words_) SplitMergesAtSpaces();
  if (!byte_level_) SetSentencePieceTypes();
  if (const std::string unk = TextOf(Member(model, "unk_token")); !unk.empty()) {
    v_.unk = IdOf(unk);
    if (v_.unk && !byte_level_) {
      v_.types[static_cast<size_t>(*v_.unk)] = static_cast<int32_t>(TokenType::kUnknown);
    }
  }
  if (!ReadAdded(Member(tokenizer_, "added_tokens"), "added_tokens")) return false;
  const StatusOr<TextEnds> ends =
      ReadPostProcessor(Member(tokenizer_, "post_processor"), v_.tokens);
  if (!ends.ok()) {
    status_ = ends.status();
    return false;
  }
  text_ends_ = *ends;
  return true;
}

bool FolderVocabulary::CheckModel(const json& model) {
  if (!model.is_object()) return Broken("model", "is no object");
  const std::string type = TextOf(Member(model, "type"));
  if (type != "BPE" && !(type.empty() && model.contains("merges"))) {
    return Lacks("model", "type " + Quoted(type));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!TextOf(Member(model, key)).empty()) return Lacks(std::string("model.") + key, "a text");
  }
  if (Member(model, "dropout").is_number() && Member(model, "dropout") != 0.0) {
    return Lacks("model.dropout", "chance");
  }
  return true;
}

bool FolderVocabulary::ReadVocab(const json& model) {
  const json& vocab = Member(model, "vocab");
  if (!vocab.is_object() || vocab.empty() || vocab.size() > kMaxIds) {
    return Broken("model.vocab", "is no object of 1 to " + std::to_string(kMaxIds) + " tokens");
  }
  // Ids are dense but for a few; a single huge one must not allocate much.
  const size_t most = std::max(vocab.size(), files_.rows) * 2 + 1000;
  std::vector<bool> seen;
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= most) {
      return Broken("model.vocab", "the id of " + Quoted(token) + " is not one from 0 to " +
                                       std::to_string(most - 1));
    }
    const auto at = static_cast<size_t>(id.get<uint64_t>());
    if (at >= seen.size()) seen.resize(at + 1);
    if (seen[at]) {
      return Broken("model.vocab",
                    "the id " + std::to_string(at) + " is given twice, also to " + Quoted(token));
    }
    seen[at] = true;
    if (at >= v_.tokens.size()) v_.tokens.resize(at + 1);
    v_.tokens[at] = token;
  }
  v_.types.assign(v_.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) continue;
    v_.tokens[i] = "[PAD" + std::to_string(i) + "]";
    v_.types[i] = static_cast<int32_t>(TokenType::kUnused);
  }
  return true;
}

// "left right", or since transformers 4.45 ["left", "right"].
bool FolderVocabulary::ReadMerges(const json& model) {
  const json& merges = Member(model, "merges");
  if (!merges.is_array()) return Broken("model.merges", "is no list");
  v_.merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const json& merge = merges[i];
    if (merge.is_string()) {
      v_.merges.push_back(merge.get<std::string>());
      continue;
    }
    if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
      return Broken("model.merges[" + std::to_string(i) + "]", "is no pair of tokens");
    }
    const auto& left = merge[0].get_ref<const std::string&>();
    const auto& right = merge[1].get_ref<const std::string&>();
    if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos) {
      return Lacks("model.merges[" + std::to_string(i) + "]", "a token with a space");
    }
    v_.merges.push_back(left);
    v_.merges.back().append(" ").append(right);
  }
  return true;
}

// Byte-level BPE splits by patterns and spells spaces as bytes, the other kind writes "▁" and does
// not split. What a file says besides must not change that.
bool FolderVocabulary::CheckSpaces() {
  if (byte_level_) {
    if (metaspace_) return Lacks("pre_tokenizer", "Metaspace beside ByteLevel");
    if (splits_at_space_) return Lacks("pre_tokenizer", "a Split by \" \" beside ByteLevel");
    return true;
  }
  if (!v_.patterns.empty()) return Lacks("pre_tokenizer", "a split by patterns without ByteLevel");
  if (v_.ignore_merges == true) return Lacks("model.ignore_merges", "true without ByteLevel");
  // As in Gemma's files, whose normalizer leaves no space to split at.
  if (splits_at_space_ && !replaces_spaces_) {
    return Lacks("pre_tokenizer", "a Split by \" \" where the normalizer does not replace it");
  }
  if (metaspace_ || replaces_spaces_) return true;
  return Lacks("normalizer", "a BPE with byte_fallback that does not write spaces as U+2581");
}

// Metaspace may split a text before each "▁". No piece has one behind its beginning then, so the
// merges that would make such a token are never made, and the others do not reach across.
void FolderVocabulary::SplitMergesAtSpaces() {
  std::erase_if(v_.merges, [](const std::string& merge) {
    const size_t at = merge.rfind(kSpaceLetter);
    return at != std::string::npos && at > 0;
  });
}

// "<0x0A>" stands for a byte.
void FolderVocabulary::SetSentencePieceTypes() {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (size_t i = 0; i < v_.tokens.size(); ++i) {
    const std::string& token = v_.tokens[i];
    if (token.size() == 6 && token.starts_with("<0x") && token.ends_with(">") &&
        kHex.find(token[3]) != kHex.npos && kHex.find(token[4]) != kHex.npos) {
      v_.types[i] = static_cast<int32_t>(TokenType::kByte);
    }
  }
}

bool FolderVocabulary::AddToken(const std::string& where, TokenId id, const json& token) {
  const json& content = Member(token, "content");
  const size_t most = std::max(v_.tokens.size(), files_.rows) + 65'536;
  const auto at = static_cast<size_t>(id);
  if (!content.is_string()) return Fail(StatusCode::kDataLoss, where, "content is no text");
  if (id < 0 || at >= most) {
    return Fail(StatusCode::kDataLoss, where,
                "the id " + std::to_string(id) + " is far beyond the vocabulary's " +
                    std::to_string(v_.tokens.size()) + " tokens");
  }
  const bool known = at < v_.tokens.size();
  while (at >= v_.tokens.size()) {
    v_.tokens.push_back("[PAD" + std::to_string(v_.tokens.size()) + "]");
    v_.types.push_back(static_cast<int32_t>(TokenType::kUnused));
    if (!v_.scores.empty()) v_.scores.push_back(-1000.0F);
  }
  v_.tokens[at] = content.get<std::string>();
  auto type = static_cast<int32_t>(TokenType::kUserDefined);
  if (Member(token, "special") == true) {
    const bool unknown = v_.unk == id && !byte_level_;
    type = static_cast<int32_t>(unknown ? TokenType::kUnknown : TokenType::kControl);
  } else if (known && !byte_level_ && v_.tokens[at].find(kSpaceLetter) != std::string::npos) {
    type = v_.types[at];  // Texts never have its letter for spaces: merges make it.
  }
  v_.types[at] = type;
  if (Member(token, "lstrip") == true) v_.strip_left.push_back(id);
  if (Member(token, "rstrip") == true) v_.strip_right.push_back(id);
  if (Member(token, "single_word") == true) {
    return Fail(StatusCode::kUnimplemented, where, "single_word is not supported");
  }
  // Added tokens are found in the text as it is.
  if (v_.form != TextForm::kAsIs && Member(token, "normalized") == true) {
    return Fail(StatusCode::kUnimplemented, where,
                "normalized is not supported beside the normalizer NFC");
  }
  return true;
}

bool FolderVocabulary::ReadAdded(const json& list, const char* where) {
  if (list.is_null()) return true;
  if (!list.is_array()) return Broken(where, "is no list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string field =
        "tokenizer.json \"" + std::string(where) + "[" + std::to_string(i) + "]\"";
    const json& id = Member(list[i], "id");
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMaxIds) {
      return Fail(StatusCode::kDataLoss, field, "id is no number of a token");
    }
    if (!AddToken(field, static_cast<TokenId>(id.get<uint64_t>()), list[i])) return false;
  }
  return true;
}

// What tokenizer_config.json says beside a tokenizer.model, of which `model_adds` is the dummy
// prefix. Llama's own classes write a space without it too, unless they follow it as "legacy".
SpacePrefix FolderVocabulary::SpacePrefixBesideModel(bool model_adds) const {
  if (Member(tokenizer_config_, "add_prefix_space") == false) return SpacePrefix::kNone;
  if (Member(tokenizer_config_, "legacy") != false) {
    return model_adds ? SpacePrefix::kEach : SpacePrefix::kNone;
  }
  const std::string name = TextOf(Member(tokenizer_config_, "tokenizer_class"));
  const bool llama = name == "LlamaTokenizer" || name == "LlamaTokenizerFast";
  return model_adds || llama ? SpacePrefix::kBeginningOnly : SpacePrefix::kNone;
}

// Beside a tokenizer.model: {"32000": {"content": "<|end|>", "special": true}, ...}.
bool FolderVocabulary::ReadAddedDecoder() {
  const json& tokens = Member(tokenizer_config_, "added_tokens_decoder");
  if (!tokens.is_object()) return true;
  for (const auto& [key, token] : tokens.items()) {
    const std::string field = "tokenizer_config.json \"added_tokens_decoder\" " + Quoted(key);
    const bool digits =
        !key.empty() && key.size() <= 8 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) return Fail(StatusCode::kDataLoss, field, "is no number of a token");
    if (!AddToken(field, static_cast<TokenId>(std::stol(key)), token)) return false;
  }
  return true;
}

bool FolderVocabulary::ReadNormalizer(const json& normalizer) {
  if (normalizer.is_null()) return true;
  const std::string type = TextOf(Member(normalizer, "type"));
  if (type == "Sequence") {
    for (const json& part : Member(normalizer, "normalizers")) {
      if (!ReadNormalizer(part)) return false;
    }
    return true;
  }
  if (type == "NFC" && byte_level_) {
    v_.form = TextForm::kNfc;
    return true;
  }
  if (!byte_level_ && type == "Prepend" && TextOf(Member(normalizer, "prepend")) == kSpaceLetter) {
    v_.space_prefix = SpacePrefix::kEach;
    return true;
  }
  if (!byte_level_ && type == "Replace" && TextOf(Member(normalizer, "content")) == kSpaceLetter &&
      TextOf(Member(Member(normalizer, "pattern"), "String")) == " ") {
    replaces_spaces_ = true;
    return true;
  }
  return Lacks("normalizer", "type " + Quoted(type));
}

bool FolderVocabulary::ReadPreTokenizer(const json& pre) {
  if (pre.is_null()) return true;
  const std::string type = TextOf(Member(pre, "type"));
  if (type == "Sequence") {
    for (const json& part : Member(pre, "pretokenizers")) {
      if (!ReadPreTokenizer(part)) return false;
    }
    return true;
  }
  // It would split the letters of bytes.
  if (byte_level_) return Lacks("pre_tokenizer", "type " + Quoted(type) + " behind ByteLevel");
  if (type == "ByteLevel") {
    if (Member(pre, "add_prefix_space") == true) {
      return Lacks("pre_tokenizer", "add_prefix_space of ByteLevel");
    }
    byte_level_ = true;
    if (Member(pre, "use_regex") != false) v_.patterns.emplace_back(kByteLevelPattern);
    return true;
  }
  if (type == "Split") return ReadSplit(pre);
  if (type == "Digits") {
    v_.patterns.emplace_back(Member(pre, "individual_digits") == true ? kOneDigit : kDigits);
    return true;
  }
  if (type == "Metaspace") return ReadMetaspace(pre);
  return Lacks("pre_tokenizer", "type " + Quoted(type));
}

bool FolderVocabulary::ReadSplit(const json& split) {
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
  v_.patterns.push_back(regex.get<std::string>());
  return true;
}

bool FolderVocabulary::ReadMetaspace(const json& metaspace) {
  const std::string scheme = TextOf(Member(metaspace, "prepend_scheme"));
  const bool prefix = Member(metaspace, "add_prefix_space") != false;
  if (scheme == "never" || (scheme.empty() && !prefix)) {
    v_.space_prefix = SpacePrefix::kNone;
  } else if (scheme == "first") {
    v_.space_prefix = SpacePrefix::kBeginningOnly;
  } else if (scheme == "always" || scheme.empty()) {
    v_.space_prefix = SpacePrefix::kEachIfNone;
  } else {
    return Lacks("pre_tokenizer", "prepend_scheme " + Quoted(scheme));
  }
  metaspace_ = true;
  if (Member(metaspace, "split") != false) splits_words_ = true;  // Older files do not say so.
  if (TextOf(Member(metaspace, "replacement")) == kSpaceLetter) return true;
  return Lacks("pre_tokenizer", "another replacement than U+2581");
}

bool FolderVocabulary::ReadSpecialTokens() {
  const json& config = tokenizer_config_;
  v_.add_bos = text_ends_.adds_first;
  v_.add_eos = text_ends_.adds_last;
  v_.bos = text_ends_.first ? text_ends_.first : IdOf(TokenText(Member(config, "bos_token")));
  v_.eos = IdOf(TokenText(Member(config, "eos_token")));
  if (!v_.unk) v_.unk = IdOf(TokenText(Member(config, "unk_token")));
  const auto flag = [&](const char* key) -> std::optional<bool> {
    // Beside a byte-level tokenizer.json transformers asks the post-processor alone.
    if (byte_level_) return false;
    const json& value = Member(config, key);
    return value.is_boolean() ? std::optional<bool>(value.get<bool>()) : std::nullopt;
  };
  if (!v_.add_bos) v_.add_bos = flag("add_bos_token");
  if (!v_.add_eos) v_.add_eos = flag("add_eos_token");
  // SentencePiece's tokenizers begin texts with their token unless they are told otherwise.
  if (!v_.add_bos) v_.add_bos = v_.bos.has_value();
  if (!v_.bos) {
    const json& id = Member(config_, "bos_token_id");
    if (id.is_number_unsigned() && id.get<uint64_t>() < v_.tokens.size()) {
      v_.bos = static_cast<TokenId>(id.get<uint64_t>());
    }
  }
  if (!v_.bos) v_.add_bos = false;
  if (!ReadEnds(generation_, "generation_config.json") || !ReadEnds(config_, "config.json")) {
    return false;
  }
  if (!v_.eos && !v_.ends.empty()) v_.eos = v_.ends.front();
  if (!v_.eos) v_.eos = text_ends_.last;
  if (text_ends_.last && text_ends_.last != v_.eos) {
    return Lacks("post_processor", "another last token than the eos_token");
  }
  if (!v_.eos) v_.add_eos = false;
  return true;
}

// A number or a list of numbers.
bool FolderVocabulary::ReadEnds(const json& document, const char* name) {
  const json& ids = Member(document, "eos_token_id");
  if (ids.is_null()) return true;
  const json one = json::array({ids});
  for (const json& id : ids.is_array() ? ids : one) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= v_.tokens.size()) {
      return Fail(
          StatusCode::kDataLoss, std::string(name) + " \"eos_token_id\"",
          "is no number of the vocabulary's " + std::to_string(v_.tokens.size()) + " tokens");
    }
    const auto end = static_cast<TokenId>(id.get<uint64_t>());
    if (std::find(v_.ends.begin(), v_.ends.end(), end) == v_.ends.end()) v_.ends.push_back(end);
  }
  return true;
}

// A text, or a list of {"name", "template"}.
void FolderVocabulary::ReadChatTemplate() {
  v_.chat_template = files_.chat_template;
  if (!v_.chat_template.empty()) return;
  const json& templates = Member(tokenizer_config_, "chat_template");
  v_.chat_template = TextOf(templates);
  if (!templates.is_array()) return;
  for (const json& named : templates) {
    const bool is_default = Member(named, "name") == "default";
    if (!is_default && !v_.chat_template.empty()) continue;
    v_.chat_template = TextOf(Member(named, "template"));
    if (is_default) return;
  }
}

void FolderVocabulary::Pad() {
  while (v_.tokens.size() < std::min(files_.rows, kMaxIds)) {
    v_.tokens.push_back("[PAD" + std::to_string(v_.tokens.size()) + "]");
    v_.types.push_back(static_cast<int32_t>(TokenType::kUnused));
    if (!v_.scores.empty()) v_.scores.push_back(-1000.0F);
  }
}

}  // namespace

StatusOr<Vocabulary> ReadHfVocabulary(const HfTokenizerFiles& files) {
  return FolderVocabulary(files).Read();
}

}  // namespace ropeway::tokenizer
