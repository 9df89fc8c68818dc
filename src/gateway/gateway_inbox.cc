#include "gateway/gateway_inbox.h"

#include <utility>

#include "base/failure.h"

namespace ropeway::gateway {

bool GatewayInbox::Send(GatewayMessage message) {
  return base::RetryUntilMemory([&] { return queue_.ForcePush(std::move(message)); });
}

void GatewayInbox::SendOutput(AttemptSays message) {
  if (std::this_thread::get_id() == reader_) {
    Send(std::move(message));
    return;
  }
  GatewayMessage any = std::move(message);
  base::RetryUntilMemory([&] { return queue_.WaitPush(std::move(any)); });
}

std::list<GatewayMessage> GatewayInbox::WaitAll(std::chrono::nanoseconds timeout) {
  reader_ = std::this_thread::get_id();
  return queue_.WaitPopAll(timeout);
}

void GatewayInbox::WaitNoSinks() {
  std::unique_lock lock(mu_);
  no_sinks_.wait(lock, [this] { return sinks_ == 0; });
}

AttemptSink::AttemptSink(std::shared_ptr<GatewayInbox> inbox, std::shared_ptr<ClientRequest> client,
                         uint32_t attempt, base::Duration alive_gap, const base::Clock* clock)
    : inbox_(std::move(inbox)),
      client_(std::move(client)),
      attempt_(attempt),
      alive_gap_(alive_gap),
      clock_(clock) {
  const std::lock_guard lock(inbox_->mu_);
  ++inbox_->sinks_;
}

AttemptSink::~AttemptSink() {
  client_.reset();
  const std::lock_guard lock(inbox_->mu_);
  if (--inbox_->sinks_ == 0) inbox_->no_sinks_.notify_all();
}

bool AttemptSink::OnDelta(RequestId, Delta delta) {
  if (Counts()) inbox_->SendOutput({client_, attempt_, std::move(delta)});
  return Counts();
}

void AttemptSink::OnAlive(RequestId) {
  const base::TimePoint now = clock_->Now();
  if (now < next_alive_ || !Counts()) return;
  next_alive_ = now + alive_gap_;
  inbox_->SendOutput({client_, attempt_, AttemptSays::Alive()});
}

// Takes no memory where the attempt does not count any more: so the gateway's end takes none.
void AttemptSink::OnEnd(RequestId, const Outcome& outcome) {
  if (!Counts()) return;
  inbox_->SendOutput(
      {client_, attempt_, Outcome{base::CopyStatus(outcome.status), outcome.finish, outcome.kind}});
}

}  // namespace ropeway::gateway
