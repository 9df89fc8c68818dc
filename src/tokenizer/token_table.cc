#include "tokenizer/token_table.h"

#include <utility>

#include "tokenizer/bpe_tables.h"
#include "tokenizer/characters.h"

namespace ropeway::tokenizer {
namespace {

// Special tokens that end a turn or a text in common models, for files that do not declare them.
constexpr std::array<std::string_view, 15> kEndTexts = {
    "<|im_end|>",    "<|endoftext|>", "<|eot_id|>",         "<|eom_id|>", "<|end_of_text|>",
    "<end_of_turn>", "<turn|>",       "<end_of_utterance>", "</s>",       "<eos>",
    "<|end|>",       "<|return|>",    "<|call|>",           "<EOT>",      "<｜end▁of▁sentence｜>",
};

// In gpt-oss's format (which has these two tokens) a message ends with it and a turn goes on.
constexpr std::string_view kEndOfMessage = "<|end|>";
constexpr std::array<std::string_view, 2> kEndsOfTurn = {"<|return|>", "<|call|>"};

struct NamedId {
  const char* field;
  std::optional<TokenId> Vocabulary::*id;
};

constexpr std::array<NamedId, 5> kNamedIds = {{
    {"tokenizer.ggml.bos_token_id", &Vocabulary::bos},
    {"tokenizer.ggml.eos_token_id", &Vocabulary::eos},
    {"tokenizer.ggml.eot_token_id", &Vocabulary::eot},
    {"tokenizer.ggml.eom_token_id", &Vocabulary::eom},
    {"tokenizer.ggml.unknown_token_id", &Vocabulary::unk},
}};

Status CheckTokenId(const char* field, TokenId id, size_t tokens) {
  if (id >= 0 && static_cast<size_t>(id) < tokens) return {};
  return VocabularyError(field, "must be below the number of tokens, " + std::to_string(tokens) +
                                    ", got " + std::to_string(id));
}

// The value of a token of type kByte, "<0x0A>".
std::optional<uint8_t> ByteOfToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : text.substr(3, 2)) {
    const std::string_view digits = "0123456789ABCDEF";
    const size_t digit = digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit);
  }
  return static_cast<uint8_t>(value);
}

std::string WithoutSpaceSymbols(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const bool space = text.substr(at).starts_with(kSpaceSymbol);
    bytes.push_back(space ? ' ' : text[at]);
    at += space ? kSpaceSymbol.size() : 1;
  }
  return bytes;
}

bool LooksSpecial(std::string_view text) {
  return text.size() > 2 && ((text.front() == '<' && text.back() == '>') ||
                             (text.front() == '[' && text.back() == ']'));
}

}  // namespace

Status VocabularyError(const std::string& field, const std::string& what) {
  return {StatusCode::kDataLoss, field + ": " + what, field};
}

std::string IndexedField(const char* field, size_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

StatusOr<std::unique_ptr<const TokenTable>> TokenTable::Create(Spelling spelling,
                                                               Vocabulary* vocabulary) {
  std::unique_ptr<TokenTable> table(new TokenTable());
  if (Status status = table->Init(spelling, vocabulary); !status.ok()) return status;
  return std::unique_ptr<const TokenTable>(std::move(table));
}

Status TokenTable::Init(Spelling spelling, Vocabulary* vocabulary) {
  const size_t count = vocabulary->tokens.size();
  if (count == 0 || count > kMaxVocabularyTokens) {
    return VocabularyError("tokenizer.ggml.tokens", "must have 1 to " +
                                                        std::to_string(kMaxVocabularyTokens) +
                                                        " tokens, got " + std::to_string(count));
  }
  for (const auto& [field, id] : kNamedIds) {
    if (!(vocabulary->*id).has_value()) continue;
    if (Status status = CheckTokenId(field, *(vocabulary->*id), count); !status.ok()) return status;
  }
  texts_ = std::move(vocabulary->tokens);
  rows_ = count - std::min(vocabulary->without_row, count);
  if (Status status = InitTypes(*vocabulary); !status.ok()) return status;
  if (Status status = InitSpaces(*vocabulary); !status.ok()) return status;
  if (Status status = InitBytes(spelling); !status.ok()) return status;
  InitEnds(*vocabulary);
  return {};
}

Status TokenTable::InitTypes(const Vocabulary& vocabulary) {
  const std::vector<int32_t>& types = vocabulary.types;
  if (!types.empty() && types.size() != texts_.size()) {
    return VocabularyError("tokenizer.ggml.token_type",
                           "expected " + std::to_string(texts_.size()) +
                               " types, one for each token, got " + std::to_string(types.size()));
  }
  const TokenType last = vocabulary.normalizes ? TokenType::kSymbol : TokenType::kByte;
  types_.assign(texts_.size(), TokenType::kNormal);
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 1 || types[i] > static_cast<int32_t>(last)) {
      return VocabularyError(IndexedField("tokenizer.ggml.token_type", i),
                             "unknown type " + std::to_string(types[i]));
    }
    types_[i] = static_cast<TokenType>(types[i]);
  }
  // Some files call these ordinary text.
  for (const auto& id : {vocabulary.bos, vocabulary.eos, vocabulary.eot, vocabulary.eom}) {
    if (!id.has_value() || !LooksSpecial(Text(*id))) continue;
    const TokenType type = Type(*id);
    if (type == TokenType::kNormal || type == TokenType::kUserDefined ||
        type == TokenType::kSymbol) {
      types_[static_cast<size_t>(*id)] = TokenType::kControl;
    }
  }
  return {};
}

