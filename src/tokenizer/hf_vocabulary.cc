#include "tokenizer/hf_vocabulary.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/hf_added_tokens.h"
#include "tokenizer/hf_config_files.h"
#include "tokenizer/hf_fields.h"
#include "tokenizer/hf_tokenizer_json.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

// The largest published vocabularies have 262,144 tokens and twice as many merges.
constexpr base::JsonBounds kVocabularyBounds = {.max_depth = 32, .max_values = 4'000'000};
constexpr size_t kMaxIds = kMaxVocabularyTokens;

constexpr const char* kAnything = R"([\s\S]+)";

// More added tokens than the embedding has rows are passed over, up to so many: published models
// have one to some hundred.
constexpr size_t kMostWithoutRow = 1024;
constexpr size_t kNamedWithoutRow = 4;

class FolderVocabulary {
 public:
  explicit FolderVocabulary(const HfTokenizerFiles& files) : files_(files) {}

  StatusOr<Vocabulary> Read() {
    if (!ReadTexts()) return status_;
    if (Status status = CheckTokenizerConfig(tokenizer_config_, in_json_); !status.ok()) {
      return status;
    }
    if (!ReadTokens() || !AddTokens()) return status_;
    if (v_.model == "bert") MarkWords();
    if (!ReadSpacesOfTokens()) return status_;
    Pad();
    PassOverTokensWithoutRow();
    if (!ReadSpecialTokens()) return status_;
    WarnOfEndsWithoutRow(&v_);
    WarnOfGeneration(generation_, &v_.warnings);
    v_.chat_template = files_.chat_template;
    if (v_.chat_template.empty()) {
      v_.chat_template = ReadHfChatTemplate(tokenizer_config_, processor_template_, &v_.warnings);
    }
    return std::move(v_);
  }

 private:
  // Each returns false after it has set status_.
  bool ReadTexts();
  bool Parse(const std::string& text, const char* name, json* document);
  bool ReadTokens();
  bool ReadWordPieces(const json& model);
  void MarkWords();
  bool ReadAdded(const json& list, const char* where);
  bool ReadAddedAndEnds();
  bool AddTokens();
  bool CheckPieces(const std::vector<AddedToken>& numbered);
  bool ReadSpacesOfTokens();
  bool CheckPiecesBehindSpace();
  std::optional<TokenId> IdFor(const AddedToken& token);
  SpacePrefix SpacePrefixBesideModel(bool model_adds) const;
  bool AddToken(TokenId id, const AddedToken& token);
  bool CheckPrefixSpace();
  void PassOverTokensWithoutRow();
  bool ReadSpecialTokens();
  std::optional<TokenId> Named(const NamedToken& token, std::initializer_list<const char*> usual);
  void Pad();
  void PadTo(size_t size);

  bool Fail(StatusCode code, const std::string& field, const std::string& what) {
    status_ = {code, field + ": " + what, field};
    return false;
  }
  bool Keep(const Status& status) {
    status_ = status;
    return false;
  }
  bool Broken(const std::string& field, const std::string& what) {
    return Keep(BrokenField(field, what));
  }
  bool Lacks(const std::string& field, const std::string& what) {
    return Keep(LacksField(field, what));
  }
  std::optional<TokenId> IdOf(const std::string& token) const {
    const auto at = std::find(v_.tokens.begin(), v_.tokens.end(), token);
    if (token.empty() || at == v_.tokens.end()) return std::nullopt;
    return static_cast<TokenId>(at - v_.tokens.begin());
  }

  const HfTokenizerFiles& files_;
  json tokenizer_;
  json tokenizer_config_;
  json special_tokens_map_;
  json added_tokens_;
  json config_;
  json generation_;
  json processor_template_;
  Vocabulary v_;
  AddedTokens added_;  // What the files besides the vocabulary say.
  // All added tokens. If two files have a token, the later one says how it is found.
  std::map<TokenId, AddedToken> all_added_;
  std::unordered_map<std::string, TokenId> ids_;  // Token ids by text, for IdFor.
  bool in_json_ = false;                          // There is a tokenizer.json.
  TextSteps steps_;                               // What tokenizer.json says.
  TextEnds text_ends_;                            // What the post-processor says.
  Status status_;
};

bool FolderVocabulary::Parse(const std::string& text, const char* name, json* document) {
  if (text.empty()) return true;
  StatusOr<json> read = base::ReadJson(text, kVocabularyBounds, "the file");
  if (!read.ok()) {
    return Fail(StatusCode::kDataLoss, name, base::PrintableText(read.status().message()));
  }
  *document = *std::move(read);
  return document->is_object() || Fail(StatusCode::kDataLoss, name, "must be a JSON object");
}

