#include "engine/request_output.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

namespace ropeway {
namespace {

// Calls the sink; false where it threw. What it throws is its own bug and must not reach the
// others.
template <typename Fn>
bool CallSink(RequestId id, Fn&& fn) {
  try {
    fn();
    return true;
  } catch (const std::exception& e) {
    spdlog::warn("request {}: its sink failed: {}", id, e.what());
  } catch (...) {
    spdlog::warn("request {}: its sink failed", id);
  }
  return false;
}

}  // namespace

RequestOutput::RequestOutput(std::shared_ptr<LiveRequest> live, int32_t prompt_tokens,
                             const Tokenizer* tokenizer, EngineMetrics* metrics)
    : live_(std::move(live)),
      tokenizer_(tokenizer),
      metrics_(metrics),
      stops_(live_->request.stop),
      prompt_tokens_(prompt_tokens) {}

bool RequestOutput::Admit() {
  const RequestId id = live_->id;
  if (!CallSink(id, [&] { live_->sink->OnAdmitted(id, prompt_tokens_); })) {
    verdict_ = Verdict::kReaderGone;
  }
  return !closed();
}

bool RequestOutput::Hidden(TokenId token) const {
  return tokenizer_->IsSpecial(token) || (!live_->request.ignore_eos && tokenizer_->IsEnd(token));
}

OutputToken RequestOutput::MakeToken(const Sampled& sampled) const {
  OutputToken token;
  token.id = sampled.token;
  token.bytes = tokenizer_->Bytes(sampled.token, true);
  token.text_offset = text_bytes_;
  if (live_->request.logprobs) {
    token.logprob = sampled.logprob;
    token.top_logprobs = sampled.top_logprobs;
    for (const TokenLogprob& top : token.top_logprobs) {
      token.top_bytes.emplace_back(tokenizer_->Bytes(top.id, true));
    }
  }
  return token;
}

void RequestOutput::Measure(TimePoint at) {
  if (completion_tokens_ == 1) {
    metrics_->time_to_first_token->Observe(ToSeconds(at - live_->arrival));
    metrics_->prompt_tokens->Increment(prompt_tokens_);
  } else {
    metrics_->inter_token_latency->Observe(ToSeconds(at - last_token_));
  }
  metrics_->generation_tokens->Increment();
  last_token_ = at;
}

RequestOutput::Verdict RequestOutput::AddToken(const CoreEvent& event, TimePoint at) {
  if (completion_tokens_++ == 0) first_token_step_ = event.step;
  Measure(at);
  Delta delta;
  delta.tokens.push_back(MakeToken(event.sampled));
  if (!Hidden(event.sampled.token)) {
    const std::string_view bytes = tokenizer_->Bytes(event.sampled.token);
    text_bytes_ += bytes.size();
    StopMatcher::Step step = stops_.Append(detokenizer_.Append(bytes));
    delta.text = std::move(step.text);
    if (step.stop) verdict_ = Verdict::kStopString;
  }
  if (!Send(std::move(delta))) verdict_ = Verdict::kReaderGone;
  return verdict_;
}

bool RequestOutput::Send(Delta delta) {
  bool more = false;
  const RequestId id = live_->id;
  return CallSink(id, [&] { more = live_->sink->OnDelta(id, std::move(delta)); }) && more;
}

void RequestOutput::Finish(FinishReason reason, TimePoint at) {
  if (verdict_ == Verdict::kReaderGone) reason = FinishReason::kCancelled;
  if (verdict_ == Verdict::kGoOn) {
    StopMatcher::Step step = stops_.Append(detokenizer_.Finish());
    if (step.stop) {
      reason = FinishReason::kStop;
    } else {
      step.text += stops_.Finish();
    }
    if (!step.text.empty()) {
      Delta rest;
      rest.text = std::move(step.text);
      if (!Send(std::move(rest))) reason = FinishReason::kCancelled;
    }
  }
  ropeway::Finish finish;
  finish.reason = reason;
  finish.usage.prompt_tokens = prompt_tokens_;
  finish.usage.completion_tokens = completion_tokens_;
  finish.seed = live_->seed;
  finish.preemptions = preemptions_;
  finish.first_token_step = first_token_step_;
  CountEnd(reason, at);
  CallSink(live_->id, [&] { live_->sink->OnFinish(live_->id, finish); });
  CallSink(live_->id, [&] { live_->sink.reset(); });
}

void RequestOutput::Fail(const Status& status, TimePoint at) {
  CountEnd(FinishReason::kFailed, at);
  RefuseSink(live_.get(), status);
}

void RequestOutput::CountEnd(FinishReason reason, TimePoint at) {
  metrics_->finished(reason)->Increment();
  metrics_->e2e_latency->Observe(ToSeconds(at - live_->arrival));
}

void RefuseSink(LiveRequest* live, const Status& status) {
  CallSink(live->id, [&] { live->sink->OnError(live->id, status); });
  CallSink(live->id, [&] { live->sink.reset(); });
}

}  // namespace ropeway
