// The post-processor of a tokenizer.json: what is added around a text.
#ifndef ROPEWAY_TOKENIZER_HF_POST_PROCESSOR_H_
#define ROPEWAY_TOKENIZER_HF_POST_PROCESSOR_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::tokenizer {

// The special tokens around a text.
struct TextEnds {
  // Whether there are such; absent: the post-processor does not say.
  std::optional<bool> adds_first;
  std::optional<bool> adds_last;
  std::optional<TokenId> first;
  std::optional<TokenId> last;
};

// Reads "post_processor" (null: there is none) of a vocabulary with these tokens. kUnimplemented
// for another type, or other tokens than at most one before a text and one behind it; kDataLoss for
// tokens that do not exist.
StatusOr<TextEnds> ReadPostProcessor(const nlohmann::json& processor,
                                     const std::vector<std::string>& tokens);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_POST_PROCESSOR_H_
