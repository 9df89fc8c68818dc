// A model in a folder in Hugging Face's format: config.json, and one or more .safetensors files.
#ifndef ROPEWAY_MODEL_HF_FOLDER_H_
#define ROPEWAY_MODEL_HF_FOLDER_H_

#include <memory>
#include <string>

#include "model/failures.h"
#include "model/gguf.h"
#include "ropeway/status.h"

namespace ropeway::model {

// Whether the folder has a config.json and weights beside it.
bool IsHfFolder(const std::string& path);

// Reads the tables of the model, as OpenModel describes. The tokenizer's files are left to
// tokenizer::ReadHfVocabulary. *failures is added what is wrong, all that could be found.
StatusOr<std::unique_ptr<GgufFile>> OpenHfFolder(const std::string& path, Failures* failures);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_HF_FOLDER_H_
