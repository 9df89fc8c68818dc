#include "engine/request_output.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/failure.h"
#include "engine/session_text.h"
#include "kernels/pooling.h"
#include "service/sinks.h"

namespace ropeway::engine {

RequestOutput::RequestOutput(LiveRequest* live, int32_t prompt_tokens,
                             const tokenizer::Tokenizer* tokenizer, const ModelAnswers* answers,
                             EngineMetrics* metrics, const base::Clock* clock)
    : live_(live),
      tokenizer_(tokenizer),
      answers_(answers),
      metrics_(metrics),
      clock_(clock),
      stops_(live_->request.stop) {
  finish_.usage.prompt_tokens = prompt_tokens;
  finish_.seed = live_->seed;
  finish_.max_tokens = live_->lowered_max_tokens;
  if (live_->turn != nullptr) finish_.session_tokens = live_->turn->session_tokens;
}

Status RequestOutput::Replay() {
  const std::vector<TokenId>& ids = live_->request.resume_ids;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    Delta given;  // By the other engine.
    const bool stopped = Append(ids[i], &given);
    const bool may_end = finish_.usage.completion_tokens > live_->request.sampling.min_tokens;
    if (!stopped && !(may_end && IsEnd(ids[i]))) continue;
    return InvalidArgument("resume_ids continues after an end token or a stop", "resume_ids");
  }
  return {};
}

bool RequestOutput::Admit(const Admission& admission) {
  if (!live_->Admit(admission)) verdict_ = Verdict::kReaderGone;
  return !closed();
}

bool RequestOutput::IsEnd(TokenId token) const {
  const Request& request = live_->request;
  const std::vector<TokenId>& stops = request.stop_token_ids;
  return (!request.ignore_eos && tokenizer_->IsEnd(token)) ||
         std::find(stops.begin(), stops.end(), token) != stops.end();
}

OutputToken RequestOutput::MakeToken(TokenId id, uint64_t text_offset) const {
  OutputToken token;
  token.id = id;
  token.bytes = tokenizer_->Bytes(id, true);
  token.text_offset = text_offset;
  return token;
}

void RequestOutput::AddLogprobs(float logprob, const std::vector<TokenLogprob>& top,
                                OutputToken* token) const {
  token->logprob = logprob;
  token->top_logprobs = top;
  for (const TokenLogprob& each : top) {
    token->top_bytes.emplace_back(tokenizer_->Bytes(each.id, true));
  }
}

void RequestOutput::Measure(base::TimePoint at) {
  if (live_->first_token == base::TimePoint{}) {
    live_->first_token = at;
    metrics_->requests.of(live_->priority()).FirstToken(at - live_->arrival);
    metrics_->prompt_tokens->Increment(finish_.usage.prompt_tokens);
  } else {
    metrics_->requests.of(live_->priority()).Token(at - live_->last_token);
  }
  metrics_->generation_tokens->Increment();
  live_->last_token = at;
}

RequestOutput::Verdict RequestOutput::AddToken(const CoreEvent& event, base::TimePoint at) {
  if (finish_.first_token_step == 0) finish_.first_token_step = event.step;
  finish_.usage.cached_tokens = event.cached_tokens;
  Measure(at);
  const core::Sampled& sampled = event.sampled;
  const std::vector<TokenId>& resumed = live_->request.resume_ids;
  const bool again = static_cast<size_t>(finish_.usage.completion_tokens) < resumed.size();
  if (again && sampled.token != resumed.back()) return verdict_ = Verdict::kDiffers;
  if (live_->turn != nullptr) live_->turn->next.ids.push_back(sampled.token);
  Delta delta;
  OutputToken& token = delta.tokens.emplace_back(MakeToken(sampled.token, text_bytes_));
  if (live_->request.logprobs) AddLogprobs(sampled.logprob, sampled.top_logprobs, &token);
  if (Append(sampled.token, &delta)) verdict_ = Verdict::kStopString;
  if (!again && !Send(std::move(delta))) verdict_ = Verdict::kReaderGone;
  return verdict_;
}

bool RequestOutput::Append(TokenId token, Delta* delta) {
  const int32_t generated = ++finish_.usage.completion_tokens;
  const answer::AnswerParser* const parser = live_->parser.get();
  const bool thought = parser != nullptr && parser->thinking();
  const bool looks = generated >= live_->request.sampling.min_tokens;
  const bool stopped = Read(TextOf(token), looks, delta);
  if (thought || (parser != nullptr && parser->thinking())) ++finish_.usage.reasoning_tokens;
  return stopped;
}

std::string RequestOutput::TextOf(TokenId token) {
  if (!Hidden(token)) {
    const std::string_view bytes = tokenizer_->Bytes(token);
    text_bytes_ += bytes.size();
    return detokenizer_.Append(bytes);
  }
  if (live_->parser == nullptr || IsEnd(token)) return {};
  const std::string_view mark = answers_->MarkOf(token);
  return mark.empty() ? std::string() : detokenizer_.Finish().append(mark);
}

bool RequestOutput::Read(std::string_view text, bool looks, Delta* delta) {
  answer::AnswerParser* const parser = live_->parser.get();
  looks = looks && !live_->request.stop.empty();
  if (parser == nullptr) {
    std::string said(text);
    const bool stopped = looks && LookForStop(&said);
    delta->text += said;
    return stopped;
  }
  if (!looks) {
    if (live_->turn != nullptr) shown_ += text;
    parser->Add(text, delta);
    return false;
  }
  // By characters: what follows a stop string, perhaps a call, is no part of the answer.
  bool stopped = false;
  std::string said = std::exchange(delta->text, {});
  for (size_t i = 0; i < text.size() && !stopped; ++i) {
    if (live_->turn != nullptr) shown_ += text[i];
    parser->Add(text.substr(i, 1), delta);
    stopped = LookForStop(&delta->text);
    said += std::exchange(delta->text, {});
  }
  delta->text = std::move(said);
  // A session keeps what was said.
  if (stopped && shown_.ends_with(unsaid_)) shown_.resize(shown_.size() - unsaid_.size());
  return stopped;
}

