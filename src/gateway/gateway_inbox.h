// How what others tell a gateway gets to its thread.
#ifndef ROPEWAY_GATEWAY_GATEWAY_INBOX_H_
#define ROPEWAY_GATEWAY_GATEWAY_INBOX_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "gateway/client_request.h"
#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "store/session.h"

namespace ropeway::gateway {

// A backend has something to tell of an attempt.
struct AttemptSays {
  struct Alive {};
  std::shared_ptr<ClientRequest> client;
  uint32_t attempt = 0;
  std::variant<Delta, Alive, Outcome> what;
};
// The backend has the attempt as `id`, or did not take it.
struct AttemptSubmitted {
  std::shared_ptr<ClientRequest> client;
  uint32_t attempt = 0;
  Backend* backend = nullptr;
  StatusOr<RequestId> id;
};
// The request was cancelled.
struct CancelAsked {
  std::shared_ptr<ClientRequest> client;
};
// What the turn's session goes on from was read, or cannot be; nothing: the turn is the first one.
struct HistoryRead {
  std::shared_ptr<ClientRequest> client;
  StatusOr<std::optional<store::SessionState>> before;
};
// The state that the turn leaves was stored; if that failed, the store tries again.
struct TurnStored {
  std::shared_ptr<ClientRequest> client;
};
// A backend has answered a probe, or failed to.
struct ProbeAnswered {
  size_t model = 0;
  int replica = 0;
  uint64_t probe = 0;
  StatusOr<BackendFacts> facts;  // As BoundFacts leaves them.
  std::string dropped;           // What that dropped.
};
using GatewayMessage = std::variant<AttemptSays, AttemptSubmitted, CancelAsked, HistoryRead,
                                    TurnStored, ProbeAnswered>;

// The messages to the gateway's thread, first in, first out. No message is lost for want of memory:
// the sender waits until there is some. The inbox outlives the gateway if a backend answers too
// late; messages after Close are dropped.
//
// Thread rule: every method from any thread, except for WaitAll and WaitNoSinks, which are the
// gateway's.
class GatewayInbox {
 public:
  // False: it is closed.
  bool Send(GatewayMessage message);
  // Waits also while many messages wait, so that a gateway that is behind holds back its backends;
  // but on the gateway's own thread, where a backend may answer from within Submit.
  void SendOutput(AttemptSays message);

  // Waits for a message, Wake, Close or the timeout, and takes all messages.
  std::list<GatewayMessage> WaitAll(std::chrono::nanoseconds timeout);
  // Ends the wait of WaitAll, or the next one.
  void Wake() { queue_.Wake(); }
  void Close() { queue_.Close(); }
  bool closed() const { return queue_.closed(); }

  // Waits until backends have let go of all AttemptSinks.
  void WaitNoSinks();

 private:
  friend class AttemptSink;

  static constexpr size_t kMostWaiting = 1024;  // Beyond it, output waits to be sent.

  base::BoundedQueue<GatewayMessage> queue_{kMostWaiting};
  std::atomic<std::thread::id> reader_{};  // The thread that waits here.
  std::mutex mu_;
  std::condition_variable no_sinks_;
  int sinks_ = 0;  // GUARDED_BY(mu_)
};

// Sends what a backend tells of an attempt to the gateway's thread, as long as that attempt is the
// client's.
class AttemptSink final : public Sink {
 public:
  // Signs of life are passed on once in `alive_gap`.
  AttemptSink(std::shared_ptr<GatewayInbox> inbox, std::shared_ptr<ClientRequest> client,
              uint32_t attempt, base::Duration alive_gap, const base::Clock* clock);
  ~AttemptSink() override;
  AttemptSink(const AttemptSink&) = delete;
  AttemptSink& operator=(const AttemptSink&) = delete;

  bool OnDelta(RequestId id, Delta delta) override;
  void OnAlive(RequestId id) override;
  void OnEnd(RequestId id, const Outcome& outcome) override;

 private:
  bool Counts() const { return client_->attempt == attempt_; }

  const std::shared_ptr<GatewayInbox> inbox_;
  std::shared_ptr<ClientRequest> client_;
  const uint32_t attempt_;
  const base::Duration alive_gap_;
  const base::Clock* const clock_;
  base::TimePoint next_alive_{};
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_GATEWAY_INBOX_H_