bool FolderVocabulary::ReadTexts() {
  in_json_ = !files_.tokenizer_json.empty();
  return Parse(files_.tokenizer_json, "tokenizer.json", &tokenizer_) &&
         Parse(files_.tokenizer_config, "tokenizer_config.json", &tokenizer_config_) &&
         Parse(files_.special_tokens_map, "special_tokens_map.json", &special_tokens_map_) &&
         Parse(files_.added_tokens, "added_tokens.json", &added_tokens_) &&
         Parse(files_.config, "config.json", &config_) &&
         Parse(files_.generation_config, "generation_config.json", &generation_) &&
         Parse(files_.processor_template, "chat_template.json", &processor_template_);
}

bool FolderVocabulary::ReadTokens() {
  if (tokenizer_.is_null()) {
    if (files_.tokenizer_model.empty()) {
      if (!files_.foreign.empty()) {
        return Fail(StatusCode::kUnimplemented, files_.foreign,
                    "a vocabulary in this format is not supported: a tokenizer.json is needed "
                    "(transformers' save_pretrained writes one)");
      }
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
    v_.keeps_first_space = Member(tokenizer_config_, "legacy") == false;
    return true;
  }
  const json& model = Member(tokenizer_, "model");
  if (TextOf(Member(model, "type")) == "WordPiece") return ReadWordPieces(model);
  if (Status status = CheckBpeModel(model); !status.ok()) return Keep(status);
  StatusOr<TextSteps> steps = ReadTextSteps(tokenizer_);
  if (!steps.ok()) return Keep(steps.status());
  steps_ = *std::move(steps);
  v_.patterns = std::move(steps_.patterns);
  v_.form = steps_.form;
  v_.space_prefix = steps_.space_prefix;
  v_.model = steps_.byte_level ? "gpt2" : "llama";
  v_.ignore_merges = Member(model, "ignore_merges") == true;
  if (!steps_.byte_level && v_.ignore_merges == true) {
    return Lacks("model.ignore_merges", "true without ByteLevel");
  }
  StatusOr<BpeModel> read = ReadBpeModel(model, files_.rows, steps_);
  if (!read.ok()) return Keep(read.status());
  v_.tokens = std::move(read->tokens);
  v_.types = std::move(read->types);
  v_.merges = std::move(read->merges);
  if (steps_.byte_level && v_.patterns.empty()) v_.patterns.emplace_back(kAnything);
  if (const std::string unk = TextOf(Member(model, "unk_token")); !unk.empty()) {
    v_.unk = IdOf(unk);
    if (v_.unk && !steps_.byte_level) {
      v_.types[static_cast<size_t>(*v_.unk)] = static_cast<int32_t>(TokenType::kUnknown);
    }
  }
  return ReadAddedAndEnds() && CheckPrefixSpace();
}

bool FolderVocabulary::ReadAddedAndEnds() {
  if (!ReadAdded(Member(tokenizer_, "added_tokens"), "added_tokens")) return false;
  const StatusOr<TextEnds> ends =
      ReadPostProcessor(Member(tokenizer_, "post_processor"), v_.tokens);
  if (!ends.ok()) return Keep(ends.status());
  text_ends_ = *ends;
  return true;
}

bool FolderVocabulary::ReadWordPieces(const json& model) {
  const StatusOr<WordPieceSteps> steps = ReadWordPieceSteps(tokenizer_, tokenizer_config_);
  if (!steps.ok()) return Keep(steps.status());
  v_.model = "bert";
  v_.lowercase = steps->lowercase;
  v_.strip_accents = steps->strip_accents;
  StatusOr<BpeModel> read = ReadVocabOnly(model, files_.rows);
  if (!read.ok()) return Keep(read.status());
  v_.tokens = std::move(read->tokens);
  v_.types = std::move(read->types);
  v_.unk = IdOf(TextOf(Member(model, "unk_token")));
  if (!v_.unk) return Broken("model.unk_token", "must be a token of the vocabulary");
  return ReadAddedAndEnds();
}

// As GGUF has them: "▁" begins a word, what has none continues one.
void FolderVocabulary::MarkWords() {
  for (size_t i = 0; i < v_.tokens.size(); ++i) {
    std::string& token = v_.tokens[i];
    if (v_.types[i] != static_cast<int32_t>(TokenType::kNormal)) continue;
    if (token.starts_with(kWordPiecePrefix)) {
      token.erase(0, kWordPiecePrefix.size());
    } else {
      token.insert(0, kSpaceSymbol);
    }
  }
}

bool FolderVocabulary::AddToken(TokenId id, const AddedToken& token) {
  const size_t most = std::min(std::max(v_.tokens.size(), files_.rows) + 65'536, kMaxIds);
  const auto at = static_cast<size_t>(id);
  if (id < 0 || at >= most) {
    return Fail(StatusCode::kDataLoss, token.field,
                "the id " + std::to_string(id) + " is too large: the vocabulary has " +
                    std::to_string(v_.tokens.size()) + " tokens");
  }
  if (token.single_word) {
    return Fail(StatusCode::kUnimplemented, token.field, "single_word is not supported");
  }
  const bool known = at < v_.tokens.size();
  if (!known) PadTo(at + 1);
  v_.tokens[at] = token.text;
  auto type = static_cast<int32_t>(TokenType::kUserDefined);
  const bool spaced =
      known && !steps_.byte_level && token.text.find(kSpaceSymbol) != std::string::npos;
  if (token.special && !(spaced && !in_json_)) {
    const bool unknown = v_.unk == id && !steps_.byte_level;
    type = static_cast<int32_t>(unknown ? TokenType::kUnknown : TokenType::kControl);
  } else if (spaced) {
    type = v_.types[at];  // Texts never have its letter for spaces: merges make it.
  }
  v_.types[at] = type;
  all_added_.insert_or_assign(id, token);
  return true;
}

bool FolderVocabulary::ReadSpacesOfTokens() {
  for (const auto& [id, token] : all_added_) {
    if (token.strips_left) v_.strip_left.push_back(id);
    if (token.strips_right) v_.strip_right.push_back(id);
  }
  if (!in_json_) return true;
  StatusOr<std::vector<TokenId>> behind_space = TokensBehindSpace(all_added_, steps_);
  if (!behind_space.ok()) return Keep(behind_space.status());
  v_.behind_space = *std::move(behind_space);
  return CheckPiecesBehindSpace();
}

// Where no space is in front of such a token its text is an ordinary piece, but only if it can be
// one: an added token is none.
bool FolderVocabulary::CheckPiecesBehindSpace() {
  if (v_.behind_space.empty()) return true;
  std::set<std::string> made;
  for (std::string merge : v_.merges) {
    if (const size_t space = merge.find(' '); space != std::string::npos) merge.erase(space, 1);
    made.insert(std::move(merge));
  }
  for (const TokenId id : v_.behind_space) {
    const AddedToken& token = all_added_.at(id);
    const bool letter = CharacterLength(token.text, 0) == token.text.size();
    if (!made.contains(token.text) &&
        !(letter && Member(Member(tokenizer_, "model"), "vocab").contains(token.text))) {
      continue;
    }
    return Fail(StatusCode::kUnimplemented, token.field,
                "normalized is not supported if the content is also an ordinary piece");
  }
  return true;
}

// `tokenizers` takes each token's id from its text and its place in the list, not from "id".
bool FolderVocabulary::ReadAdded(const json& list, const char* where) {
  if (list.is_null()) return true;
  if (!list.is_array()) return Broken(where, "must be a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string field =
        "tokenizer.json \"" + std::string(where) + "[" + std::to_string(i) + "]\"";
    const json& id = Member(list[i], "id");
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMaxIds) {
      return Fail(StatusCode::kDataLoss, field,
                  "id must be an integer from 0 to " + std::to_string(kMaxIds - 1));
    }
    const StatusOr<AddedToken> token = ReadAddedToken(list[i], field);
    if (!token.ok()) return Keep(token.status());
    if (token->text.empty()) continue;
    const std::optional<TokenId> expected = IdFor(*token);
    if (!expected) return false;
    if (id.get<uint64_t>() != static_cast<uint64_t>(*expected)) {
      return Fail(StatusCode::kDataLoss, field,
                  "id must be " + std::to_string(*expected) + " for " + Quoted(token->text) +
                      " at this place in the list, got " + id.dump());
    }
    if (!AddToken(*expected, *token)) return false;
  }
  return true;
}

// The id of the token with this text, or the next free id. nullopt after it has set status_.
std::optional<TokenId> FolderVocabulary::IdFor(const AddedToken& token) {
  if (ids_.empty()) {
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      if (v_.types[i] == static_cast<int32_t>(TokenType::kUnused) && in_json_) continue;
      ids_.emplace(v_.tokens[i], static_cast<TokenId>(i));
    }
  }
  if (const auto known = ids_.find(token.text); known != ids_.end()) return known->second;
  // Beside a tokenizer.json gaps between the vocabulary's ids do not count.
  size_t next = v_.tokens.size();
  if (in_json_) {
    next = Member(Member(tokenizer_, "model"), "vocab").size();
    if (!all_added_.empty()) {
      next = std::max(next, static_cast<size_t>(all_added_.rbegin()->first) + 1);
    }
  }
  if (next < v_.tokens.size() && v_.types[next] != static_cast<int32_t>(TokenType::kUnused)) {
    Fail(StatusCode::kDataLoss, token.field,
         "it would get the id " + std::to_string(next) + ", which belongs to " +
             Quoted(v_.tokens[next]) + ": the vocabulary's ids must have no gaps");
    return std::nullopt;
  }
  ids_.emplace(token.text, static_cast<TokenId>(next));
  return static_cast<TokenId>(next);
}

