// The tokens of a vocabulary, and what every kind of tokenizer knows of them.
#ifndef ROPEWAY_TOKENIZER_TOKEN_TABLE_H_
#define ROPEWAY_TOKENIZER_TOKEN_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ropeway/status.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// How tokens stand in a file.
enum class Spelling {
  kByteLetters,   // Each byte is a letter of byte-level BPE (bpe_tables.h).
  kSpaceSymbols,  // As text, with "▁" for a space; tokens of type kByte are "<0x0A>".
};

// An error about a field of the vocabulary, by its GGUF key.
Status VocabularyError(const std::string& field, const std::string& what);
std::string IndexedField(const char* field, size_t index);

// Const and thread-safe after construction. Added tokens are those that a text may have written
// out: control, unknown and user-defined ones.
class TokenTable {
 public:
  // Checks what all kinds of vocabularies share and takes the tokens out of `vocabulary`. Errors
  // name the field.
  static StatusOr<std::unique_ptr<const TokenTable>> Create(Spelling spelling,
                                                            Vocabulary* vocabulary);
  TokenTable(const TokenTable&) = delete;
  TokenTable& operator=(const TokenTable&) = delete;

  size_t size() const { return texts_.size(); }
  // Tokens with ids below it have a row in the model's embedding.
  size_t rows() const { return rows_; }
  bool HasRow(TokenId id) const { return static_cast<size_t>(id) < rows_; }
  // As in the file.
  std::string_view Text(TokenId id) const { return texts_[static_cast<size_t>(id)]; }
  TokenType Type(TokenId id) const { return types_[static_cast<size_t>(id)]; }
  // What the token stands for in a text; of a special token nothing, unless `with_special`.
  std::string_view Bytes(TokenId id, bool with_special) const;
  // The first token with this text.
  std::optional<TokenId> Find(std::string_view text) const;
  // The same, if it is of type kNormal.
  std::optional<TokenId> FindNormal(std::string_view text) const;
  // The token of type kByte with this value; -1: none.
  TokenId ByteToken(uint8_t byte) const { return byte_tokens_[byte]; }

  bool IsAdded(TokenId id) const;
  bool IsSpecial(TokenId id) const { return special_[static_cast<size_t>(id)]; }
  bool IsEnd(TokenId id) const { return end_[static_cast<size_t>(id)]; }
  bool StripsLeft(TokenId id) const { return strips_left_[static_cast<size_t>(id)]; }
  bool StripsRight(TokenId id) const { return strips_right_[static_cast<size_t>(id)]; }
  // Whether it is found only behind a space, which it takes along (Vocabulary::behind_space).
  bool IsBehindSpace(TokenId id) const { return behind_space_[static_cast<size_t>(id)]; }
  bool takes_space() const { return takes_space_; }  // Whether any token takes white space along.

  const SpecialTokens& user_defined() const { return user_defined_; }
  const SpecialTokens& all_added() const { return all_added_; }
  const SpecialTokens& symbols() const { return symbols_; }  // Tokens of type kSymbol.

 private:
  TokenTable() = default;

  Status Init(Spelling spelling, Vocabulary* vocabulary);
  Status InitTypes(const Vocabulary& vocabulary);
  Status InitBytes(Spelling spelling);
  Status InitSpaces(const Vocabulary& vocabulary);
  void InitEnds(const Vocabulary& vocabulary);
  void AddToken(TokenId id);

  size_t rows_ = 0;
  std::vector<std::string> texts_;
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, TokenId> ids_;  // Views of texts_.
  std::array<TokenId, 256> byte_tokens_{};
  SpecialTokens user_defined_;  // Always recognised.
  SpecialTokens all_added_;     // Those and the special tokens.
  SpecialTokens symbols_;

  std::string bytes_;            // The bytes of all tokens, concatenated.
  std::vector<size_t> offsets_;  // [size + 1] into bytes_.
  std::vector<bool> special_;
  std::vector<bool> end_;
  std::vector<bool> strips_left_;
  std::vector<bool> strips_right_;
  std::vector<bool> behind_space_;
  bool takes_space_ = false;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TOKEN_TABLE_H_
