// Log-probabilities in the shapes of OpenAI's two endpoints.
#ifndef ROPEWAY_SERVER_LOGPROBS_JSON_H_
#define ROPEWAY_SERVER_LOGPROBS_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"

namespace ropeway {

// A token as a key that no other token's bytes share: its text, or "bytes:\xe2\x96" where that is
// not valid UTF-8. OpenAI writes completions' tokens so.
std::string TokenKey(std::string_view bytes);

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}, ...], "refusal": null}.
nlohmann::ordered_json ChatLogprobs(const std::vector<OutputToken>& tokens);

// {"text_offset", "token_logprobs", "tokens", "top_logprobs"}; `characters` maps a token's byte
// offset to characters. A token's own log-probability stands among its top ones, as at OpenAI.
template <typename OffsetFn>
nlohmann::ordered_json CompletionLogprobs(const std::vector<OutputToken>& tokens,
                                          OffsetFn characters);

// A log-probability as JSON can hold it: minus infinity becomes -9999, as in vLLM.
double FiniteLogprob(float logprob);

// The "top_logprobs" entry of one token of a completion.
nlohmann::ordered_json CompletionTop(const OutputToken& token);

template <typename OffsetFn>
nlohmann::ordered_json CompletionLogprobs(const std::vector<OutputToken>& tokens,
                                          OffsetFn characters) {
  using Json = nlohmann::ordered_json;
  Json out = {{"text_offset", Json::array()},
              {"token_logprobs", Json::array()},
              {"tokens", Json::array()},
              {"top_logprobs", Json::array()}};
  for (const OutputToken& token : tokens) {
    out["text_offset"].push_back(characters(token.text_offset));
    out["token_logprobs"].push_back(FiniteLogprob(token.logprob));
    out["tokens"].push_back(TokenKey(token.bytes));
    out["top_logprobs"].push_back(CompletionTop(token));
  }
  return out;
}

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_LOGPROBS_JSON_H_