// Beside a tokenizer.model. In transformers an entry hides a piece of another id or text, in one
// direction of the two; only a piece that is never made may be renamed.
bool FolderVocabulary::CheckPieces(const std::vector<AddedToken>& numbered) {
  std::unordered_map<std::string, size_t> ids;
  for (size_t i = 0; i < v_.tokens.size(); ++i) ids.emplace(v_.tokens[i], i);
  for (const AddedToken& token : numbered) {
    const auto id = static_cast<size_t>(*token.id);
    if (token.text.empty()) continue;
    const size_t other = ids.try_emplace(token.text, id).first->second;
    if (other != id) {
      return Fail(StatusCode::kUnimplemented, token.field,
                  "the id of " + Quoted(token.text) + " must be " + std::to_string(other) +
                      ", which it already has, got " + std::to_string(id));
    }
    if (id >= v_.tokens.size() || v_.tokens[id] == token.text) continue;
    const auto type = static_cast<TokenType>(v_.types[id]);
    if (type == TokenType::kControl || type == TokenType::kUnused) continue;
    return Fail(StatusCode::kUnimplemented, token.field,
                "the id " + std::to_string(id) + " belongs to tokenizer.model's piece " +
                    Quoted(v_.tokens[id]) + ", which must keep its text");
  }
  return true;
}

