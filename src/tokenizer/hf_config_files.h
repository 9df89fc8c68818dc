// What a folder's JSON files besides its vocabulary say of tokens and chats: config.json,
// generation_config.json, tokenizer_config.json and chat_template.json.
#ifndef ROPEWAY_TOKENIZER_HF_CONFIG_FILES_H_
#define ROPEWAY_TOKENIZER_HF_CONFIG_FILES_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

struct SpecialIds {
  std::optional<TokenId> bos;  // config.json's.
  std::vector<TokenId> ends;   // generation_config.json's eos_token_id, then config.json's.
};

// An id that is none of the vocabulary's `tokens` tokens is left out, and named in `warnings`.
// kDataLoss for what is no number and no list of numbers.
StatusOr<SpecialIds> ReadSpecialIds(const nlohmann::json& config, const nlohmann::json& generation,
                                    size_t tokens, std::vector<std::string>* warnings);

// Names the tokens with which texts would begin or end, if the model's embedding had a row for
// them.
void WarnOfEndsWithoutRow(Vocabulary* vocabulary);

// Names each field of generation_config.json that would change what transformers generates and
// that Ropeway does not apply.
void WarnOfGeneration(const nlohmann::json& generation, std::vector<std::string>* warnings);

// kUnimplemented, naming the field, if texts would be encoded otherwise than by what is read of the
// folder; `tokenizer_json`: whether that is its tokenizer.json.
Status CheckTokenizerConfig(const nlohmann::json& config, bool tokenizer_json);

// The chat template of tokenizer_config.json, or else of chat_template.json (`processor`); "" if
// neither has one. A field that is there without a template is named in `warnings`.
std::string ReadHfChatTemplate(const nlohmann::json& tokenizer_config,
                               const nlohmann::json& processor, std::vector<std::string>* warnings);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_CONFIG_FILES_H_
