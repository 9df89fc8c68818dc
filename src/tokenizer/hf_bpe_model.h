// The "model" of a tokenizer.json: its tokens and merges.
#ifndef ROPEWAY_TOKENIZER_HF_BPE_MODEL_H_
#define ROPEWAY_TOKENIZER_HF_BPE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ropeway/status.h"
#include "tokenizer/hf_text_steps.h"

namespace ropeway::tokenizer {

// As the fields of Vocabulary.
struct BpeModel {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
};

// kUnimplemented, naming the field, for another kind of model and for what would change its ids.
Status CheckBpeModel(const nlohmann::json& model);

// Reads one that CheckBpeModel takes. `rows`: of the model's embedding, 0 where it is not known.
// kDataLoss naming the field at fault.
StatusOr<BpeModel> ReadBpeModel(const nlohmann::json& model, size_t rows, const TextSteps& steps);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_BPE_MODEL_H_