// As transformers does: beside a tokenizer.json what its text says decides a token's id, and what
// added_tokens.json says of ids that it has itself does not count; beside a tokenizer.model the id
// in the file does.
bool FolderVocabulary::AddTokens() {
  StatusOr<AddedTokens> read =
      ReadAddedTokens(tokenizer_config_, special_tokens_map_, added_tokens_);
  if (!read.ok()) return Keep(read.status());
  added_ = *std::move(read);
  if (!in_json_ && !CheckPieces(added_.numbered)) return false;
  std::set<TokenId> own;
  std::set<std::string> texts;
  for (const auto& [id, token] : all_added_) {
    own.insert(id);
    texts.insert(token.text);
  }
  for (const AddedToken& token : added_.numbered) {
    texts.insert(token.text);
    if (token.text.empty() || (in_json_ && !added_.of_decoder && own.contains(*token.id))) continue;
    const std::optional<TokenId> id = in_json_ ? IdFor(token) : token.id;
    if (!id || !AddToken(*id, token)) return false;
  }
  for (const AddedToken& token : added_.named) {
    if (texts.contains(token.text)) continue;
    const std::optional<TokenId> id = IdFor(token);
    if (!id || !AddToken(*id, token)) return false;
  }
  return true;
}

// What tokenizer_config.json says beside a tokenizer.model. `model_adds`: the model adds a dummy
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

// The id of a token that the files name. If they do not and there is a tokenizer.model, the id of
// the first of the usual names that the vocabulary has: the defaults of transformers' classes.
std::optional<TokenId> FolderVocabulary::Named(const NamedToken& token,
                                               std::initializer_list<const char*> usual) {
  if (token.said || in_json_ || v_.model != "llama") return IdOf(token.text);
  for (const char* name : usual) {
    const std::optional<TokenId> id = IdOf(name);
    if (id && v_.types[static_cast<size_t>(*id)] == static_cast<int32_t>(TokenType::kControl)) {
      return id;
    }
  }
  return std::nullopt;
}

