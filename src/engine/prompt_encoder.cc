#include "engine/prompt_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/session_text.h"

namespace ropeway::engine {
namespace {

// The subject of an error about a request's length: "the prompt (1 token)".
std::string WhatIsLong(const Request& request, size_t tokens) {
  const std::string what = request.session_id.empty()
                               ? "the prompt"
                               : fmt::format("the session '{}' with this turn", request.session_id);
  return fmt::format("{} ({} token{})", what, tokens, tokens == 1 ? "" : "s");
}

}  // namespace

Status NoChatTemplate() {
  return InvalidArgument("this model has no chat template; use a completion with a text prompt",
                         "messages");
}

PromptEncoder::PromptEncoder(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                             ChatRenderer render_chat, int32_t max_model_len,
                             core::CacheRoot cache_root, store::SessionStore* sessions,
                             const TurnMetrics* metrics)
    : tokenizer_(std::move(tokenizer)),
      render_chat_(std::move(render_chat)),
      max_model_len_(max_model_len),
      cache_root_(std::move(cache_root)),
      sessions_(sessions),
      metrics_(metrics),
      vocabulary_(VocabularyDigest(*tokenizer_)) {
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    longest_token_ = std::max(longest_token_, tokenizer_->Bytes(id, true).size());
    if (tokenizer_->IsEnd(id)) end_ids_.push_back(id);
  }
}

StatusOr<core::CoreRequest> PromptEncoder::Encode(LiveRequest* live) const {
  Request& request = live->request;
  if (Status status = CheckIds(request); !status.ok()) return status;
  StatusOr<std::vector<TokenId>> ids =
      live->turn == nullptr ? EncodePrompt(&request) : EncodeTurn(&request, live->turn.get());
  if (!ids.ok()) return ids.status();
  const StatusOr<int32_t> max_tokens = ResolveMaxTokens(request, ids->size());
  if (!max_tokens.ok()) return max_tokens.status();
  core::CoreRequest core;
  core.id = live->id;
  core.prompt = *std::move(ids);
  core.max_tokens = *max_tokens;
  core.spec.params = request.sampling;
  core.spec.seed = live->seed;
  core.spec.choice = request.choice;
  core.spec.num_logprobs = request.logprobs.value_or(-1);
  core.spec.num_prompt_logprobs = request.prompt_logprobs.value_or(-1);
  core.spec.end_ids = EndIds(request);
  core.ignore_eos = request.ignore_eos;
  core.stop_ids = request.stop_token_ids;
  core.arrival = live->arrival;
  core.deadline = live->deadline;
  core.tenant = request.tenant;
  core.tenant_weight = request.tenant_weight;
  core.priority = request.priority;
  core.cache_root = RootOf(request);
  // Here, where hashing a long prompt delays no step.
  core.block_names = core::ChainNames(core.cache_root, core.prompt);
  // A session will have a next turn.
  if (!request.session_id.empty() || request.cache_retention == CacheRetention::kLong) {
    core.retention = CacheRetention::kLong;
  }
  return core;
}

core::BlockName PromptEncoder::RootOf(const Request& request) const {
  core::CacheRoot root = cache_root_;
  // A scope and a tenant of the same name are distinct.
  root.scope =
      request.cache_scope.empty() ? "tenant " + request.tenant : "scope " + request.cache_scope;
  root.salt = request.cache_salt;
  return core::RootName(root);
}

StatusOr<std::vector<TokenId>> PromptEncoder::EncodePrompt(Request* request) const {
  if (auto* ids = std::get_if<std::vector<TokenId>>(&request->prompt)) {
    for (const TokenId id : *ids) {
      if (Status status = CheckId(id, "the prompt", "prompt"); !status.ok()) return status;
    }
    return std::move(*ids);
  }
  if (auto* text = std::get_if<std::string>(&request->prompt)) {
    const std::string taken = std::move(*text);
    return EncodeText(taken, true);
  }
  const auto messages = std::move(std::get<std::vector<ChatMessage>>(request->prompt));
  if (!render_chat_) return NoChatTemplate();
  StatusOr<std::string> text = render_chat_(messages, true);
  if (!text.ok()) return text.status();
  // The template writes the beginning-of-text token itself.
  return EncodeText(*text, false);
}

StatusOr<std::vector<TokenId>> PromptEncoder::EncodeTurn(Request* request, LiveTurn* turn) const {
  std::optional<store::SessionState> before;
  if (!sessions_->IsNew(turn->turn)) {
    StatusOr<store::SessionState> loaded = sessions_->Load(turn->turn);
    if (!loaded.ok()) return loaded.status();
    before = *std::move(loaded);
  }
  store::SessionState* const next = &turn->next;
  const bool chat = std::holds_alternative<std::vector<ChatMessage>>(request->prompt);
  next->kind = chat ? store::SessionState::Kind::kChat : store::SessionState::Kind::kText;
  next->vocabulary = vocabulary_;
  if (before) {
    if (Status status = CheckHistory(*request, *before, next->kind); !status.ok()) return status;
    turn->session_ids = static_cast<int32_t>(before->ids.size());
  }
  const store::SessionState* const history = before ? &*before : nullptr;
  const Status status =
      chat ? EncodeChatTurn(request, history, next) : EncodeTextTurn(request, history, next);
  if (!status.ok()) return status;
  turn->prompt_ids = next->ids.size();
  return next->ids;
}

