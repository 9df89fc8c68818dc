#include "engine/prompt_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/chat_size.h"
#include "base/random.h"
#include "base/words.h"
#include "core/request_check.h"
#include "engine/failure.h"
#include "engine/session_text.h"

namespace ropeway::engine {
namespace {

// The tokens of a text are counted up to an eighth beyond max_model_len, so that a client whose
// text is a little too long is told its exact length.
constexpr size_t kCountedBeyond = 8;

// What an error about a request's length is about.
std::string WhatIsLong(const Request& request) {
  return request.session_id.empty()
             ? "the prompt"
             : fmt::format("the session '{}' with this turn", request.session_id);
}
std::string WhatIsLong(const Request& request, size_t tokens) {
  return fmt::format("{} ({})", WhatIsLong(request), base::Counted(tokens, "token"));
}

// The part of a request that is too long with what is to follow it, by the name that its sender
// gave it.
const char* PromptField(const Request& request) {
  return std::holds_alternative<Chat>(request.prompt) ? "messages" : "prompt";
}

// Encodes a text; or a chat, which becomes a text when it is rendered.
class TextTokenization final : public service::Tokenization {
 public:
  TextTokenization(const tokenizer::Tokenizer* tokenizer, std::string text, bool add_special)
      : tokenizer_(tokenizer), add_special_(add_special), text_{std::move(text), {}} {
    BeginText();
  }
  TextTokenization(const tokenizer::Tokenizer* tokenizer, const ChatRenderer* render, Chat chat,
                   bool add_special)
      : tokenizer_(tokenizer),
        add_special_(add_special),
        chat_(std::move(chat)),
        chat_bytes_(base::MemoryBytes(chat_)) {
    rendering_ = std::make_unique<ChatRendering>([this, render](const StoppedFn& stopped) {
      auto text = (*render)(chat_, stopped);
      if (!text.ok()) return text.status();
      text_ = *std::move(text);
      return Status();
    });
  }

  StatusOr<bool> Step() override {
    try {
      if (encoding_ != nullptr) return encoding_->Run(kEncodingPiece);
      if (!rendering_->Run()) return false;
      if (!rendering_->status().ok()) return rendering_->status();
      rendering_.reset();
      chat_ = {};
      BeginText();
      return false;
    } catch (const std::exception&) {
      return CurrentFailure(encoding_ != nullptr ? "encoding the text" : "rendering the chat");
    }
  }
  const std::string* text() const override { return encoding_ != nullptr ? &text_.text : nullptr; }
  size_t bytes() const override {
    if (encoding_ != nullptr) return text_.text.size() + encoding_->bytes();
    return chat_bytes_ + rendering_->bytes();
  }
  std::vector<TokenId> Take() override { return encoding_->TakeIds(); }

 private:
  void BeginText() {
    encoding_ = tokenizer_->Begin(text_.text, {.add_special = add_special_,
                                               .parse_special = true,
                                               .quoted = text_.quoted,
                                               .without_row = true});
  }

  const tokenizer::Tokenizer* const tokenizer_;
  const bool add_special_;
  Chat chat_;
  size_t chat_bytes_ = 0;
  tokenizer::RenderedChat text_;
  std::unique_ptr<tokenizer::Encoding> encoding_;  // Once there is a text.
  std::unique_ptr<ChatRendering> rendering_;       // Until then. It uses the others.
};

std::optional<TokenId> LastOf(const std::vector<TokenId>& ids) {
  return ids.empty() ? std::nullopt : std::optional<TokenId>(ids.back());
}

void Append(const std::vector<TokenId>& more, std::vector<TokenId>* ids) {
  ids->insert(ids->end(), more.begin(), more.end());
}

}  // namespace

Status NoChatTemplate() {
  return InvalidArgument(
      "this model has no chat template; use a completion with a text prompt (ropeway run --raw)",
      "messages");
}

PromptEncoder::PromptEncoder(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                             ChatRenderer render_chat, int32_t max_model_len,
                             core::CacheRoot cache_root, store::SessionStore* sessions,
                             const TurnMetrics* metrics, const ModelAnswers* answers,
                             Pooling pooling)
    : tokenizer_(std::move(tokenizer)),
      render_chat_(std::move(render_chat)),
      max_model_len_(max_model_len),
      cache_root_(std::move(cache_root)),
      sessions_(sessions),
      metrics_(metrics),
      answers_(answers),
      pooling_(pooling),
      vocabulary_(VocabularyDigest(*tokenizer_)) {
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (tokenizer_->IsEnd(id)) end_ids_.push_back(id);
  }
}

