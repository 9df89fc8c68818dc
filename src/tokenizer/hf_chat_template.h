// The chat template that a folder's files give.
#ifndef ROPEWAY_TOKENIZER_HF_CHAT_TEMPLATE_H_
#define ROPEWAY_TOKENIZER_HF_CHAT_TEMPLATE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ropeway::tokenizer {

// That of tokenizer_config.json, or else of chat_template.json (`processor`); "" if neither has
// one. A field that is there and has none is named in `warnings`.
std::string ReadHfChatTemplate(const nlohmann::json& tokenizer_config,
                               const nlohmann::json& processor, std::vector<std::string>* warnings);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_CHAT_TEMPLATE_H_
