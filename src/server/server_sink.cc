#include "server/server_sink.h"

#include <algorithm>

namespace ropeway {

ServerSink::Output ServerSink::Take() {
  std::lock_guard lock(mutex_);
  Output taken = std::move(pending_);
  pending_ = Output{};
  pending_.admitted = taken.admitted;
  signalled_ = false;
  Taken();
  return taken;
}

ServerSink::Progress ServerSink::Look() {
  std::lock_guard lock(mutex_);
  signalled_ = false;
  const std::optional<Output::End>& end = pending_.end;
  return {pending_.admitted, end.has_value(), end.has_value() && !end->status.ok()};
}

void ServerSink::Close() {
  WakeFn dropped;  // Destroyed after the lock is released: it may own what locks in turn.
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

// The key's account is in order before the client can know: its next request may come at once.

void ServerSink::OnAdmitted(RequestId, const Admission& admission) {
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
  if (never_ran) ticket_.GiveBackPrompt();
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

}  // namespace ropeway
