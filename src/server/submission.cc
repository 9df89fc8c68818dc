#include "server/submission.h"

#include <algorithm>
#include <iterator>

#include "base/random.h"

namespace ropeway::server {
namespace {

// The approximate size of a delta in memory.
size_t MemoryOf(const Delta& delta) {
  size_t bytes = sizeof(Delta) + delta.text.size();
  for (const OutputToken& token : delta.tokens) {
    bytes +=
        sizeof(OutputToken) + token.bytes.size() + token.top_logprobs.size() * sizeof(TokenLogprob);
    for (const std::string& top : token.top_bytes) bytes += sizeof(top) + top.size();
  }
  return bytes;
}

void AppendTokens(std::vector<OutputToken> tokens, std::vector<OutputToken>* to) {
  if (to->empty()) {
    *to = std::move(tokens);
  } else {
    to->insert(to->end(), std::make_move_iterator(tokens.begin()),
               std::make_move_iterator(tokens.end()));
  }
}

}  // namespace

ServerSink::Output ServerSink::Take() {
  std::lock_guard lock(mutex_);
  Output taken = std::move(pending_);
  pending_ = Output{};
  pending_.admitted = taken.admitted;
  signalled_ = false;
  OnTaken();
  return taken;
}

ServerSink::Progress ServerSink::Look() {
  std::lock_guard lock(mutex_);
  signalled_ = false;
  const std::optional<Output::End>& end = pending_.end;
  return {pending_.admitted, end.has_value(), end.has_value() && !end->status.ok()};
}

void ServerSink::Close() {
  WakeFn dropped;  // Destroyed after the lock is released: it may own objects that lock in turn.
  std::lock_guard lock(mutex_);
  dropped.swap(wake_);
}

void ServerSink::Wake(bool overflow) {
  if (!wake_ || (signalled_ && !overflow)) return;
  signalled_ = true;
  wake_(overflow);
}

std::optional<int32_t> ServerSink::queue_position() {
  std::lock_guard lock(mutex_);
  return queue_position_;
}

// The key's account is updated before the client can see the event: its next request may come at
// once.

void ServerSink::OnAdmitted(RequestId, const engine::Admission& admission) {
  ticket_.Admitted(admission.prompt_tokens);
  std::lock_guard lock(mutex_);
  queue_position_ = admission.queue_position;
  pending_.admitted = true;
  Wake(false);
}

bool ServerSink::OnDelta(RequestId, Delta delta) {
  generated_ += static_cast<int32_t>(delta.tokens.size());
  std::lock_guard lock(mutex_);
  if (!wake_) return false;
  if (!Keep(std::move(delta), &pending_.deltas)) {
    Wake(true);
    wake_ = nullptr;
    return false;
  }
  if (wakes_on_delta()) Wake(false);
  return true;
}

void ServerSink::OnFinish(RequestId, const Finish& finish) {
  const bool never_ran =
      finish.reason == FinishReason::kCancelled && finish.batch_num == 0 && generated_ == 0;
  if (never_ran) ticket_.RefundPrompt();
  ticket_.End(std::max(finish.usage.completion_tokens, generated_));
  std::lock_guard lock(mutex_);
  pending_.end = Output::End{Status(), finish};
  Wake(false);
}

void ServerSink::OnError(RequestId, const Status& status) {
  ticket_.End(generated_);
  std::lock_guard lock(mutex_);
  pending_.end = Output::End{status, Finish{}};
  Wake(false);
}

bool StreamSink::Keep(Delta delta, std::vector<Delta>* pending) {
  // The prompt's tokens arrive at once, however fast the reader is; max_model_len bounds them.
  if (!delta.prompt_tokens.empty()) {
    pending->push_back(std::move(delta));
    return true;
  }
  bytes_ += MemoryOf(delta);
  // One delta alone is always taken, however large: its reader may be fast.
  if (!pending->empty() && (bytes_ > max_bytes_ || pending->size() >= max_events_)) return false;
  pending->push_back(std::move(delta));
  return true;
}

bool CollectorSink::Keep(Delta delta, std::vector<Delta>* pending) {
  if (pending->empty()) pending->emplace_back();
  Delta& all = pending->back();
  all.text += delta.text;
  AppendTokens(std::move(delta.prompt_tokens), &all.prompt_tokens);
  if (keep_tokens_) AppendTokens(std::move(delta.tokens), &all.tokens);
  return true;
}

void Submission::Cancel() {
  for (Choice& choice : choices_) {
    choice.sink->Close();
    if (!choice.ended) backend_->Cancel(choice.id);
  }
  choices_.clear();
}

Status Submission::SubmitOne(Request request, KeyTicket ticket, const SinkMaker& make_sink) {
  std::shared_ptr<ServerSink> sink = make_sink();
  sink->SetTicket(std::move(ticket));
  StatusOr<RequestId> id = backend_->Submit(std::move(request), sink);
  if (!id.ok()) return id.status();
  choices_.push_back({*id, std::move(sink), false});
  return {};
}

Status Submission::Submit(ApiRequest* api, std::vector<KeyTicket> tickets,
                          const SinkMaker& make_sink) {
  // The backend draws the seed of a single choice.
  if (api->choices() > 1 && !api->request.sampling.seed) {
    api->request.sampling.seed = base::SystemRandom().Next64();
  }
  choices_.reserve(api->choices());  // Nothing may fail once the backend has a request.
  for (Prompt& prompt : api->prompts) {
    for (int32_t k = 0; k < api->n; ++k) {
      Request request = api->request;
      request.choice = static_cast<uint32_t>(k);
      if (api->prompt_logprobs_once && k > 0) request.prompt_logprobs.reset();
      if (k + 1 < api->n) {
        request.prompt = prompt;
      } else {
        request.prompt = std::move(prompt);
      }
      Status status = SubmitOne(std::move(request), std::move(tickets[choices_.size()]), make_sink);
      if (status.ok()) continue;
      Cancel();
      return status;
    }
  }
  return {};
}

ServerSink::Output Submission::Take(size_t choice) {
  ServerSink::Output output = choices_[choice].sink->Take();
  if (output.end) choices_[choice].ended = true;
  return output;
}

}  // namespace ropeway::server
