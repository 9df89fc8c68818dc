// The vocabulary of a folder in Hugging Face's format.
#ifndef ROPEWAY_TOKENIZER_HF_VOCABULARY_H_
#define ROPEWAY_TOKENIZER_HF_VOCABULARY_H_

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "ropeway/status.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// The files' contents; "" where the folder has none.
struct HfTokenizerFiles {
  std::string tokenizer_json = {};
  std::string tokenizer_model = {};  // SentencePiece's; read where there is no tokenizer.json.
  std::string tokenizer_config = {};
  std::string special_tokens_map = {};
  std::string added_tokens = {};
  std::string config = {};
  std::string generation_config = {};
  std::string chat_template = {};       // chat_template.jinja: goes before tokenizer_config's.
  std::string processor_template = {};  // chat_template.json: read where there is no other.
  std::string foreign = {};  // The name of a vocabulary in a format that is not read, if there is.
  size_t rows = 0;           // The embedding's rows; ids without a token get one of type kUnused.
};

// Where the text of each file of a folder goes.
struct HfTokenizerFile {
  const char* name;
  std::string HfTokenizerFiles::*text;
};
inline constexpr std::array<HfTokenizerFile, 9> kHfTokenizerFiles = {{
    {"tokenizer.json", &HfTokenizerFiles::tokenizer_json},
    {"tokenizer.model", &HfTokenizerFiles::tokenizer_model},
    {"tokenizer_config.json", &HfTokenizerFiles::tokenizer_config},
    {"special_tokens_map.json", &HfTokenizerFiles::special_tokens_map},
    {"added_tokens.json", &HfTokenizerFiles::added_tokens},
    {"config.json", &HfTokenizerFiles::config},
    {"generation_config.json", &HfTokenizerFiles::generation_config},
    {"chat_template.jinja", &HfTokenizerFiles::chat_template},
    {"chat_template.json", &HfTokenizerFiles::processor_template},
}};

// Reads tokenizer.json (byte-level BPE, and the BPE that was made from SentencePiece's), or
// tokenizer.model (BPE or unigram), with what the other files say of added and special tokens
// (docs/tokenizers.md lists them all). kDataLoss for what is not valid, kUnimplemented for what
// would encode otherwise than `tokenizers` does; one sentence that names the file and the field.
StatusOr<Vocabulary> ReadHfVocabulary(const HfTokenizerFiles& files);

// Tokens with their scores and types, the kind of model ("llama" for BPE, "t5" for unigram), and
// how it normalizes. kDataLoss for bytes that are no such model, kUnimplemented for models of words
// or characters.
StatusOr<Vocabulary> ReadSentencePieceModel(std::string_view bytes);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_VOCABULARY_H_
