#include "tokenizer/hf_added_tokens.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/hf_fields.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

constexpr std::string_view kConfigFile = "tokenizer_config.json";
constexpr std::string_view kMapFile = "special_tokens_map.json";
constexpr std::string_view kTokensFile = "added_tokens.json";

constexpr std::array<const char*, 7> kNamedFields = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

std::string FieldOf(std::string_view file, std::string_view key) {
  return std::string(file) + " " + Quoted(key);
}

Status BrokenToken(const std::string& field, const std::string& what) {
  return {StatusCode::kDataLoss, field + ": " + what, field};
}

bool ById(const AddedToken& a, const AddedToken& b) { return a.id < b.id; }

class AddedTokensReader {
 public:
  AddedTokensReader(const json& config, const json& map, const json& added)
      : config_(config), map_(map), added_(added) {
    tokens_.of_decoder = Member(config, "added_tokens_decoder").is_object();
  }

  StatusOr<AddedTokens> Read() {
    const json& decoder = Member(config_, "added_tokens_decoder");
    if (!decoder.is_object() && !decoder.is_null()) {
      return BrokenToken(FieldOf(kConfigFile, "added_tokens_decoder"), "must be an object");
    }
    for (const char* key : kNamedFields) ReadNamed(key);
    ReadOthers();
    for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) ReadMore(key);
    if (tokens_.of_decoder) {
      ReadDecoder();
    } else {
      ReadNumbers();
    }
    if (!status_.ok()) return status_;
    std::stable_sort(tokens_.numbered.begin(), tokens_.numbered.end(), ById);
    const auto twice =
        std::adjacent_find(tokens_.numbered.begin(), tokens_.numbered.end(),
                           [](const AddedToken& a, const AddedToken& b) { return a.id == b.id; });
    if (twice == tokens_.numbered.end()) return std::move(tokens_);
    return BrokenToken(twice->field, "its id is also given to " + Quoted(std::next(twice)->text));
  }

 private:
  // The file that has the field, special_tokens_map.json first, and the field's value.
  std::pair<std::string_view, const json*> Find(const char* key) const {
    const bool in_map = !tokens_.of_decoder && map_.is_object() && map_.contains(key);
    return {in_map ? kMapFile : kConfigFile, in_map ? &map_.at(key) : &Member(config_, key)};
  }

  // A text, or an object.
  void AddNamed(const std::string& field, const json& value) {
    AddedToken token;
    token.field = field;
    if (value.is_string()) {
      token.text = value.get<std::string>();
    } else {
      StatusOr<AddedToken> read = ReadAddedToken(value, field);
      if (!read.ok()) {
        if (status_.ok()) status_ = read.status();
        return;
      }
      token = *std::move(read);
    }
    token.special = true;
    if (token.text.empty() || !named_.insert(token.text).second) return;
    tokens_.named.push_back(std::move(token));
  }

  void ReadNamed(const char* key) {
    const auto& [file, value] = Find(key);
    const std::string_view name = key;
    NamedToken* const kept = name == "bos_token"   ? &tokens_.bos
                             : name == "eos_token" ? &tokens_.eos
                             : name == "unk_token" ? &tokens_.unk
                                                   : nullptr;
    if (kept != nullptr) {
      const bool in_config = config_.is_object() && config_.contains(key);
      *kept = {.said = file == kMapFile || in_config,
               .text = TextOf(value->is_object() ? Member(*value, "content") : *value)};
    }
    if (!value->is_null()) AddNamed(FieldOf(file, key), *value);
  }

  // Tokens of a model's own, such as image_token. (add_bos_token is none: its value is no text.)
  void ReadOthers() {
    const auto read = [this](std::string_view file, const json& document) {
      if (!document.is_object()) return;
      for (const auto& [key, value] : document.items()) {
        const bool known = std::ranges::find(kNamedFields, key) != kNamedFields.end();
        const bool token = value.is_string() || Member(value, "content").is_string();
        if (!known && token && key.ends_with("_token")) AddNamed(FieldOf(file, key), value);
      }
    };
    read(kConfigFile, config_);
    if (!tokens_.of_decoder) read(kMapFile, map_);
  }

  // A list, or an object of named tokens. Both files' count.
  void ReadMore(const char* key) {
    for (const auto& [file, document] : {std::pair(kConfigFile, &config_), {kMapFile, &map_}}) {
      if (file == kMapFile && tokens_.of_decoder) continue;
      const json& list = Member(*document, key);
      if (list.is_null()) continue;
      if (!list.is_array() && !list.is_object()) {
        if (status_.ok()) status_ = BrokenToken(FieldOf(file, key), "must be a list of tokens");
        return;
      }
      for (const json& token : list) AddNamed(FieldOf(file, key), token);
    }
  }

  // {"32000": {"content": "<|end|>", "special": true}, ...}.
  void ReadDecoder() {
    for (const auto& [key, token] : config_.at("added_tokens_decoder").items()) {
      const std::string field = FieldOf(kConfigFile, "added_tokens_decoder") + " " + Quoted(key);
      const bool digits = !key.empty() && key.size() <= 8 &&
                          key.find_first_not_of("0123456789") == std::string::npos;
      if (!digits) {
        status_ = BrokenToken(field, "the key must be a token id");
        return;
      }
      StatusOr<AddedToken> read = ReadAddedToken(token, field);
      if (read.ok() && Member(token, "normalized").is_null()) read->normalized = !read->special;
      Number(field, std::stoull(key), std::move(read));
    }
  }

  // {"<|end|>": 32000, ...}.
  void ReadNumbers() {
    if (!added_.is_object()) return;
    for (const auto& [text, id] : added_.items()) {
      AddedToken token;
      token.field = FieldOf(kTokensFile, text);
      token.text = text;
      token.special = named_.contains(text);
      token.normalized = !token.special;
      const std::string field = token.field;
      Number(field, id.is_number_unsigned() ? id.get<uint64_t>() : kMaxVocabularyTokens,
             std::move(token));
    }
  }

  void Number(const std::string& field, uint64_t id, StatusOr<AddedToken> token) {
    if (token.ok() && id >= kMaxVocabularyTokens) {
      token = BrokenToken(
          field, "its id must be an integer from 0 to " + std::to_string(kMaxVocabularyTokens - 1));
    }
    if (!token.ok()) {
      if (status_.ok()) status_ = token.status();
      return;
    }
    tokens_.numbered.push_back(*std::move(token));
    tokens_.numbered.back().id = static_cast<TokenId>(id);
  }

  const json& config_;
  const json& map_;
  const json& added_;
  AddedTokens tokens_;
  std::set<std::string> named_;  // The texts of tokens_.named.
  Status status_;
};

}  // namespace