Status TokenTable::InitBytes(Spelling spelling) {
  ids_.reserve(texts_.size());
  offsets_.reserve(texts_.size() + 1);
  offsets_.push_back(0);
  special_.resize(texts_.size());
  byte_tokens_.fill(-1);
  for (TokenId id = 0; id < static_cast<TokenId>(texts_.size()); ++id) {
    const std::string_view text = Text(id);
    ids_.emplace(text, id);
    AddToken(id);
    if (Type(id) == TokenType::kByte && spelling == Spelling::kSpaceSymbols) {
      const std::optional<uint8_t> byte = ByteOfToken(text);
      if (!byte.has_value()) {
        return VocabularyError(IndexedField("tokenizer.ggml.tokens", static_cast<size_t>(id)),
                               "a byte token must be written as <0x00> to <0xFF>");
      }
      if (byte_tokens_[*byte] < 0) byte_tokens_[*byte] = id;
      bytes_.push_back(static_cast<char>(*byte));
    } else if (IsSpecial(id) || (IsAdded(id) && spelling != Spelling::kSpaceSymbols)) {
      bytes_ += text;
    } else if (spelling == Spelling::kSpaceSymbols) {
      bytes_ += WithoutSpaceSymbols(text);
    } else {
      bytes_ += FromByteLetters(text).value_or(std::string(text));
    }
    offsets_.push_back(bytes_.size());
  }
  return {};
}

void TokenTable::AddToken(TokenId id) {
  if (Type(id) == TokenType::kSymbol && !Text(id).empty()) symbols_.Add(Text(id), id);
  if (!IsAdded(id)) return;
  const bool special = Type(id) != TokenType::kUserDefined;
  special_[static_cast<size_t>(id)] = special;
  if (Text(id).empty()) return;
  const SpecialTokens::Kind kind = {.control = special, .behind_space = IsBehindSpace(id)};
  all_added_.Add(Text(id), id, kind);
  if (!special) user_defined_.Add(Text(id), id, kind);
}

Status TokenTable::InitSpaces(const Vocabulary& vocabulary) {
  const auto mark = [this](const char* name, const std::vector<TokenId>& ids,
                           std::vector<bool>* marked) -> Status {
    marked->resize(texts_.size());
    takes_space_ |= !ids.empty();
    for (const TokenId id : ids) {
      if (Status status = CheckTokenId(name, id, size()); !status.ok()) return status;
      (*marked)[static_cast<size_t>(id)] = true;
    }
    return {};
  };
  Status status = mark("lstrip", vocabulary.strip_left, &strips_left_);
  if (status.ok()) status = mark("rstrip", vocabulary.strip_right, &strips_right_);
  if (status.ok()) status = mark("normalized", vocabulary.behind_space, &behind_space_);
  return status;
}

void TokenTable::InitEnds(const Vocabulary& vocabulary) {
  end_.resize(texts_.size());
  for (const std::string_view text : kEndTexts) {
    const std::optional<TokenId> id = Find(text);
    if (id.has_value() && IsSpecial(*id)) end_[static_cast<size_t>(*id)] = true;
  }
  bool turns_go_on = true;
  for (const std::string_view text : kEndsOfTurn) turns_go_on &= Find(text).has_value();
  if (const auto id = Find(kEndOfMessage); id && turns_go_on) {
    end_[static_cast<size_t>(*id)] = false;
  }
  // What the file says counts in any case.
  for (const auto& id : {vocabulary.eos, vocabulary.eot, vocabulary.eom}) {
    if (id.has_value()) end_[static_cast<size_t>(*id)] = true;
  }
  for (const TokenId id : vocabulary.ends) {
    if (id >= 0 && static_cast<size_t>(id) < size()) end_[static_cast<size_t>(id)] = true;
  }
}

std::string_view TokenTable::Bytes(TokenId id, bool with_special) const {
  const auto i = static_cast<size_t>(id);
  if (special_[i] && !with_special) return {};
  return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

std::optional<TokenId> TokenTable::Find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<TokenId> TokenTable::FindNormal(std::string_view text) const {
  const std::optional<TokenId> id = Find(text);
  return id && Type(*id) == TokenType::kNormal ? id : std::nullopt;
}

bool TokenTable::IsAdded(TokenId id) const {
  const TokenType type = Type(id);
  return type == TokenType::kUnknown || type == TokenType::kControl ||
         type == TokenType::kUserDefined;
}

}  // namespace ropeway::tokenizer
