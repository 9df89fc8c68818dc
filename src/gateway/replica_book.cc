#include "gateway/replica_book.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "ropeway/status.h"

namespace ropeway::gateway {
namespace {

// Why the replica gets no requests for more than a moment; "": it does.
std::string WhyNot(const ReplicaView& view) {
  using State = ReplicaView::State;
  const bool out = view.state == State::kNotReady || view.state == State::kEjected ||
                   view.state == State::kDraining;
  if (!out) return {};
  return base::PrintableText(view.reason.empty() ? ReplicaStateName(view.state) : view.reason);
}

}  // namespace

void ReplicaBook::OnDecision(const Decision& decision) {
  switch (decision.kind) {
    case Decision::Kind::kSend:
      if (decision.attempt > 1) ++(decision.resume ? resumptions_ : retries_);
      return;
    case Decision::Kind::kDrop:
      if (!decision.drained) ++timeouts_;
      return;
    case Decision::Kind::kEnd:
      if (decision.status.code() != StatusCode::kDeadlineExceeded) ++timeouts_;
      return;
    case Decision::Kind::kProbe:
      return;
  }
}

std::string ReplicaBook::OnProbe(const ReplicaView& view) {
  probed_ = true;
  std::string why_not = WhyNot(view);
  why_not_.swap(why_not);
  if (why_not.empty() == why_not_.empty()) return {};
  return in_service() ? "is available again" : "is not available: " + why_not_;
}

BackendStatus ReplicaBook::Status(const ReplicaView& view) const {
  BackendStatus status;
  status.name = name_;
  status.state = ReplicaStateName(view.state);
  status.reason = view.reason;
  status.in_flight = view.in_flight;
  status.concurrency = view.places;
  status.learned = view.learned;
  status.outstanding_tokens = view.outstanding_tokens;
  status.sent = view.sent;
  status.completed = view.completed;
  status.ejections = view.ejections;
  const auto failures = [this](FailureKind kind) { return failures_[static_cast<size_t>(kind)]; };
  status.unreachable = failures(FailureKind::kUnreachable);
  status.busy = failures(FailureKind::kBusy);
  status.broken = failures(FailureKind::kBroken);
  status.rejected = failures(FailureKind::kRejected);
  status.timeouts = timeouts_;
  status.retries = retries_;
  status.resumptions = resumptions_;
  status.latency_p50_ms = 1e3 * base::ToSeconds(view.latency_p50);
  status.latency_p99_ms = 1e3 * base::ToSeconds(view.latency_p99);
  return status;
}

}  // namespace ropeway::gateway