std::unique_ptr<service::Tokenization> PromptEncoder::BeginText(std::string text,
                                                                bool add_special) const {
  return std::make_unique<TextTokenization>(tokenizer_.get(), std::move(text), add_special);
}

StatusOr<std::unique_ptr<service::Tokenization>> PromptEncoder::BeginChat(Chat chat,
                                                                          bool add_special) const {
  if (!render_chat_) return NoChatTemplate();
  return std::unique_ptr<service::Tokenization>(std::make_unique<TextTokenization>(
      tokenizer_.get(), &render_chat_, std::move(chat), add_special));
}

std::optional<StatusOr<core::CoreRequest>> PromptEncoder::Job::Run(size_t work) {
  if (!prepared_) {
    const std::optional<Status> prepared = Prepare();
    if (!prepared) return std::nullopt;
    if (!prepared->ok()) return *prepared;
    prepared_ = true;
    if (parts_.text) {
      encoding_ =
          encoder_->tokenizer_->Begin(*parts_.text,
                                      {.add_special = parts_.add_special,
                                       .parse_special = true,
                                       .quoted = parts_.quoted,
                                       .after = LastOf(parts_.before)},
                                      encoder_->Cuts(live_->request) ? tokenizer::Encoding::kNoLimit
                                                                     : encoder_->MostIds(parts_));
    }
  }
  if (encoding_ != nullptr) {
    if (!encoding_->Run(work)) return std::nullopt;
    if (encoding_->least() > encoder_->MostIds(parts_) && !encoder_->Cuts(live_->request)) {
      return encoder_->TooLong(live_->request, parts_, encoding_->least());
    }
  }
  std::vector<TokenId> ids = std::move(parts_.before);
  if (encoding_ != nullptr && ids.empty()) {
    ids = encoding_->TakeIds();
  } else if (encoding_ != nullptr) {
    Append(encoding_->ids(), &ids);
  }
  Append(parts_.after, &ids);
  return encoder_->Finish(live_, parts_, std::move(ids));
}

std::optional<Status> PromptEncoder::Job::Prepare() {
  if (rendering_ == nullptr) {
    if (!std::holds_alternative<Chat>(live_->request.prompt)) {
      return encoder_->Prepare(live_, nullptr, &parts_);
    }
    rendering_ = std::make_unique<ChatRendering>(
        [this](const StoppedFn& stopped) { return encoder_->Prepare(live_, stopped, &parts_); });
  }
  if (!rendering_->Run()) return std::nullopt;
  Status status = rendering_->status();
  rendering_.reset();
  return status;
}

size_t PromptEncoder::Job::bytes() const {
  if (rendering_ != nullptr) return rendering_->bytes();
  return encoding_ == nullptr ? 0 : encoding_->bytes();
}

size_t PromptEncoder::MostIds(const Parts& parts) const {
  const auto limit = static_cast<size_t>(max_model_len_);
  const size_t most = limit + limit / kCountedBeyond;
  return most - std::min(most, parts.before.size() + parts.after.size());
}

Status PromptEncoder::TooLong(const Request& request, const Parts& parts, size_t least) const {
  return core::ContextLengthExceeded(
      fmt::format("{} ({} bytes, at least {} tokens) exceeds the model's limit of {} tokens",
                  WhatIsLong(request), parts.text->size(),
                  parts.before.size() + least + parts.after.size(), max_model_len_),
      PromptField(request));
}

