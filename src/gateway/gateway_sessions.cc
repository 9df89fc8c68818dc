// The part of GatewayBackend that keeps sessions: a turn's history is read before it is queued, and
// its end is told once the state that it leaves is stored.
#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "base/failure.h"
#include "gateway/gateway_backend.h"
#include "service/intake.h"

namespace ropeway::gateway {

Status GatewayBackend::BeginTurn(Request* request, std::shared_ptr<ClientTurn>* turn) {
  if (std::holds_alternative<std::vector<TokenId>>(request->prompt)) {
    return InvalidArgument(
        "a gateway's session is of messages or of text, and takes no token ids for a prompt",
        "prompt");
  }
  StatusOr<store::SessionTurn> begun = sessions_->Begin(request->tenant, request->session_id);
  if (!begun.ok()) return begun.status();
  *turn = std::make_shared<ClientTurn>();
  (*turn)->turn = *std::move(begun);
  // A backend keeps nothing; but the next turn finds its cache.
  request->session_id.clear();
  request->cache_retention = CacheRetention::kLong;
  return {};
}

void GatewayBackend::ReadTurn(const std::shared_ptr<ClientRequest>& client) noexcept {
  Status status;
  try {
    status = ReadHistory(client.get());
    if (status.ok()) status = EnqueueRead(client);
  } catch (const std::bad_alloc&) {
    status = base::OutOfMemory();
  } catch (const std::exception&) {
    status = base::MakeStatus(StatusCode::kInternal, "reading the session failed");
  }
  if (!status.ok()) FailReading(client.get(), status);
}

Status GatewayBackend::ReadHistory(ClientRequest* client) {
  std::shared_ptr<ClientTurn> turn;
  {
    const std::lock_guard told(client->mu);
    turn = client->turn;
  }
  if (turn == nullptr) return {};  // It was cancelled.
  std::optional<store::SessionState> before;
  if (!sessions_->IsNew(turn->turn)) {
    // The disk is waited for without a lock.
    StatusOr<store::SessionState> loaded = sessions_->Load(turn->turn);
    if (!loaded.ok()) return loaded.status();
    before = *std::move(loaded);
  }
  const std::lock_guard told(client->mu);
  if (client->ended() || !before) return {};
  if (Status status = client->GoOn(*std::move(before)); !status.ok()) return status;
  return service::TakeBytes(client->request, &request_bytes_, &client->bytes);
}

void GatewayBackend::FailReading(ClientRequest* client, const Status& status) {
  const std::lock_guard told(client->mu);
  {
    const std::lock_guard lock(mu_);
    // Otherwise it was cancelled, or a dispatcher has it.
    if (reading_.erase(client->id) == 0) return;
  }
  EndFailed(client, 0, status, config_.clock->Now());
}

void GatewayBackend::KeepTurn(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                              const Finish& end) {
  const store::SessionState next = client->NextState(end);
  bool look = false;
  {
    const std::lock_guard lock(mu_);
    over_.emplace_back(client->id, attempt);
    look = LookNow();
  }
  NotifyIf(look);
  // Whatever came of writing: if it failed, the store has the state and tries again.
  sessions_->Commit(&client->turn->turn, next,
                    [this, client](const Status&) { EndKept(client.get()); });
  client->turn->end = end;
}

void GatewayBackend::EndKept(ClientRequest* client) noexcept {
  const std::lock_guard told(client->mu);
  if (client->ended()) return;
  const Finish end = *client->turn->end;
  EndWell(client, 0, end, config_.clock->Now());
}

std::vector<SessionInfo> GatewayBackend::Sessions(const std::string& tenant) const {
  return service::OrIfShort(std::vector<SessionInfo>(), [&] { return sessions_->List(tenant); });
}

Status GatewayBackend::CloseSession(const std::string& id, const std::string& tenant) {
  return service::OrIfShort(base::OutOfMemory(), [&] { return sessions_->Close(tenant, id); });
}

}  // namespace ropeway::gateway
