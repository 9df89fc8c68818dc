// What a folder's tokenizer_config.json may not say.
#ifndef ROPEWAY_TOKENIZER_HF_CONFIG_CHECK_H_
#define ROPEWAY_TOKENIZER_HF_CONFIG_CHECK_H_

#include <nlohmann/json_fwd.hpp>

#include "ropeway/status.h"

namespace ropeway::tokenizer {

// kUnimplemented, naming the field, if texts would be encoded otherwise than by what is read of the
// folder; `tokenizer_json`: whether that is its tokenizer.json.
Status CheckTokenizerConfig(const nlohmann::json& config, bool tokenizer_json);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_CONFIG_CHECK_H_