void PromptEncoder::BeginAnswer(LiveRequest* live, const Parts& parts,
                                const std::vector<TokenId>& ids) const {
  if (answers_ == nullptr || !parts.answer) return;
  answer::AnswerOptions options = *parts.answer;
  // Where the marks of thoughts are no tokens, a form begins at once.
  if (live->constraint != nullptr && answers_->thoughts() == nullptr) options.in_thought = false;
  if (!options.tools.empty()) {
    options.calls_alone = live->request.format.kind != OutputFormat::Kind::kText;
    const auto* const chat = std::get_if<Chat>(&live->request.prompt);
    options.only_calls = chat != nullptr && chat->tool_choice == ToolChoice::kRequired;
    options.digest = base::Mix64(live->seed, live->request.choice);
    for (const TokenId id : ids)
      options.digest = base::Mix64(options.digest, static_cast<uint64_t>(id));
  }
  live->parser = answers_->Begin(options);
}

std::shared_ptr<const core::Constraint> PromptEncoder::ConstraintOf(const LiveRequest& live,
                                                                    const Parts& parts) const {
  const ThoughtTokens* const thoughts =
      answers_ != nullptr && parts.answer ? answers_->thoughts() : nullptr;
  if (live.constraint == nullptr || thoughts == nullptr) return live.constraint;
  // There the grammar of calls has the thoughts, too.
  const bool harmony = answers_->format().calls.syntax == answer::CallSyntax::kHarmony;
  if (harmony && !parts.answer->tools.empty()) return live.constraint;
  return std::make_shared<ThoughtConstraint>(
      live.constraint, thoughts,
      parts.answer->in_thought || answer::HasChannels(answers_->format()));
}