bool RequestOutput::LookForStop(std::string* said) {
  if (said->empty()) return false;
  unsaid_ += *said;
  tokenizer::StopMatcher::Step step = stops_.Append(*said);
  unsaid_.erase(0, step.text.size());
  *said = std::move(step.text);
  if (step.stop) finish_.stop = static_cast<int32_t>(*step.stop);
  return step.stop.has_value();
}

RequestOutput::Verdict RequestOutput::Add(const CoreEvent& event, base::TimePoint at) {
  switch (event.kind) {
    case CoreEvent::Kind::kPromptScored:
      return AddScored(event);
    case CoreEvent::Kind::kPooled:
      return AddPooled(event);
    default:
      return AddToken(event, at);
  }
}

RequestOutput::Verdict RequestOutput::AddPooled(const CoreEvent& event) {
  Delta delta;
  delta.embedding = event.pool_sum;
  kernels::FinishPooling(event.pooled_positions, live_->request.embedding->normalize,
                         delta.embedding);
  if (!Send(std::move(delta))) verdict_ = Verdict::kReaderGone;
  return verdict_;
}

RequestOutput::Verdict RequestOutput::AddScored(const CoreEvent& event) {
  Delta delta;
  delta.prompt_tokens.reserve(event.scored.size());
  for (const core::Scored& scored : event.scored) {
    OutputToken& token = delta.prompt_tokens.emplace_back(MakeToken(scored.token, prompt_bytes_));
    AddLogprobs(scored.logprob, scored.top_logprobs, &token);
    prompt_bytes_ += token.bytes.size();
  }
  if (!Send(std::move(delta))) verdict_ = Verdict::kReaderGone;
  return verdict_;
}

bool RequestOutput::Send(Delta delta) {
  delta.batch_num = live_->batch.number;
  return live_->Give(std::move(delta));
}

FinishReason RequestOutput::SendRest(FinishReason reason) {
  Delta rest;
  if (verdict_ == Verdict::kGoOn) {
    bool stopped = Read(detokenizer_.Finish(), /*looks=*/true, &rest);
    if (!stopped && live_->parser != nullptr) {
      std::string said = std::exchange(rest.text, {});
      live_->parser->Finish(&rest);
      stopped = LookForStop(&rest.text);
      rest.text.insert(0, said);
    }
    if (stopped) {
      reason = FinishReason::kStop;
    } else {
      rest.text += stops_.Finish();
    }
  }
  if (!rest.says()) return reason;
  return Send(std::move(rest)) ? reason : FinishReason::kCancelled;
}

bool RequestOutput::Finish(FinishReason reason, base::TimePoint at) {
  const char* doing = "converting tokens to text";
  try {
    reason = verdict_ == Verdict::kReaderGone ? FinishReason::kCancelled : SendRest(reason);
    // A prompt that was all there was to compute is done with the end, not with a first token.
    const bool none = finish_.usage.completion_tokens == 0;
    if (reason == FinishReason::kLength && none) live_->first_token = live_->last_token = at;
    finish_.reason = reason;
    finish_.batch_num = live_->batch.number;
    finish_.batch_size = live_->batch.size;
    finish_.times = live_->Times();
    const bool whole = reason == FinishReason::kStop || reason == FinishReason::kLength;
    if (live_->turn != nullptr && whole) {
      doing = "saving the session's turn";
      KeepTurn();
      return false;
    }
  } catch (const std::exception&) {
    Fail(CurrentFailure(doing), at);
    return true;
  }
  End(at);
  return true;
}

void RequestOutput::KeepTurn() {
  service::Turn& turn = *live_->turn;
  KeepAnswer(
      *tokenizer_, [this](TokenId id) { return Hidden(id); },
      static_cast<size_t>(finish_.usage.prompt_tokens),
      live_->parser == nullptr ? turn.answer.content : answers_->WithoutMarks(shown_), &turn.next);
  if (turn.next.kind == store::SessionState::Kind::kChat && finish_.usage.completion_tokens > 0) {
    service::KeepAnswer(std::move(turn.answer), turn.continues, &turn.next.messages);
  }
  turn.end = finish_;
}

void RequestOutput::End(base::TimePoint at) {
  CountEnd(finish_.reason, at);
  if (live_->first_token != base::TimePoint{}) {
    finish_.times.output = clock_->Now() - live_->last_token;
    metrics_->requests.of(live_->priority()).Ended(finish_.times);
  }
  live_->Tell({base::StatusOfEnd(finish_.reason), finish_});
}

void RequestOutput::Fail(const Status& status, base::TimePoint at) {
  CountEnd(FinishReason::kFailed, at);
  live_->Fail(status);
}

void RequestOutput::CountEnd(FinishReason reason, base::TimePoint at) {
  if (reason == FinishReason::kLength && finish_.usage.completion_tokens == 0) {
    metrics_->prompt_tokens->Increment(finish_.usage.prompt_tokens);
  }
  metrics_->requests.Ended(live_->priority(), reason, at - live_->arrival);
}

}  // namespace ropeway::engine
