#include "gateway/client_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "base/chat_size.h"
#include "base/failure.h"
#include "gateway/prefix_ring.h"
#include "service/sinks.h"

namespace ropeway::gateway {
namespace {

// What a chat template puts around a message, about.
// More than the contexts of backends hold. What these reject, however long it is, is to take no
// more of what its tenant may have waiting, nor of a replica's measured work.
constexpr size_t kMostEstimatedTokens = size_t{1} << 18;

// The tokens that it may generate; nothing: it does not say.
std::optional<int32_t> MostOutput(const Request& request) {
  if (!request.max_tokens) return std::nullopt;
  const int64_t before = static_cast<int64_t>(request.resume_ids.size());
  return static_cast<int32_t>(std::max(int64_t{0}, *request.max_tokens - before));
}

}  // namespace

int32_t EstimatedPromptTokens(const Request& request) {
  const size_t tokens = base::EstimatedTokens(request.prompt);
  return static_cast<int32_t>(std::clamp<size_t>(tokens, 1, kMostEstimatedTokens));
}

ClientRequest::ClientRequest(SinkRequest asked)
    : ActiveRequest(std::move(asked)), length_(MostOutput(request)) {}

bool ClientRequest::TellAdmitted() {
  if (admitted() || ended()) return false;
  Admit({.prompt_tokens = prompt_estimate, .estimated = true, .queue_position = queue_position});
  return true;
}

Request ClientRequest::Begin(bool resumes, const core::StartedBatch& its_batch,
                             base::TimePoint now) {
  if (started == base::TimePoint{}) {
    started = now;
    batch = its_batch;
  }
  if (deadline != base::TimePoint::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
    request.timeout = std::max(left, std::chrono::milliseconds(1));
  }
  skip_prompt_ = prompt_tokens_;
  skip_said_ = rest_length_;
  if (ids_.empty()) return request;
  if (!resumes) {
    // What it gives is counted anew.
    replay_.emplace(given_, request.logprobs.has_value());
    length_ = AnswerLength(MostOutput(request));
    ids_.clear();
    rest_length_ = skip_said_ = 0;
    return request;
  }
  // They came before the ids, and were given already.
  request.prompt_logprobs.reset();
  skip_prompt_ = 0;
  Request rest = request;
  rest.resume_ids.insert(rest.resume_ids.end(), ids_.begin(), ids_.end());
  return rest;
}

AttemptOutput ClientRequest::Measure(const Delta& delta, bool reports_ids) const {
  AttemptOutput output;
  if (replays()) return output;
  output.tokens = static_cast<int32_t>(delta.tokens.size());
  if (delta.tokens.empty()) {
    output.tokens = EstimatedTokens(CountCharacters(delta));
    // With ids, only what was held back to the end comes without a token.
    output.ids_known = reports_ids && (!delta.says() || !ids_.empty());
    return output;
  }
  const bool all = std::all_of(delta.tokens.begin(), delta.tokens.end(),
                               [](const OutputToken& token) { return token.id >= 0; });
  output.ids_known = reports_ids && all && rest_length_ == 0;
  return output;
}

ClientRequest::Given ClientRequest::PassOn(Delta delta, base::TimePoint now, OutputTimes* times) {
  const size_t prompt = std::min(skip_prompt_, delta.prompt_tokens.size());
  delta.prompt_tokens.erase(delta.prompt_tokens.begin(),
                            delta.prompt_tokens.begin() + static_cast<std::ptrdiff_t>(prompt));
  skip_prompt_ -= prompt;
  const uint64_t said = std::min(skip_said_, SaidLength(delta));
  SkipSaid(said, &delta);
  skip_said_ -= said;
  const Given whole = length_.Take(&delta) ? Given::kMore : Given::kComplete;
  for (const OutputToken& token : delta.tokens) {
    if (token.id >= 0) ids_.push_back(token.id);
  }
  if (delta.tokens.empty()) rest_length_ += SaidLength(delta);
  if (replay_ && !replay_->Skip(&delta)) return Given::kDiffers;
  if (!TakeCalls(delta.tool_calls)) return Given::kDiffers;
  const bool generated = delta.says() || !delta.tokens.empty();
  if (!generated && delta.prompt_tokens.empty() && delta.embedding.empty())
    return gone() ? Given::kGone : whole;

  prompt_tokens_ += delta.prompt_tokens.size();
  if (!ids_.empty()) given_.Add(delta);
  times->generated = generated;
  if (generated) {
    times->first_token = first_token == base::TimePoint{};
    times->since = now - (times->first_token ? arrival : last_token);
    if (times->first_token) first_token = now;
    last_token = now;
  }
  delta.batch_num = batch.number;
  return Give(std::move(delta)) ? whole : Given::kGone;
}

bool ClientRequest::TakeCalls(const std::vector<ToolCallDelta>& calls) {
  // The beginning of the answer came from elsewhere, and the sink may have calls of it.
  if (!request.resume_ids.empty()) return true;
  for (const ToolCallDelta& call : calls) {
    const bool begins = !call.name.empty();
    if (call.index < 0 || call.index > calls_ || begins != (call.index == calls_)) return false;
    if (begins) ++calls_;
  }
  return true;
}

// What a chat template puts around a message counts as so many.
uint64_t ClientRequest::PromptCharacters() const {
  constexpr uint64_t kAroundMessage = 16;
  uint64_t characters = 0;
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    characters = CountCharacters(*text);
  } else if (const auto* chat = std::get_if<Chat>(&request.prompt)) {
    characters = base::OtherTextBytes(*chat);
    for (const ChatMessage& message : chat->messages) {
      characters += CountCharacters(message.content) + CountCharacters(message.reasoning_content) +
                    kAroundMessage;
      for (const ToolCall& call : message.tool_calls) characters += base::TextBytes(call);
    }
  }
  return characters;
}

