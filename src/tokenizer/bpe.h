// Byte-level BPE, the tokenizer of GPT-2, Llama 3, Qwen2, SmolLM and many others.
#ifndef ROPEWAY_TOKENIZER_BPE_H_
#define ROPEWAY_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ropeway/status.h"
#include "tokenizer/bpe_tables.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// Encodes like Hugging Face `tokenizers` with the same vocabulary and merges. User-defined tokens
// are recognised in any text, control tokens with parse_special only. There is no Unicode
// normalisation: decoding returns the encoded bytes. Each byte that is not UTF-8 becomes one token.
//
// A vocabulary need not have a token for each of the 256 bytes (SmolLM2's lacks 21 rare ones, such
// as 0x04 and 0xF5); such bytes are dropped, as in `tokenizers`.
class BpeTokenizer final : public Tokenizer {
 public:
  // Errors name the GGUF field.
  static StatusOr<std::unique_ptr<BpeTokenizer>> Create(Vocabulary vocabulary);

  std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options) const override;
  // In pieces of any length. With `most` a text that is far too long is found out by the lengths of
  // the vocabulary's tokens, at the cost of looking at a part of it.
  std::unique_ptr<Encoding> Begin(std::string_view text, const EncodeOptions& options,
                                  size_t most = Encoding::kNoLimit) const override;
  std::string_view Bytes(TokenId id, bool with_special = false) const override;
  bool IsEnd(TokenId id) const override { return is_end_[static_cast<size_t>(id)]; }
  bool IsSpecial(TokenId id) const override { return is_special_[static_cast<size_t>(id)]; }
  int32_t vocab_size() const override { return static_cast<int32_t>(vocabulary_.tokens.size()); }
  std::optional<TokenId> Find(std::string_view token) const override;
  std::optional<TokenId> bos() const override { return vocabulary_.bos; }
  std::optional<TokenId> eos() const override { return vocabulary_.eos; }

  // Whether a byte of text can be encoded.
  bool HasByte(uint8_t byte) const { return byte_ids_[byte] >= 0; }

 private:
  BpeTokenizer(Vocabulary vocabulary, PreTokenizer pre_tokenizer);

  class Pass;  // bpe_encoding.cc

  Status Init();
  Status InitTokens();
  Status InitMerges();
  void InitEnds();
  void InitLongest();
  bool IsAdded(TokenId id) const;
  // The token that a piece becomes without merges; -1: it is merged.
  TokenId WholePiece(std::string_view piece) const;

  Vocabulary vocabulary_;
  PreTokenizer pre_tokenizer_;
  bool add_bos_ = false;
  bool add_eos_ = false;

  std::unordered_map<std::string_view, TokenId> ids_;  // By the text in the file; views of it.
  std::array<TokenId, 256> byte_ids_{};                // -1: the vocabulary lacks the byte.
  MergeTable merges_{{}};
  SpecialTokens user_defined_;  // Always recognised.
  SpecialTokens all_added_;     // Those and the control tokens.
  size_t longest_token_ = 0;    // In bytes.
  // By two bytes: the most bytes of a token that begins with them, at least 1. Bytes that have no
  // token do not count.
  std::vector<uint32_t> longest_from_;

  std::string bytes_;            // The bytes of all tokens, concatenated.
  std::vector<size_t> offsets_;  // [vocab_size + 1] into bytes_.
  std::vector<bool> is_special_;
  std::vector<bool> is_end_;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_BPE_H_