Status PromptEncoder::CheckHistory(const Request& request, const store::SessionState& before,
                                   store::SessionState::Kind kind) const {
  if (before.vocabulary != vocabulary_) {
    return InvalidArgument(
        fmt::format("the session '{}' was begun with a model of another vocabulary, in which its "
                    "token ids mean another text",
                    request.session_id),
        "session_id");
  }
  if (before.kind == kind) return {};
  return InvalidArgument(
      fmt::format(
          "the session '{}' was begun with {}, and so must its turns be", request.session_id,
          before.kind == store::SessionState::Kind::kChat ? "chat messages" : "text or token ids"),
      "prompt");
}

Status PromptEncoder::EncodeChatTurn(Request* request, const store::SessionState* before,
                                     store::SessionState* next) const {
  if (!render_chat_) return NoChatTemplate();
  if (before != nullptr) next->messages = before->messages;
  for (ChatMessage& message : std::get<std::vector<ChatMessage>>(request->prompt)) {
    next->messages.push_back(std::move(message));
  }
  StatusOr<std::string> text = render_chat_(next->messages, true);
  if (!text.ok()) return text.status();
  KeptHistory kept;
  if (before != nullptr) {
    const std::optional<KeptHistory> found = FindHistory(*tokenizer_, *before, *text);
    (found ? metrics_->continued : metrics_->reencoded)->Increment();
    if (found) kept = *found;
  } else {
    metrics_->begun->Increment();
  }
  StatusOr<std::vector<TokenId>> added = EncodeText(text->substr(kept.bytes), false);
  if (!added.ok()) return added.status();
  if (before != nullptr) {
    const auto first = before->ids.begin();
    next->ids.assign(first, first + static_cast<std::ptrdiff_t>(kept.ids));
  }
  next->ids.insert(next->ids.end(), added->begin(), added->end());
  return {};
}

Status PromptEncoder::EncodeTextTurn(Request* request, const store::SessionState* before,
                                     store::SessionState* next) const {
  (before == nullptr ? metrics_->begun : metrics_->continued)->Increment();
  std::string text;
  if (before != nullptr) {
    next->ids = before->ids;
    text = before->tail;
  }
  const auto* const added = std::get_if<std::string>(&request->prompt);
  if (added != nullptr) text += *added;
  if (added != nullptr || !text.empty()) {
    // The beginning-of-text token comes before the first turn alone.
    StatusOr<std::vector<TokenId>> ids = EncodeText(text, before == nullptr);
    if (!ids.ok()) return ids.status();
    next->ids.insert(next->ids.end(), ids->begin(), ids->end());
  }
  if (added != nullptr) return {};
  StatusOr<std::vector<TokenId>> ids = EncodePrompt(request);
  if (!ids.ok()) return ids.status();
  next->ids.insert(next->ids.end(), ids->begin(), ids->end());
  return {};
}

StatusOr<std::vector<TokenId>> PromptEncoder::EncodeText(const std::string& text,
                                                         bool add_special) const {
  // A text that cannot fit, however it is encoded, is rejected before megabytes of it are encoded.
  const size_t least = text.size() / longest_token_;
  if (least > static_cast<size_t>(max_model_len_)) {
    return InvalidArgument(
        fmt::format(
            "the prompt ({} bytes, at least {} tokens) exceeds the model's limit of {} tokens",
            text.size(), least, max_model_len_),
        "prompt");
  }
  return tokenizer_->Encode(text, {.add_special = add_special, .parse_special = true});
}

Status PromptEncoder::CheckId(TokenId id, const char* what, const char* field) const {
  const TokenId limit = tokenizer_->vocab_size();
  if (id >= 0 && id < limit) return {};
  return InvalidArgument(
      fmt::format("token id {} in {} is not in the model's vocabulary of {}", id, what, limit),
      field);
}

Status PromptEncoder::CheckIds(const Request& request) const {
  for (const TokenId id : request.stop_token_ids) {
    Status status = CheckId(id, "stop_token_ids", "stop_token_ids");
    if (!status.ok()) return status;
  }
  for (const LogitBias& bias : request.sampling.logit_bias) {
    Status status = CheckId(bias.id, "logit_bias", "logit_bias");
    if (!status.ok()) return status;
  }
  return {};
}

std::vector<TokenId> PromptEncoder::EndIds(const Request& request) const {
  std::vector<TokenId> ids = request.stop_token_ids;
  if (!request.ignore_eos) ids.insert(ids.end(), end_ids_.begin(), end_ids_.end());
  return ids;
}

StatusOr<int32_t> PromptEncoder::ResolveMaxTokens(const Request& request,
                                                  size_t prompt_tokens) const {
  if (prompt_tokens == 0) return InvalidArgument("the prompt is empty", "prompt");
  const int64_t left = int64_t{max_model_len_} - static_cast<int64_t>(prompt_tokens);
  const int64_t wanted = request.max_tokens ? *request.max_tokens : std::max<int64_t>(left, 1);
  if (left < std::min<int64_t>(wanted, 1)) {
    return InvalidArgument(
        fmt::format("{}{} exceeds the model's limit of {} tokens",
                    WhatIsLong(request, prompt_tokens),
                    wanted > 0 ? " plus at least one token to generate" : "", max_model_len_),
        "prompt");
  }
  if (wanted > left) {
    return InvalidArgument(
        fmt::format("{} plus max_tokens ({}) exceeds the model's limit of {} tokens",
                    WhatIsLong(request, prompt_tokens), wanted, max_model_len_),
        "max_tokens");
  }
  if (request.sampling.min_tokens > wanted) {
    return InvalidArgument(
        fmt::format(
            "min_tokens is {}, but the prompt's {} tokens leave only {} of the model's limit of {}",
            request.sampling.min_tokens, prompt_tokens, wanted, max_model_len_),
        "min_tokens");
  }
  return static_cast<int32_t>(wanted);
}

}  // namespace ropeway::engine