Finish ClientRequest::Believe(const Finish& said) {
  Finish end = said;
  end.usage = Believed(said.usage, request, length_, &misreported_);
  return end;
}

Usage ClientRequest::UsageOf(const Usage& said) const {
  Usage usage = said;
  usage.estimated = misreported_ || said.prompt_tokens == Usage::kUnknown ||
                    said.completion_tokens == Usage::kUnknown;
  if (said.prompt_tokens == Usage::kUnknown) {
    const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt);
    usage.prompt_tokens =
        ids != nullptr ? static_cast<int32_t>(ids->size()) : EstimatedTokens(PromptCharacters());
  }
  if (said.completion_tokens == Usage::kUnknown) usage.completion_tokens = length_.tokens();
  usage.cached_tokens = std::clamp(said.cached_tokens, 0, usage.prompt_tokens);
  usage.reasoning_tokens = std::clamp(said.reasoning_tokens, 0, usage.completion_tokens);
  return usage;
}

Finish ClientRequest::FinishOf(const Finish& end, base::TimePoint now) const {
  Finish finish;
  finish.reason = gone() ? FinishReason::kCancelled : end.reason;
  finish.usage = UsageOf(end.usage);
  finish.seed = end.seed != 0 ? end.seed : seed;
  // It cannot be more than was asked for.
  if (end.max_tokens < request.max_tokens.value_or(0)) finish.max_tokens = end.max_tokens;
  finish.cut_by = end.cut_by;
  finish.stop = end.stop;
  finish.batch_num = batch.number;
  finish.batch_size = batch.size;
  finish.times = Times();
  if (first_token != base::TimePoint{}) finish.times.output = now - last_token;
  if (turn != nullptr) finish.session_tokens = turn->session_tokens;
  return finish;
}

Status ClientRequest::GoOn(store::SessionState before) {
  using Kind = store::SessionState::Kind;
  const std::string& id = turn->turn.session_id();
  if (!before.vocabulary.empty() || !before.ids.empty()) {
    return InvalidArgument(
        fmt::format(
            "the session '{}' was started by an engine, and a gateway cannot read its token ids",
            id),
        "session_id");
  }
  auto* const chat = std::get_if<Chat>(&request.prompt);
  const Kind kind = chat != nullptr ? Kind::kChat : Kind::kText;
  if (Status status = store::CheckKind(id, before, kind); !status.ok()) return status;
  turn->session_tokens =
      static_cast<int32_t>(std::clamp<int64_t>(before.num_tokens(), 0, INT32_MAX));
  if (chat != nullptr) {
    before.messages.insert(before.messages.end(), std::make_move_iterator(chat->messages.begin()),
                           std::make_move_iterator(chat->messages.end()));
    chat->messages = std::move(before.messages);
  } else {
    request.prompt = std::move(before.tail) + std::get<std::string>(request.prompt);
  }
  prompt_estimate = EstimatedPromptTokens(request);
  return {};
}

store::SessionState ClientRequest::NextState(const Finish& end) const {
  store::SessionState next;
  if (const auto* chat = std::get_if<Chat>(&request.prompt)) {
    next.kind = store::SessionState::Kind::kChat;
    next.messages = chat->messages;
    // An empty answer is kept too, though a backend may report nothing for it: the message of the
    // next turn comes after an answer.
    if (chat->continue_final_message || request.max_tokens != 0) {
      service::KeepAnswer(turn->answer, chat->continue_final_message, &next.messages);
    }
  } else {
    next.kind = store::SessionState::Kind::kText;
    next.tail = std::get<std::string>(request.prompt) + turn->answer.content;
  }
  const Usage usage = UsageOf(end.usage);
  next.tokens = int64_t{usage.prompt_tokens} + usage.completion_tokens;
  return next;
}

void ClientRequest::TellCancelled(base::TimePoint now) {
  if (!admitted()) return Fail(base::RequestCancelled());
  Finish end = Outcome::Unsaid();
  end.reason = FinishReason::kCancelled;
  Tell({base::RequestCancelled(), FinishOf(end, now)});
}

}  // namespace ropeway::gateway
