// A model's tokenizer data as plain values: from a GGUF file's metadata, or from a Hugging Face
// folder's tokenizer.json. The reader of the file fills it, and MakeTokenizer
// (make_tokenizer.h) validates it.
#ifndef ROPEWAY_TOKENIZER_VOCABULARY_H_
#define ROPEWAY_TOKENIZER_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::tokenizer {

// The values of tokenizer.ggml.token_type, and one more.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
  // Not GGUF's: a user-defined piece of a tokenizer.model, which is found in the text between two
  // added tokens and taken whole.
  kSymbol = 7,
};

// The most that is read of a file: the largest known vocabularies have 262,144 tokens and twice as
// many merges.
inline constexpr size_t kMaxVocabularyTokens = size_t{1} << 22;
inline constexpr size_t kMaxVocabularyMerges = size_t{1} << 23;

// Where a tokenizer of words (SentencePiece) writes a space that the text does not have, so that
// its first word is the token of any other word.
enum class SpacePrefix {
  kNone,
  kEach,           // Before each part of a text: at its beginning and behind each added token.
  kEachIfNone,     // The same, unless the part begins with a space.
  kBeginningOnly,  // At the text's beginning, unless that is a space.
};

// How a text is normalized before it is split.
enum class TextForm {
  kAsIs,
  kNfc,  // Unicode's composed form.
};

// Each field's comment names its GGUF key, and what of tokenizer.json it stands for.
struct Vocabulary {
  // tokenizer.ggml.model:
  //   "gpt2"    byte-level BPE;
  //   "llama"   SentencePiece BPE: by `scores`, or, where there are none, by `merges`
  //             (tokenizer.json's BPE with byte_fallback, whose spaces are "▁");
  //   "gemma4"  the same, by merges;
  //   "t5"      SentencePiece unigram, by `scores`;
  //   "bert"    WordPiece. Tokens are as in GGUF: "▁word" begins a word, "ing" (tokenizer.json's
  //             "##ing") continues one.
  std::string model;
  std::string pre;                  // tokenizer.ggml.pre: the split patterns of "gpt2".
  std::vector<std::string> tokens;  // tokenizer.ggml.tokens, by id, as in the file.
  std::vector<int32_t> types;  // tokenizer.ggml.token_type, one per token, or none: all normal.
  std::vector<float> scores;   // tokenizer.ggml.scores, one per token, or none.
  // How many of the last tokens the model's embedding has no row for. No request may use them.
  size_t without_row = 0;
  std::vector<std::string> merges;  // tokenizer.ggml.merges, "left right", best first.

  std::optional<TokenId> bos;  // tokenizer.ggml.bos_token_id; "bert": [CLS].
  std::optional<TokenId> eos;  // tokenizer.ggml.eos_token_id; "bert": [SEP].
  std::optional<TokenId> eot;  // tokenizer.ggml.eot_token_id
  std::optional<TokenId> eom;  // tokenizer.ggml.eom_token_id
  std::optional<TokenId> unk;  // tokenizer.ggml.unknown_token_id
  // Other tokens that end generation: generation_config.json's list of eos_token_id.
  std::vector<TokenId> ends;

  // Whether a text begins with bos or ends with eos; absent: bos if the split patterns of `pre` are
  // of a family that does, never eos.
  std::optional<bool> add_bos;  // tokenizer.ggml.add_bos_token
  std::optional<bool> add_eos;  // tokenizer.ggml.add_eos_token

  // Added tokens that take the white space beside them along (lstrip and rstrip of tokenizer.json).
  // GGUF does not say: by the model's family.
  std::vector<TokenId> strip_left;
  std::vector<TokenId> strip_right;
  // Added tokens that tokenizer.json calls `normalized` beside a normalizer that writes "▁" in
  // front of each segment. They are found only behind a space, that one or one of the text, and
  // take it along. No new segment begins behind them. REQUIRES: space_prefix is kEach.
  std::vector<TokenId> behind_space;

  // "llama", "gemma4" and "t5".
  SpacePrefix space_prefix = SpacePrefix::kNone;  // tokenizer.ggml.add_space_prefix: kEach.
  // For "t5", and for "llama" if it `normalizes`: it comes from a tokenizer.model, and bytes that
  // are not UTF-8 become U+FFFD. A GGUF file's "llama" does not normalize, as in llama.cpp.
  bool remove_extra_spaces = false;  // tokenizer.ggml.remove_extra_whitespaces
  // Then one of the spaces that a segment begins with is kept, and a "▁" of the text is a space
  // too: transformers' tokenizers with "legacy": false. GGUF has no such key.
  bool keeps_first_space = false;
  std::string char_map;  // tokenizer.ggml.precompiled_charsmap
  bool normalizes = false;

  // "bert": tokenizer.ggml.normalizer.lowercase and .strip_accents.
  bool lowercase = true;
  bool strip_accents = true;

  // "gpt2" from tokenizer.json; GGUF has no such keys. Split patterns, instead of those that
  // `pre` names: each splits the pieces of the one before; whether a piece that is a token is
  // taken whole; and the normalizer.
  std::vector<std::string> patterns;
  std::optional<bool> ignore_merges;
  TextForm form = TextForm::kAsIs;

  std::string chat_template;  // tokenizer.chat_template; "" if absent.

  // What is wrong with the files and does not keep them from being used: "has ...", as
  // ModelCheck::warnings.
  std::vector<std::string> warnings;

  friend bool operator==(const Vocabulary&, const Vocabulary&) = default;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_VOCABULARY_H_
