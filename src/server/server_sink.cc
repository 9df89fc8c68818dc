#include "server/server_sink.h"

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

void ServerSink::OnAdmitted(RequestId, const Admission&) {
  std::lock_guard lock(mutex_);
  pending_.admitted = true;
  Wake(false);
}

bool ServerSink::OnDelta(RequestId, Delta delta) {
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
  std::lock_guard lock(mutex_);
  pending_.end = Output::End{Status(), finish};
  Wake(false);
}

void ServerSink::OnError(RequestId, const Status& status) {
  std::lock_guard lock(mutex_);
  pending_.end = Output::End{status, Finish{}};
  Wake(false);
}

}  // namespace ropeway
