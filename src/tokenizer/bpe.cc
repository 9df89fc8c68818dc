#include "tokenizer/bpe.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/bpe_tables.h"

namespace ropeway::tokenizer {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24U;
constexpr size_t kMaxMerges = size_t{1} << 26U;

// Tokens that end a turn or a text in common models, for files that do not declare them.
constexpr std::array<std::string_view, 7> kEndTexts = {
    "<|im_end|>",    "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>",
    "<end_of_turn>", "</s>",          "<|end|>",
};

Status Bad(const std::string& field, const std::string& what) {
  return {StatusCode::kDataLoss, field + ": " + what, field};
}

Status CheckId(const char* field, const std::optional<TokenId>& id, size_t tokens) {
  if (!id.has_value() || (*id >= 0 && static_cast<size_t>(*id) < tokens)) return {};
  return Bad(field, "id " + std::to_string(*id) + " is not below the number of tokens, " +
                        std::to_string(tokens));
}

Status CheckCounts(const Vocabulary& vocabulary) {
  const size_t tokens = vocabulary.tokens.size();
  if (vocabulary.model != "gpt2") {
    return {StatusCode::kUnimplemented,
            "tokenizer.ggml.model: \"" + base::PrintableText(vocabulary.model.substr(0, 64)) +
                "\" is not supported; supported: gpt2 (byte-level BPE)",
            "tokenizer.ggml.model"};
  }
  if (tokens == 0 || tokens > kMaxTokens) {
    return Bad("tokenizer.ggml.tokens", "there must be 1 to " + std::to_string(kMaxTokens) +
                                            " tokens, not " + std::to_string(tokens));
  }
  if (!vocabulary.types.empty() && vocabulary.types.size() != tokens) {
    return Bad("tokenizer.ggml.token_type", std::to_string(vocabulary.types.size()) +
                                                " types for " + std::to_string(tokens) + " tokens");
  }
  if (vocabulary.merges.size() > kMaxMerges) {
    return Bad("tokenizer.ggml.merges", "there must be at most " + std::to_string(kMaxMerges) +
                                            ", not " + std::to_string(vocabulary.merges.size()));
  }
  return {};
}

Status CheckIds(const Vocabulary& vocabulary) {
  const std::array<std::pair<const char*, const std::optional<TokenId>*>, 5> ids = {{
      {"tokenizer.ggml.bos_token_id", &vocabulary.bos},
      {"tokenizer.ggml.eos_token_id", &vocabulary.eos},
      {"tokenizer.ggml.eot_token_id", &vocabulary.eot},
      {"tokenizer.ggml.eom_token_id", &vocabulary.eom},
      {"tokenizer.ggml.unknown_token_id", &vocabulary.unk},
  }};
  for (const auto& [field, id] : ids) {
    Status status = CheckId(field, *id, vocabulary.tokens.size());
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

StatusOr<std::unique_ptr<BpeTokenizer>> BpeTokenizer::Create(Vocabulary vocabulary) {
  if (Status status = CheckCounts(vocabulary); !status.ok()) return status;
  if (Status status = CheckIds(vocabulary); !status.ok()) return status;
  StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Create(vocabulary.pre);
  if (!pre_tokenizer.ok()) return pre_tokenizer.status();
  std::unique_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(std::move(vocabulary), *std::move(pre_tokenizer)));
  if (Status status = tokenizer->Init(); !status.ok()) return status;
  return tokenizer;
}

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, PreTokenizer pre_tokenizer)
    : vocabulary_(std::move(vocabulary)), pre_tokenizer_(std::move(pre_tokenizer)) {}

Status BpeTokenizer::Init() {
  if (vocabulary_.types.empty()) {
    vocabulary_.types.assign(vocabulary_.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  }
  if (Status status = InitTokens(); !status.ok()) return status;
  if (Status status = InitMerges(); !status.ok()) return status;
  InitEnds();
  InitLongest();
  add_bos_ = vocabulary_.bos.has_value() && vocabulary_.add_bos.value_or(pre_tokenizer_.adds_bos());
  add_eos_ = vocabulary_.eos.has_value() && vocabulary_.add_eos.value_or(false);
  return {};
}

// Whether the token's text is plain, not in the byte alphabet.
bool BpeTokenizer::IsAdded(TokenId id) const {
  const auto type = static_cast<TokenType>(vocabulary_.types[static_cast<size_t>(id)]);
  return type == TokenType::kUnknown || type == TokenType::kControl ||
         type == TokenType::kUserDefined;
}

Status BpeTokenizer::InitTokens() {
  const size_t count = vocabulary_.tokens.size();
  ids_.reserve(count);
  offsets_.reserve(count + 1);
  offsets_.push_back(0);
  is_special_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const std::string& text = vocabulary_.tokens[i];
    const auto id = static_cast<TokenId>(i);
    const int32_t type = vocabulary_.types[i];
    if (type < 1 || type > static_cast<int32_t>(TokenType::kByte)) {
      return Bad("tokenizer.ggml.token_type[" + std::to_string(i) + "]",
                 "unknown type " + std::to_string(type));
    }
    ids_.emplace(text, id);
    if (!IsAdded(id)) {
      const std::string bytes = FromByteLetters(text).value_or(text);
      longest_token_ = std::max(longest_token_, bytes.size());
      bytes_ += bytes;
    } else {
      is_special_[i] = type != static_cast<int32_t>(TokenType::kUserDefined);
      bytes_ += text;
      if (!text.empty()) all_added_.Add(text, id, is_special_[i]);
      if (!text.empty() && !is_special_[i]) user_defined_.Add(text, id);
    }
    offsets_.push_back(bytes_.size());
  }
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    byte_ids_[byte] = Find(ByteToLetter(static_cast<uint8_t>(byte))).value_or(-1);
  }
  return {};
}

