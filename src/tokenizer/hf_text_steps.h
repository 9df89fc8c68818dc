// How a tokenizer.json has a text normalized and split before its BPE.
#ifndef ROPEWAY_TOKENIZER_HF_TEXT_STEPS_H_
#define ROPEWAY_TOKENIZER_HF_TEXT_STEPS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ropeway/status.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

struct TextSteps {
  bool byte_level = false;    // Bytes are letters; otherwise spaces are "▁".
  bool splits_words = false;  // Without byte_level: before each of these.
  std::vector<std::string> patterns;
  TextForm form = TextForm::kAsIs;
  SpacePrefix space_prefix = SpacePrefix::kNone;
  // What the normalizer, and so what a pre-tokenizer does not do, writes as "▁".
  bool normalizes_spaces = false;  // The text's spaces.
  bool normalizes_prefix = false;  // One before each segment.
};

// Reads "pre_tokenizer" and "normalizer". kUnimplemented, naming the field, for what would encode
// otherwise than `tokenizers` does.
StatusOr<TextSteps> ReadTextSteps(const nlohmann::json& tokenizer);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_TEXT_STEPS_H_
