// The Backend that computes nothing itself: it sends requests to the backends behind it, and holds
// them together where those fail.
#ifndef ROPEWAY_GATEWAY_GATEWAY_BACKEND_H_
#define ROPEWAY_GATEWAY_GATEWAY_BACKEND_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fair_pool.h"
#include "base/random.h"
#include "gateway/client_request.h"
#include "gateway/dispatcher.h"
#include "gateway/gateway_inbox.h"
#include "gateway/gateway_metrics.h"
#include "gateway/look_times.h"
#include "gateway/model_names.h"
#include "gateway/replica_book.h"
#include "ropeway/backend.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/session.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"
#include "service/active_request.h"
#include "service/front_desk.h"
#include "service/intake.h"
#include "service/registry.h"
#include "store/session.h"
#include "store/session_store.h"

namespace ropeway::gateway {

// The parts of a gateway.
struct GatewayConfig {
  std::shared_ptr<void> runtime;                // What the backends need; destroyed after them.
  std::vector<GatewayModel> models;             // Each backend has its name, and is open.
  DispatchOptions dispatch;                     // Without replicas: those are each model's.
  std::chrono::milliseconds request_timeout{};  // Any request ends by then; 0: no such limit.
  bool strict = false;                          // See GatewayOptions.
  // What the texts of all requests under way may take together, shared between tenants.
  int64_t max_request_bytes = int64_t{256} << 20;
  // A request that no backend has answered is admitted, for its sink, after so long; earlier ones
  // can still get a status code of their own.
  base::Duration admit_after = std::chrono::seconds(5);
  std::unique_ptr<store::SessionStore> sessions;  // Null: in memory.
  int64_t created = 0;                            // Unix seconds, for Models().
  const service::FrontDesk* tokens =
      nullptr;                         // For Tokenize and the like; null: they are rejected.
  const base::Clock* clock = nullptr;  // Real time. Both outlive the gateway.
  base::Random* random = nullptr;      // One call at a time.
};

// See Backend. A request is admitted once a backend answers it, so that what a backend rejects has
// a status code of its own.
//
// Threads and locks. One thread has all that follows a request's being queued: it alone calls the
// sinks of clients and the backends, and holds no lock then. What it is told comes by an inbox:
// what backends answer, what was read or stored of sessions, what is to be cancelled. `mu_` is over
// what callers and views share with it, the dispatchers and the books of replicas, and nothing
// foreign is called under it. What takes long, to read a session's history and to hand on a large
// request, is done by a thread in fair shares between tenants. So sinks and backends may call the
// gateway; they must not block, for they hold up all others.
class GatewayBackend final : public service::FrontDesk {
 public:
  // InvalidArgument with the field at fault.
  static StatusOr<std::unique_ptr<GatewayBackend>> Create(GatewayConfig config);

  // Cancels what is under way. Once it has returned, every sink has had its end and no backend is
  // used any more.
  ~GatewayBackend() override;

  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override;
  // kNotFound also for one whose sink is being told its end.
  Status Cancel(RequestId id) override;
  std::vector<service::ModelInfo> Models() const override;
  bool MayServe(const std::string& model) const override;
  service::Health GetHealth() const override;
  std::string MetricsText() const override;
  int RetryAfterSeconds(const std::string& tenant) const override;
  std::vector<service::RequestInfo> Requests() const override;
  service::QueueInfo Queue(const std::string* tenant, double weight) const override;
  service::Activity ActivityAfter(const service::ActivityCursor& cursor) const override;
  EngineStats Stats() const override;
  std::vector<BackendStatus> Backends() const override;
  StatusOr<std::unique_ptr<service::Tokenization>> Tokenize(std::string text,
                                                            bool add_special) const override;
  StatusOr<std::unique_ptr<service::Tokenization>> TokenizeChat(Chat chat,
                                                                bool add_special) const override;
  StatusOr<std::string> Detokenize(const std::vector<TokenId>& ids) const override;
  StatusOr<service::TokenizerInfo> DescribeTokenizer() const override;
  Status Drain(std::chrono::nanoseconds deadline) override;

  // The methods of Gateway with these names.
  Status SetDraining(const std::string& backend, bool draining);
  std::vector<SessionInfo> Sessions(const std::string& tenant) const;
  Status CloseSession(const std::string& id, const std::string& tenant);
  // Waits until every backend has answered a probe or failed to, at most for `timeout`.
  void WaitProbed(std::chrono::nanoseconds timeout) const;

 private:
  struct Model {
    std::vector<ReplicaBook> replicas;       // GUARDED_BY(mu_)
    std::unique_ptr<Dispatcher> dispatcher;  // GUARDED_BY(mu_)
  };
  // A request that waits is looked at again after so long.
  static constexpr std::chrono::seconds kLookAgain{1};

  // One request on its way to a dispatcher.
  struct Arrival {
    std::shared_ptr<ClientRequest> client;
    DispatchRequest dispatch;
  };

  GatewayBackend(GatewayConfig config, std::vector<ModelNames::Model> names,
                 std::vector<Model> models, std::unique_ptr<store::SessionStore> sessions);

  // gateway_submit.cc.