StatusOr<AddedToken> ReadAddedToken(const json& token, const std::string& field) {
  const json& content = Member(token, "content");
  if (!content.is_string()) return BrokenToken(field, "content must be a string");
  const auto flag = [&](const char* key) { return Member(token, key) == true; };
  AddedToken read;
  read.field = field;
  read.text = content.get<std::string>();
  read.special = flag("special");
  read.strips_left = flag("lstrip");
  read.strips_right = flag("rstrip");
  read.single_word = flag("single_word");
  read.normalized = flag("normalized");
  return read;
}

StatusOr<AddedTokens> ReadAddedTokens(const json& tokenizer_config, const json& special_tokens_map,
                                      const json& added_tokens) {
  return AddedTokensReader(tokenizer_config, special_tokens_map, added_tokens).Read();
}

namespace {

Status NormalizedLacks(const AddedToken& token, const std::string& what) {
  return {StatusCode::kUnimplemented, token.field + ": normalized is not supported " + what,
          token.field};
}

// Whether the composed form of a text has `text` only where the text has it: none of its characters
// is a composed one or joins the one before it. (What may join its last one is not known here.)
bool IsKeptByNfc(std::string_view text) {
  std::u32string decomposed;
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    if (step.kind != base::Utf8Kind::kValid) return false;
    const char32_t c = step.code_point;
    const CharacterKind kind = KindOf(c);
    const bool jamo = c >= 0x1100 && c <= 0x11FF;  // Hangul's letters, which join.
    if (jamo || kind == CharacterKind::kNonspacingMark || kind == CharacterKind::kMark)
      return false;
    decomposed.clear();
    AppendDecomposed(c, &decomposed);
    if (decomposed != std::u32string(1, c)) return false;
    at += step.length;
  }
  return true;
}

// Whether the normalizer changes where the token is found, except for a space in front.
Status CheckNormalizedToken(const AddedToken& token, const TextSteps& steps) {
  if (steps.form != TextForm::kAsIs && !IsKeptByNfc(token.text)) {
    return NormalizedLacks(
        token, "with the normalizer NFC if it changes or joins characters of the content");
  }
  if (steps.normalizes_prefix && !steps.normalizes_spaces) {
    return NormalizedLacks(token,
                           "with a normalizer that prepends U+2581 but does not replace spaces");
  }
  if (!steps.normalizes_spaces) return {};
  if (token.strips_left || token.strips_right) {
    return NormalizedLacks(token,
                           "together with lstrip or rstrip if the normalizer replaces spaces");
  }
  if (token.text.find(' ') != std::string::npos ||
      token.text.find(kSpaceSymbol) != std::string::npos) {
    return NormalizedLacks(token, "for content with a space if the normalizer replaces spaces");
  }
  return {};
}

// The tokens that are not normalized are looked for first. So none may lie in, or reach into, a
// normalized one that begins before it or is longer: the texts decide.
class FirstTokens {
 public:
  explicit FirstTokens(const std::map<TokenId, AddedToken>& tokens) {
    for (const auto& [id, token] : tokens) {
      if (token.normalized || token.text.empty()) continue;
      const uint32_t node = trie_.Add(token.text);
      ends_.resize(trie_.nodes());
      ends_[node] = true;
    }
  }

  bool Disturb(std::string_view text) const {
    for (size_t begin = 0; begin < text.size(); ++begin) {
      uint32_t node = ByteTrie::kRoot;
      size_t end = begin;
      for (; end < text.size(); ++end) {
        node = trie_.Child(node, static_cast<uint8_t>(text[end]));
        if (node == ByteTrie::kNone) break;
        const bool whole = begin == 0 && end + 1 == text.size();
        if (ends_[node] && !whole) return true;
      }
      if (end == text.size() && begin > 0) return true;
    }
    return false;
  }

 private:
  ByteTrie trie_;
  std::vector<bool> ends_ = {false};  // Whether a token ends, by the trie's node.
};

}  // namespace

StatusOr<std::vector<TokenId>> TokensBehindSpace(const std::map<TokenId, AddedToken>& tokens,
                                                 const TextSteps& steps) {
  const FirstTokens first(tokens);
  std::vector<TokenId> behind_space;
  for (const auto& [id, token] : tokens) {
    if (!token.normalized || token.text.empty()) continue;
    if (Status status = CheckNormalizedToken(token, steps); !status.ok()) return status;
    if (first.Disturb(token.text)) {
      return NormalizedLacks(token, "if a token that is not normalized overlaps its content");
    }
    if (steps.normalizes_prefix) behind_space.push_back(id);
  }
  return behind_space;
}

}  // namespace ropeway::tokenizer
