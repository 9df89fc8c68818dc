// From a model file's metadata, or the files in a folder of Hugging Face's, to a tokenizer and a
// chat template: the glue between two rooms that do not know each other.
#ifndef ROPEWAY_ENGINE_MODEL_VOCABULARY_H_
#define ROPEWAY_ENGINE_MODEL_VOCABULARY_H_

#include <memory>

#include "model/gguf.h"
#include "ropeway/status.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::engine {

// Copies the tokenizer.* metadata out of the file, which is not needed afterwards, and adds what
// files of its kind leave out. Fails with one sentence that names the file, and a key of the wrong
// type or one that is missing.
StatusOr<tokenizer::Vocabulary> ReadVocabulary(const model::GgufFile& file);

// The tokenizer of the vocabulary that ReadVocabulary has read from the model. Errors name the
// file, and the key or field by its name there.
StatusOr<std::unique_ptr<tokenizer::Tokenizer>> MakeModelTokenizer(
    const model::GgufFile& file, tokenizer::Vocabulary vocabulary);

// The name of the folder's file with the vocabulary.
const char* VocabularyFile(const model::GgufFile& folder);

// The tokenizer of a model file (or of one that holds a vocabulary only).
StatusOr<std::unique_ptr<tokenizer::Tokenizer>> LoadTokenizer(const model::GgufFile& file);

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_MODEL_VOCABULARY_H_