  Status CheckKnown(const Model& model, const Request& request) const;
  StatusOr<Arrival> MakeArrival(SinkRequest request, uint64_t drawn_seed);
  // REQUIRES: mu_ is held.
  Status EnqueueAll(std::vector<Arrival>* arrivals);
  // Starts to read the history of a session's turn. REQUIRES: mu_ is held.
  Status EnqueueReading(const std::shared_ptr<ClientRequest>& client);
  // Removes a request that is not accepted. REQUIRES: mu_ is held.
  void Unlist(ClientRequest* client);
  // Reads the history of a turn; called on a helper thread.
  StatusOr<std::optional<store::SessionState>> ReadHistory(const service::Turn& turn) noexcept;

  // All methods below, as far as gateway_views.cc, run on the gateway's thread.

  void Take(HistoryRead* read);
  // Adds it to its dispatcher: its history is `before`, if it has any.
  Status EnqueueRead(ClientRequest* client, std::optional<store::SessionState> before);

  // gateway_dispatch.cc.

  void Loop();
  // Takes all messages, waiting for the first one; false: none came.
  bool TakeMessages(base::Duration wait) noexcept;
  void Handle(GatewayMessage* message) noexcept;
  // Tells the sinks of requests that have waited for long that they are queued, and ends turns
  // whose time is over while their history is read.
  void LookAtWaiting();
  // Does what the dispatchers that are due decide; false: there was nothing to do.
  bool DispatchDue();
  bool Dispatch(size_t index);
  void Do(const Model& model, const Decision& decision,
          const std::shared_ptr<ClientRequest>& client);
  void Send(const Model& model, const Decision& decision,
            const std::shared_ptr<ClientRequest>& client);
  // Hands a large request to its backend on a thread for that; false: there is no place for it.
  bool SubmitAside(const AttemptSubmitted& to, const std::shared_ptr<Request>& request,
                   const std::shared_ptr<Sink>& sink);
  void EndByDecision(const Decision& decision, ClientRequest* client);
  void Probe(size_t model, const Decision& decision) noexcept;
  base::Duration UntilNextLook() const;
  // Ends all requests. Takes no memory: no caller could catch an exception.
  void EndRest();

  // gateway_answers.cc.

  void Take(AttemptSays* said);
  void Take(AttemptSubmitted* submitted);
  void Take(CancelAsked* asked);
  void Take(TurnStored* stored);
  void Take(ProbeAnswered* answered);
  void TakeDelta(const std::shared_ptr<ClientRequest>& client, uint32_t attempt, Delta delta);
  void TakeEnd(const std::shared_ptr<ClientRequest>& client, uint32_t attempt, Outcome outcome);
  // The attempt failed at the replica that the request was sent to last.
  void TakeFailure(ClientRequest* client, uint32_t attempt, Outcome failure);
  // The answer is complete.
  void EndAnswered(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                   const Finish& said);
  // The answer was computed anew, and is another one.
  void EndDiffering(ClientRequest* client);
  // The gateway itself fails the request; called in a catch block.
  void FailOn(ClientRequest* client) noexcept;
  // Begins the streams of the request and of its group: else the output of the first ones would
  // pile up in their sinks.
  void Admit(ClientRequest* client);
  // Removes the request from its dispatcher.
  void Withdraw(const ClientRequest& client);
  // Cancels the attempt under way, if there is one: its output is no longer wanted.
  static void DropAttempt(ClientRequest* client) noexcept;
  static void CancelThere(Backend* backend, RequestId id) noexcept;
  // EndWell, EndCancelled and EndFailed tell the sink the end and forget the request. REQUIRES: its
  // dispatcher no longer has it.
  void EndWell(ClientRequest* client, const Finish& end);
  void EndCancelled(ClientRequest* client);
  void EndFailed(ClientRequest* client, const Status& status);
  void Forget(ClientRequest* client);
  // A sentence of the backend that it was sent to last, with its name before it.
  std::string Named(const ClientRequest& client, const std::string& what) const;

  // gateway_views.cc. Calls `fn` with each turn whose history is being read. REQUIRES: mu_ is held.
  template <typename Fn>
  void ForEachReading(Fn&& fn) const {
    requests_.ForEach([&fn](const std::shared_ptr<ClientRequest>& client) {
      if (client->state() == service::RequestState::kEncoding) fn(*client);
    });
  }

  const GatewayConfig config_;
  const std::unique_ptr<store::SessionStore> sessions_;  // Outlives all turns.
  ModelNames names_;
  std::vector<Model> models_;  // As many as have names; the vector is constant.
  mutable GatewayMetrics metrics_;
  service::Intake intake_;
  service::Registry<ClientRequest> requests_{"the gateway"};
  const std::shared_ptr<GatewayInbox> inbox_ = std::make_shared<GatewayInbox>();
  std::atomic<base::TimePoint>
      busy_since_{};  // When the gateway's thread began its work; 0: it sleeps.

  // Also held while requests are added to their dispatcher: they may be rejected then.
  mutable std::mutex mu_;
  mutable std::condition_variable probed_;  // Notified when a replica was probed.
  LookTimes look_times_;                    // For requests that wait. GUARDED_BY(mu_)

  base::FairPool helpers_;  // For what takes long: histories of turns, and large requests.
  std::thread thread_;      // Last.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_GATEWAY_BACKEND_H_
