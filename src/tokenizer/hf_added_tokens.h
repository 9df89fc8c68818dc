// The tokens that a folder's files add to its vocabulary, and those that they name.
#ifndef ROPEWAY_TOKENIZER_HF_ADDED_TOKENS_H_
#define ROPEWAY_TOKENIZER_HF_ADDED_TOKENS_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/hf_tokenizer_json.h"

namespace ropeway::tokenizer {

struct AddedToken {
  std::string field;  // Where it stands, as errors name it: its file and its key.
  std::string text;
  std::optional<TokenId> id;  // If its file says one.
  bool special = false;
  bool strips_left = false;
  bool strips_right = false;
  bool single_word = false;
  bool normalized = false;
};

// A token that a field names: absent, null, or its text.
struct NamedToken {
  bool said = false;
  std::string text = {};  // "": none.
};

struct AddedTokens {
  std::vector<AddedToken> numbered;  // In the order of their ids.
  // Whether those are of tokenizer_config.json's added_tokens_decoder, which also says how each is
  // found in a text; otherwise of added_tokens.json.
  bool of_decoder = false;
  // The special tokens that are named, which get the next ids where no vocabulary has them, in
  // this order: bos, eos, unk, sep, pad, cls, mask, others, additional ones.
  std::vector<AddedToken> named;
  NamedToken bos;
  NamedToken eos;
  NamedToken unk;
};

// A token as {"content": ..., "lstrip": ..., ...}; kDataLoss, naming `field`, for anything else.
StatusOr<AddedToken> ReadAddedToken(const nlohmann::json& token, const std::string& field);

// What the three files say together, each null if it is absent. As in transformers, an
// added_tokens_decoder takes the place of both other files; otherwise special_tokens_map.json goes
// before tokenizer_config.json.
StatusOr<AddedTokens> ReadAddedTokens(const nlohmann::json& tokenizer_config,
                                      const nlohmann::json& special_tokens_map,
                                      const nlohmann::json& added_tokens);

// `tokenizers` looks for a token that is `normalized` in the text that its normalizer has made of
// what lies between the others, and normalizes its text too. Returns which of `tokens` are found
// only behind a space (Vocabulary::behind_space). All others are found in the text as it is;
// kUnimplemented, naming its field, for one that would be found otherwise.
StatusOr<std::vector<TokenId>> TokensBehindSpace(const std::map<TokenId, AddedToken>& tokens,
                                                 const TextSteps& steps);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_ADDED_TOKENS_H_