Status BpeTokenizer::InitMerges() {
  std::vector<Merge> merges;
  merges.reserve(vocabulary_.merges.size());
  std::string joined;
  for (size_t i = 0; i < vocabulary_.merges.size(); ++i) {
    const std::string_view text = vocabulary_.merges[i];
    const auto fail = [&](const std::string& what) {
      return Bad("tokenizer.ggml.merges[" + std::to_string(i) + "]", what);
    };
    const size_t space = text.find(' ');
    if (space == 0 || space == text.npos || space + 1 == text.size() ||
        text.find(' ', space + 1) != text.npos) {
      return fail("expected two tokens with one space between them");
    }
    const std::optional<TokenId> left = Find(text.substr(0, space));
    const std::optional<TokenId> right = Find(text.substr(space + 1));
    joined.assign(text.substr(0, space)).append(text.substr(space + 1));
    const std::optional<TokenId> merged = Find(joined);
    if (!left || !right || !merged) {
      return fail("one of its tokens, or the merged one, is not in the vocabulary");
    }
    merges.push_back({*left, *right, *merged});
  }
  merges_ = MergeTable(merges);
  // Not needed any more; the texts of a large vocabulary take tens of megabytes.
  vocabulary_.merges = {};
  return {};
}

void BpeTokenizer::InitEnds() {
  is_end_.resize(vocabulary_.tokens.size());
  for (const auto& id : {vocabulary_.eos, vocabulary_.eot, vocabulary_.eom}) {
    if (id.has_value()) is_end_[static_cast<size_t>(*id)] = true;
  }
  for (const std::string_view text : kEndTexts) {
    const std::optional<TokenId> id = Find(text);
    if (id.has_value() && is_special_[static_cast<size_t>(*id)]) {
      is_end_[static_cast<size_t>(*id)] = true;
    }
  }
}

void BpeTokenizer::InitLongest() {
  longest_from_.assign(size_t{1} << 16U, 1);
  std::string kept;
  for (TokenId id = 0; id < vocab_size(); ++id) {
    kept.clear();
    for (const char byte : Bytes(id, true)) {
      if (HasByte(static_cast<uint8_t>(byte))) kept.push_back(byte);
    }
    if (kept.size() < 2) continue;
    uint32_t& longest = longest_from_[static_cast<size_t>(static_cast<uint8_t>(kept[0])) << 8U |
                                      static_cast<uint8_t>(kept[1])];
    longest = std::max(longest, static_cast<uint32_t>(kept.size()));
  }
}

std::optional<TokenId> BpeTokenizer::Find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::string_view BpeTokenizer::Bytes(TokenId id, bool with_special) const {
  const auto i = static_cast<size_t>(id);
  if (is_special_[i] && !with_special) return {};
  return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

TokenId BpeTokenizer::WholePiece(std::string_view piece) const {
  if (!pre_tokenizer_.ignore_merges() || piece.size() > longest_token_) return -1;
  // The texts of added tokens are plain, not in the byte alphabet, and no merge makes them.
  const std::optional<TokenId> whole = Find(ToByteLetters(piece));
  return whole && !IsAdded(*whole) ? *whole : -1;
}

}  // namespace ropeway::tokenizer
