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

// The lists of a completion's "logprobs": "text_offset", "token_logprobs", "tokens" and
// "top_logprobs", each empty.
nlohmann::ordered_json EmptyCompletionLogprobs();

// Appends `tokens` to the lists; `characters` maps a token to its offset in characters. A token's
// own log-probability stands among its top ones, as at OpenAI; a prompt's first token has null for
// both.
template <typename OffsetFn>
void AppendCompletionLogprobs(const std::vector<OutputToken>& tokens, OffsetFn characters,
                              nlohmann::ordered_json* lists);

// vLLM's "prompt_logprobs": for each token of the prompt null or {"<id>": {"logprob", "rank",
// "decoded_token"}, ...}. The rank of a token that is not among the most probable ones is null.
nlohmann::ordered_json PromptLogprobs(const std::vector<OutputToken>& tokens);

// A log-probability as JSON can hold it: minus infinity becomes -9999, as in vLLM.
double FiniteLogprob(float logprob);

// One token's entries of "token_logprobs" and "top_logprobs".
nlohmann::ordered_json CompletionLogprob(const OutputToken& token);
nlohmann::ordered_json CompletionTop(const OutputToken& token);

template <typename OffsetFn>
void AppendCompletionLogprobs(const std::vector<OutputToken>& tokens, OffsetFn characters,
                              nlohmann::ordered_json* lists) {
  for (const OutputToken& token : tokens) {
    (*lists)["text_offset"].push_back(characters(token));
    (*lists)["token_logprobs"].push_back(CompletionLogprob(token));
    (*lists)["tokens"].push_back(TokenKey(token.bytes));
    (*lists)["top_logprobs"].push_back(CompletionTop(token));
  }
}

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_LOGPROBS_JSON_H_
