// The seam between what all tokenizers do with a text and what each kind of vocabulary does with
// the ordinary text between two added tokens.
#ifndef ROPEWAY_TOKENIZER_TEXT_MODEL_H_
#define ROPEWAY_TOKENIZER_TEXT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/token_table.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/work.h"

namespace ropeway::tokenizer {

// What stands before a segment, which is ordinary text up to the next added token.
enum class Before {
  kNothing,     // It begins the text.
  kAddedToken,  // An added token.
  kText,        // Ordinary text that was encoded earlier.
};

// Encodes one segment after the other. One thread at a time.
class SegmentEncoder {
 public:
  virtual ~SegmentEncoder() = default;

  // REQUIRES: `text` is not empty; it must outlive the segment's encoding.
  virtual void Begin(std::string_view text, Before before) = 0;

  // Goes on and appends the ids. Returns whether the segment is encoded; false: no work is left.
  virtual bool Run(Work* work, std::vector<TokenId>* ids) = 0;

  // The memory that it takes.
  virtual size_t bytes() const = 0;
};

// One kind of vocabulary. Const and thread-safe after construction.
class TextModel {
 public:
  virtual ~TextModel() = default;

  // It must not outlive this.
  virtual std::unique_ptr<SegmentEncoder> NewEncoder() const = 0;

  // Whether a token covers no more of a text than it has bytes, of those bytes that are such.
  virtual bool Counts(uint8_t byte) const = 0;

  // Whether it writes a space of its own before some segment that comes after `before`.
  virtual bool AddsSpace(Before /*before*/) const { return false; }

  // Whether texts begin with the bos token if the vocabulary does not say.
  virtual bool adds_bos() const { return false; }
};

// The kinds of vocabularies. Errors name the GGUF field; `table` must outlive the model.

// Byte-level BPE, the vocabulary of GPT-2, Llama 3, Qwen, SmolLM, gpt-oss and many others.
//
// Encodes like Hugging Face `tokenizers` with the same vocabulary and merges. Each byte that is not
// UTF-8 becomes one token. There is no Unicode normalization, unless the vocabulary asks for one:
// decoding returns the encoded bytes.
//
// A vocabulary need not have a token for each of the 256 bytes (SmolLM2's lacks 21 rare ones, such
// as 0x04 and 0xF5); such bytes are dropped, as in `tokenizers`.
StatusOr<std::unique_ptr<const TextModel>> MakeByteLevelBpe(const Vocabulary& vocabulary,
                                                            const TokenTable* table);

// SentencePiece's BPE, the vocabulary of Llama 2, Mistral, Gemma, Phi-3 and others.
//
// Encodes like SentencePiece by the vocabulary's scores, or like Hugging Face `tokenizers` by its
// merges. A character without a token becomes the tokens of its bytes; where one of those is
// missing too, the unknown token, one for several such characters in a row. Each byte that is not
// UTF-8 is taken for a character. Tokens of type kUnused are never made.
StatusOr<std::unique_ptr<const TextModel>> MakeSentencePieceBpe(const Vocabulary& vocabulary,
                                                                const TokenTable* table);

// SentencePiece's unigram language model (Kudo 2018), the vocabulary of T5 and XLM-RoBERTa.
//
// Encodes like SentencePiece: the text is normalized by the vocabulary's character map and its rule
// for spaces; among all divisions into tokens of type kNormal and symbols, the one with the highest
// sum of scores is taken, the sums in double precision. A character without a token costs 10 more
// than the worst token and becomes the tokens of its bytes, or the unknown token, one for several
// in a row. So decoding returns the normalized text at best. Bytes that are not UTF-8 are U+FFFD.
StatusOr<std::unique_ptr<const TextModel>> MakeUnigram(const Vocabulary& vocabulary,
                                                       const TokenTable* table);

// WordPiece (Devlin et al. 2019), the vocabulary of BERT and of many models of embeddings.
//
// Encodes like BERT: control characters are dropped; words end at white space; each character of
// punctuation (with ASCII's symbols) and each Chinese one is a word; accents and capitals are
// dropped as the vocabulary says. A word is divided by the longest token that begins the rest of
// it. One that has no such division, or more than 100 characters, becomes the unknown token.
StatusOr<std::unique_ptr<const TextModel>> MakeWordPiece(const Vocabulary& vocabulary,
                                                         const TokenTable* table);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEXT_MODEL_H_
