#include "engine/prompt_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ropeway {

Status NoChatTemplate() {
  return InvalidArgument("this model has no chat template; use a completion with a text prompt",
                         "messages");
}

PromptEncoder::PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer, ChatRenderer render_chat,
                             int32_t max_model_len, CacheRoot cache_root)
    : tokenizer_(std::move(tokenizer)),
      render_chat_(std::move(render_chat)),
      max_model_len_(max_model_len),
      cache_root_(std::move(cache_root)) {
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    longest_token_ = std::max(longest_token_, tokenizer_->Bytes(id, true).size());
    if (tokenizer_->IsEnd(id)) end_ids_.push_back(id);
  }
}

StatusOr<CoreRequest> PromptEncoder::Encode(LiveRequest* live) const {
  Request& request = live->request;
  if (Status status = CheckIds(request); !status.ok()) return status;
  StatusOr<std::vector<TokenId>> ids = EncodePrompt(&request);
  if (!ids.ok()) return ids.status();
  const StatusOr<int32_t> max_tokens = ResolveMaxTokens(request, ids->size());
  if (!max_tokens.ok()) return max_tokens.status();
  CoreRequest core;
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
  core.cache_root = RootOf(request);
  // Here, where a long prompt's hashing delays nobody else's step.
  core.block_names = ChainNames(core.cache_root, core.prompt);
  // A session's next turn is expected.
  if (!request.session_id.empty() || request.cache_retention == CacheRetention::kLong) {
    core.retention = Retention::kHigh;
  }
  return core;
}

BlockName PromptEncoder::RootOf(const Request& request) const {
  CacheRoot root = cache_root_;
  // So that a scope and a tenant of one name are two.
  root.scope =
      request.cache_scope.empty() ? "tenant " + request.tenant : "scope " + request.cache_scope;
  root.salt = request.cache_salt;
  return RootName(root);
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
  // The template itself writes what begins a text.
  return EncodeText(*text, false);
}

StatusOr<std::vector<TokenId>> PromptEncoder::EncodeText(const std::string& text,
                                                         bool add_special) const {
  // What cannot fit however it is encoded is refused before megabytes of it are.
  const size_t least = text.size() / longest_token_;
  if (least > static_cast<size_t>(max_model_len_)) {
    return InvalidArgument(
        fmt::format("the prompt has {} bytes, which is at least {} tokens, but max_model_len is {}",
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
  if (prompt_tokens == 0) return InvalidArgument("the prompt has no tokens", "prompt");
  const int64_t left = int64_t{max_model_len_} - static_cast<int64_t>(prompt_tokens);
  const int64_t wanted = request.max_tokens ? *request.max_tokens : std::max<int64_t>(left, 1);
  if (left < std::min<int64_t>(wanted, 1)) {
    return InvalidArgument(
        fmt::format("the prompt has {} tokens, but max_model_len is {}{}", prompt_tokens,
                    max_model_len_,
                    wanted > 0 ? ", and at least one token is to be generated" : ""),
        "prompt");
  }
  if (wanted > left) {
    return InvalidArgument(
        fmt::format("the prompt has {} tokens + max_tokens {} = {}, but max_model_len is {}",
                    prompt_tokens, wanted, static_cast<int64_t>(prompt_tokens) + wanted,
                    max_model_len_),
        "max_tokens");
  }
  if (request.sampling.min_tokens > wanted) {
    return InvalidArgument(
        fmt::format(
            "min_tokens is {}, but the prompt's {} tokens leave only {} of max_model_len {}",
            request.sampling.min_tokens, prompt_tokens, wanted, max_model_len_),
        "min_tokens");
  }
  return static_cast<int32_t>(wanted);
}

}  // namespace ropeway