StatusOr<core::CoreRequest> PromptEncoder::Finish(LiveRequest* live, const Parts& parts,
                                                  std::vector<TokenId> ids) const {
  const Request& request = live->request;
  if (Cuts(request) && ids.size() > static_cast<size_t>(max_model_len_)) {
    ids.resize(static_cast<size_t>(max_model_len_));
    // The text is cut, not what the tokenizer adds behind it.
    if (parts.add_special) ids.back() = tokenizer_->text_end().value_or(ids.back());
  }
  BeginAnswer(live, parts, ids);
  if (live->turn != nullptr) live->turn->next.ids = ids;
  const StatusOr<int32_t> max_tokens = ResolveMaxTokens(request, ids.size());
  if (!max_tokens.ok()) return max_tokens.status();
  if (*max_tokens < request.max_tokens.value_or(0)) live->lowered_max_tokens = *max_tokens;
  const std::vector<TokenId>& resumed = request.resume_ids;
  if (resumed.size() > static_cast<size_t>(*max_tokens)) {
    return InvalidArgument(
        fmt::format("resume_ids has {} tokens, but the prompt's {} leave only {} of the model's "
                    "limit of {}",
                    resumed.size(), ids.size(), *max_tokens, max_model_len_),
        "resume_ids");
  }
  core::CoreRequest core;
  core.id = live->id;
  core.order = live->id;
  core.prompt = std::move(ids);
  core.max_tokens = *max_tokens;
  core.spec.params = request.sampling;
  core.spec.seed = live->seed;
  core.spec.choice = request.choice;
  core.spec.num_logprobs = request.logprobs.value_or(-1);
  core.spec.num_prompt_logprobs = request.prompt_logprobs.value_or(-1);
  if (request.embedding) {
    core.spec.pooling = request.embedding->pooling;
    if (*core.spec.pooling == Pooling::kModel) core.spec.pooling = pooling_;
  }
  core.spec.end_ids = EndIds(request);
  core.constraint = ConstraintOf(*live, parts);
  core.ignore_eos = request.ignore_eos;
  core.stop_ids = request.stop_token_ids;
  core.arrival = live->arrival;
  core.deadline = live->deadline;
  core.tenant = request.tenant;
  core.tenant_weight = request.tenant_weight;
  core.priority = request.priority;
  core.cache_root = RootOf(request);
  // The last one is generated again, to see that it is the same here: see RequestOutput.
  if (!resumed.empty()) core.resume_ids.assign(resumed.begin(), resumed.end() - 1);
  if (core.rope_length() > cache_root_.long_rope_above) core.UseLongRope();
  // Here, where hashing a long prompt delays no step.
  if (resumed.empty()) {
    core.block_names = core::ChainNames(core.cache_root, core.prompt);
  } else {
    std::vector<TokenId> all = core.prompt;
    Append(core.resume_ids, &all);
    core.block_names = core::ChainNames(core.cache_root, all);
  }
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

Status PromptEncoder::Prepare(LiveRequest* live, const StoppedFn& stopped, Parts* parts) const {
  Request& request = live->request;
  if (Status status = CheckIds(request); !status.ok()) return status;
  return live->turn == nullptr ? PreparePrompt(&request, stopped, parts)
                               : PrepareTurn(&request, live->turn.get(), stopped, parts);
}

Status PromptEncoder::PreparePrompt(Request* request, const StoppedFn& stopped,
                                    Parts* parts) const {
  if (auto* ids = std::get_if<std::vector<TokenId>>(&request->prompt)) {
    parts->before = std::move(*ids);
    return CheckIds(parts->before, "the prompt", "prompt");
  }
  if (auto* text = std::get_if<std::string>(&request->prompt)) {
    parts->text = std::move(*text);
    parts->add_special = true;
    return {};
  }
  const auto chat = std::move(std::get<Chat>(request->prompt));
  return Render(chat, stopped, parts);
}

Status PromptEncoder::Render(const Chat& chat, const StoppedFn& stopped, Parts* parts) const {
  if (!render_chat_) return NoChatTemplate();
  StatusOr<tokenizer::RenderedChat> rendered = render_chat_(chat, stopped);
  if (!rendered.ok()) return rendered.status();
  parts->answer.emplace();
  parts->answer->in_thought = answers_ != nullptr && answers_->EndsInThought(*rendered);
  if (chat.tool_choice != ToolChoice::kNone) {
    const bool typed =
        answers_ != nullptr && answers_->format().calls.syntax == answer::CallSyntax::kXml;
    for (const Tool& tool : chat.tools) {
      parts->answer->tools.push_back(tool.name);
      if (typed) parts->answer->types.push_back(answer::ReadArgumentTypes(tool.parameters));
    }
  }
  // The template writes the beginning-of-text token itself.
  parts->add_special = false;
  parts->text = std::move(rendered->text);
  parts->quoted = std::move(rendered->quoted);
  return {};
}

Status PromptEncoder::PrepareTurn(Request* request, service::Turn* turn, const StoppedFn& stopped,
                                  Parts* parts) const {
  std::optional<store::SessionState> before;
  if (!sessions_->IsNew(turn->turn)) {
    StatusOr<store::SessionState> loaded = sessions_->Load(turn->turn);
    if (!loaded.ok()) return loaded.status();
    before = *std::move(loaded);
  }
  store::SessionState* const next = &turn->next;
  const auto* const its_chat = std::get_if<Chat>(&request->prompt);
  const bool chat = its_chat != nullptr;
  turn->continues = chat && its_chat->continue_final_message;
  next->kind = chat ? store::SessionState::Kind::kChat : store::SessionState::Kind::kText;
  next->vocabulary = vocabulary_;
  if (before) {
    if (Status status = CheckHistory(*request, *before, next->kind); !status.ok()) return status;
    turn->session_tokens = static_cast<int32_t>(before->ids.size());
  }
  const store::SessionState* const history = before ? &*before : nullptr;
  return chat ? PrepareChatTurn(request, history, stopped, next, parts)
              : PrepareTextTurn(request, history, parts);
}

Status PromptEncoder::CheckHistory(const Request& request, const store::SessionState& before,
                                   store::SessionState::Kind kind) const {
  if (before.vocabulary != vocabulary_) {
    return InvalidArgument(
        fmt::format("the session '{}' was started with a model that has a different vocabulary, so "
                    "its token ids mean a different text",
                    request.session_id),
        "session_id");
  }
  return store::CheckKind(request.session_id, before, kind);
}

Status PromptEncoder::PrepareChatTurn(Request* request, const store::SessionState* before,
                                      const StoppedFn& stopped, store::SessionState* next,
                                      Parts* parts) const {
  auto chat = std::move(std::get<Chat>(request->prompt));
  if (before != nullptr) {
    chat.messages.insert(chat.messages.begin(), before->messages.begin(), before->messages.end());
  }
  Status status = Render(chat, stopped, parts);
  next->messages = std::move(chat.messages);
  if (!status.ok()) return status;
  if (before == nullptr) {
    metrics_->begun->Increment();
    return {};
  }
  const std::optional<KeptHistory> kept = FindHistory(*tokenizer_, *before, *parts->text);
  (kept ? metrics_->continued : metrics_->reencoded)->Increment();
  if (!kept) return {};
  const auto first = before->ids.begin();
  parts->before.assign(first, first + static_cast<std::ptrdiff_t>(kept->ids));
  parts->quoted = SpansWithin(parts->quoted, kept->bytes, parts->text->size());
  parts->text->erase(0, kept->bytes);
  return {};
}

Status PromptEncoder::PrepareTextTurn(Request* request, const store::SessionState* before,
                                      Parts* parts) const {
  (before == nullptr ? metrics_->begun : metrics_->continued)->Increment();
  std::string text;
  if (before != nullptr) {
    parts->before = before->ids;
    text = before->tail;
  }
  const auto* const added = std::get_if<std::string>(&request->prompt);
  if (added != nullptr) text += *added;
  if (added != nullptr || !text.empty()) parts->text = std::move(text);
  // The beginning-of-text token comes before the first turn alone.
  parts->add_special = before == nullptr;
  if (added != nullptr) return {};
  parts->after = std::move(std::get<std::vector<TokenId>>(request->prompt));
  return CheckIds(parts->after, "the prompt", "prompt");
}

Status PromptEncoder::CheckIds(const std::vector<TokenId>& ids, const char* what,
                               const char* field) const {
  const TokenId limit = tokenizer_->vocab_size();
  for (const TokenId id : ids) {
    if (id >= 0 && id < limit) continue;
    return InvalidArgument(
        fmt::format("token id {} in {} is not in the model's vocabulary of {}", id, what, limit),
        field);
  }
  return {};
}

Status PromptEncoder::CheckIds(const Request& request) const {
  std::vector<TokenId> biased;
  for (const LogitBias& bias : request.sampling.logit_bias) biased.push_back(bias.id);
  Status status = CheckIds(request.stop_token_ids, "stop_token_ids", "stop_token_ids");
  if (status.ok()) status = CheckIds(biased, "logit_bias", "logit_bias");
  if (status.ok()) status = CheckIds(request.resume_ids, "resume_ids", "resume_ids");
  return status;
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
  const int64_t wanted = request.embedding ? 0 : request.max_tokens.value_or(INT32_MAX);
  if (left < std::min<int64_t>(wanted, 1)) {
    return core::ContextLengthExceeded(
        fmt::format("{}{} exceeds the model's limit of {} tokens",
                    WhatIsLong(request, prompt_tokens),
                    wanted > 0 ? " plus at least one token to generate" : "", max_model_len_),
        PromptField(request));
  }
  if (request.sampling.min_tokens > left) {
    return InvalidArgument(
        fmt::format(
            "min_tokens is {}, but the prompt's {} tokens leave only {} of the model's limit of {}",
            request.sampling.min_tokens, prompt_tokens, left, max_model_len_),
        "min_tokens");
  }
  return static_cast<int32_t>(std::min(wanted, left));
}

}  // namespace ropeway::engine
