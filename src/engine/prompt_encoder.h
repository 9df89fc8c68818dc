// From a request's prompt to token ids that fit.
#ifndef ROPEWAY_ENGINE_PROMPT_ENCODER_H_
#define ROPEWAY_ENGINE_PROMPT_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/block_name.h"
#include "engine/engine_core.h"
#include "engine/engine_metrics.h"
#include "engine/live_request.h"
#include "store/session_store.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

// Renders a chat, with the generation prompt where asked for; const and thread-safe.
using ChatRenderer = std::function<StatusOr<std::string>(const std::vector<ChatMessage>&,
                                                         bool add_generation_prompt)>;

// The error for a chat without a template.
Status NoChatTemplate();

// Thread rule: const and thread-safe.
class PromptEncoder {
 public:
  // `render_chat` may be empty: then chats are rejected. `cache_root`: common to all requests,
  // except for scope and salt. `sessions` and `metrics`, used for turns of sessions alone, must
  // outlive it.
  PromptEncoder(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, ChatRenderer render_chat,
                int32_t max_model_len, core::CacheRoot cache_root, store::SessionStore* sessions,
                const TurnMetrics* metrics);

  // Applies the chat template, encodes, and resolves max_tokens. kInvalidArgument with the field at
  // fault for a prompt that is empty or too long, for min_tokens above the resolved max_tokens, and
  // for ids that the model lacks, wherever they stand. Takes the prompt out of the request. A turn
  // of a session goes on from the session's ids, which are read from the store; the status says why
  // they cannot be read, or used with this model and prompt.
  StatusOr<core::CoreRequest> Encode(LiveRequest* live) const;

 private:
  StatusOr<std::vector<TokenId>> EncodePrompt(Request* request) const;
  // Likewise for the next turn of a session, and sets its `next`.
  StatusOr<std::vector<TokenId>> EncodeTurn(Request* request, LiveTurn* turn) const;
  // Both append to next.ids; `before` is null for the session's first turn.
  Status EncodeChatTurn(Request* request, const store::SessionState* before,
                        store::SessionState* next) const;
  Status EncodeTextTurn(Request* request, const store::SessionState* before,
                        store::SessionState* next) const;
  // OK if a turn of `kind` can go on from `before` with this model.
  Status CheckHistory(const Request& request, const store::SessionState& before,
                      store::SessionState::Kind kind) const;
  StatusOr<std::vector<TokenId>> EncodeText(const std::string& text, bool add_special) const;
  // `what` and `field` name the list that holds the id.
  Status CheckId(TokenId id, const char* what, const char* field) const;
  Status CheckIds(const Request& request) const;
  // The ids that end the sequence.
  std::vector<TokenId> EndIds(const Request& request) const;
  // Names the KV blocks that the request may share.
  core::BlockName RootOf(const Request& request) const;
  // The number of tokens to generate; InvalidArgument if the request can never fit.
  StatusOr<int32_t> ResolveMaxTokens(const Request& request, size_t prompt_tokens) const;

  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const ChatRenderer render_chat_;
  const int32_t max_model_len_;
  const core::CacheRoot cache_root_;
  store::SessionStore* const sessions_;
  const TurnMetrics* const metrics_;
  const std::string vocabulary_;  // Its digest.
  size_t longest_token_ = 1;      // In bytes of text.
  std::vector<TokenId> end_ids_;  // The model's end tokens.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_PROMPT_ENCODER_H_