bool FolderVocabulary::ReadSpecialTokens() {
  v_.add_bos = text_ends_.adds_first;
  v_.add_eos = text_ends_.adds_last;
  v_.bos = text_ends_.first ? text_ends_.first : Named(added_.bos, {"<s>", "<bos>"});
  v_.eos = Named(added_.eos, {"</s>", "<eos>"});
  if (!v_.unk) v_.unk = IdOf(added_.unk.text);
  const bool code_llama =
      !steps_.byte_level &&
      TextOf(Member(tokenizer_config_, "tokenizer_class")).starts_with("CodeLlamaTokenizer");
  const auto flag = [&](const char* key) -> std::optional<bool> {
    // Beside a tokenizer.json transformers asks the post-processor alone, except for one class,
    // which makes its own.
    if (in_json_) return code_llama && std::string_view(key) == "add_bos_token";
    if (!tokenizer_config_.is_object() || !tokenizer_config_.contains(key)) return std::nullopt;
    return tokenizer_config_.at(key) == true;
  };
  if (!v_.add_bos) v_.add_bos = flag("add_bos_token");
  if (!v_.add_eos) v_.add_eos = flag("add_eos_token");
  // SentencePiece's tokenizers begin texts with their token unless they are told otherwise.
  if (!v_.add_bos) v_.add_bos = v_.bos.has_value();
  StatusOr<SpecialIds> ids = ReadSpecialIds(config_, generation_, v_.tokens.size(), &v_.warnings);
  if (!ids.ok()) return Keep(ids.status());
  if (!v_.bos) v_.bos = ids->bos;
  if (!v_.bos) v_.add_bos = false;
  v_.ends = std::move(ids->ends);
  if (!v_.eos && !v_.ends.empty()) v_.eos = v_.ends.front();
  if (!v_.eos) v_.eos = text_ends_.last;
  if (text_ends_.last && text_ends_.last != v_.eos) {
    return Lacks("post_processor", "a last token other than the eos_token");
  }
  if (!v_.eos) v_.add_eos = false;
  return true;
}

// Checks tokenizer_config.json's add_prefix_space against tokenizer.json. Elsewhere tokenizer.json
// decides, since transformers' versions and classes do not agree.
bool FolderVocabulary::CheckPrefixSpace() {
  const json& adds = Member(tokenizer_config_, "add_prefix_space");
  if (!adds.is_boolean()) return true;
  const std::string name = TextOf(Member(tokenizer_config_, "tokenizer_class"));
  const bool llama = name.starts_with("LlamaTokenizer");
  const bool generic = name.empty() || llama || name.starts_with("PreTrainedTokenizer") ||
                       name == "TokenizersBackend";
  const auto fail = [&] {
    return Fail(StatusCode::kUnimplemented, "tokenizer_config.json \"add_prefix_space\"",
                adds.dump() + " is not supported with a tokenizer.json that contradicts it");
  };
  if (steps_.byte_level) {
    const bool steps = TextOf(Member(Member(tokenizer_, "pre_tokenizer"), "type")) == "Sequence";
    return adds == false || (generic && steps) || fail();
  }
  if (!llama || adds == (v_.space_prefix != SpacePrefix::kNone)) return true;
  if (adds == true) return fail();
  v_.space_prefix = SpacePrefix::kNone;
  return true;
}

// A model with more added tokens than rows can be used without those.
void FolderVocabulary::PassOverTokensWithoutRow() {
  const size_t rows = files_.rows;
  const size_t tokens = v_.tokens.size();
  if (rows == 0 || tokens <= rows || tokens - rows > std::min(kMostWithoutRow, rows - 1)) return;
  std::string names;
  size_t named = 0;
  for (size_t i = rows; i < tokens; ++i) {
    if (v_.types[i] == static_cast<int32_t>(TokenType::kUnused)) continue;
    if (!all_added_.contains(static_cast<TokenId>(i))) return;  // Ordinary texts would have it.
    if (++named > kNamedWithoutRow) continue;
    names += (named == 1 ? "" : ", ") + Quoted(v_.tokens[i]) + " (id " + std::to_string(i) + ")";
  }
  if (named > kNamedWithoutRow)
    names += " and " + std::to_string(named - kNamedWithoutRow) + " more";
  v_.without_row = tokens - rows;
  v_.warnings.push_back("has added tokens beyond the " + std::to_string(rows) +
                        " rows of its embedding, so requests that use them are rejected: " + names);
}

void FolderVocabulary::Pad() { PadTo(std::min(files_.rows, kMaxIds)); }

// No text has these, and they are never generated.
void FolderVocabulary::PadTo(size_t size) {
  while (v_.tokens.size() < size) {
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
