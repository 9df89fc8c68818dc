// The Backend that computes nothing itself: it sends requests to the backends behind it, and holds
// them together where those fail.
#ifndef ROPEWAY_GATEWAY_GATEWAY_BACKEND_H_
#define ROPEWAY_GATEWAY_GATEWAY_BACKEND_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fair_pool.h"
#include "base/random.h"
#include "base/shared_budget.h"
#include "gateway/admit_times.h"
#include "gateway/client_request.h"
#include "gateway/dispatcher.h"
#include "gateway/gateway_metrics.h"
#include "ropeway/backend.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/session.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"
#include "service/front_desk.h"
#include "store/session_store.h"

namespace ropeway::gateway {

// The parts of a gateway.
struct GatewayConfig {
  struct Backend {
    std::string name;  // Unique.
    std::shared_ptr<ropeway::Backend> backend;
    double weight = 1.0;
    int max_concurrency = 0;  // See ReplicaOptions, as for the next.
    int min_concurrency = 0;
  };
  struct Model {
    std::string name;  // "": the names that all of its backends report; of one model at most.
    std::vector<std::string> aliases;
    std::vector<Backend> backends;
  };

  std::shared_ptr<void> runtime;  // What the backends need; destroyed after them.
  std::vector<Model> models;
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
// Threads and locks. The dispatch thread does what the dispatchers decide: it alone calls
// Backend::Submit and Cancel, and holds no lock then. What backends answer comes
// from their own threads. The history of a session's turn is read on a thread for that, before the
// turn is queued, and its end comes from the session store's. Two locks: a request's
// (ClientRequest::mu), held while its sink is called, and `mu_`, over the dispatchers and the
// lists, under which nothing foreign is called. Where both are held, the request's was taken first.
// So a sink may submit and cancel requests; it must not block, for it holds up the thread that
// called it.
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
  EngineStats Stats() const override;
  std::vector<BackendStatus> Backends() const override;
  StatusOr<std::unique_ptr<service::Tokenization>> Tokenize(std::string text,
                                                            bool add_special) const override;
  StatusOr<std::unique_ptr<service::Tokenization>> TokenizeChat(std::vector<ChatMessage> messages,
                                                                bool add_generation_prompt,
                                                                bool add_special) const override;
  StatusOr<std::string> Detokenize(const std::vector<TokenId>& ids) const override;
  StatusOr<service::TokenizerInfo> DescribeTokenizer() const override;
  Status Drain(std::chrono::nanoseconds deadline) override;

  // See Gateway, as for the next two.
  Status SetDraining(const std::string& backend, bool draining);
  std::vector<SessionInfo> Sessions(const std::string& tenant) const;
  Status CloseSession(const std::string& id, const std::string& tenant);
  // Waits until every backend has answered a probe or failed to, at most for `timeout`.
  void WaitProbed(std::chrono::nanoseconds timeout) const;

 private:
  class AttemptSink;
  // Sinks that backends have. The gateway waits for their ends before it is gone.
  struct OpenSinks {
    std::mutex mu;
    std::condition_variable none;
    int count = 0;  // GUARDED_BY(mu)
  };
  // Keeps a backend that answers a probe too late from calling a gateway that is gone.
  struct ProbeGate {
    std::mutex mu;  // Taken before GatewayBackend::mu_.
    GatewayBackend* gateway = nullptr;
  };

  struct Replica {
    std::string name;
    std::shared_ptr<ropeway::Backend> backend;          // Constant. The rest is guarded by mu_.
    std::array<uint64_t, kNumFailureKinds> failures{};  // By FailureKind.
    uint64_t timeouts = 0;
    uint64_t retries = 0;
    uint64_t resumptions = 0;
    bool draining = false;
    bool probed = false;
    std::string why_not;  // It takes no requests, as the log says; "": it does.
    // Guarded by ProbeGate::mu, too: whoever holds either may read it.
    std::vector<std::string> models;  // As it reported last.
    bool warned = false;              // Of what it reports and should not; ProbeGate::mu alone.
  };
  struct Model {
    std::string name;  // Constant, as is the next.
    std::vector<std::string> aliases;
    std::vector<Replica> replicas;
    std::unique_ptr<Dispatcher> dispatcher;  // Guarded by mu_, as is the next.
    std::vector<Decision> decisions;         // That are not actions of a turn yet.
    // Guarded by mu_: of one without a name, those that all of its replicas report. Never null.
    std::shared_ptr<const std::vector<std::string>> names =
        std::make_shared<const std::vector<std::string>>();
  };
  // A request at a backend. The dispatch thread's.
  struct Call {
    uint32_t attempt = 0;
    ropeway::Backend* backend = nullptr;
    RequestId id = 0;  // There.
  };
  // Something for the dispatch thread to do.
  struct Action {
    Decision decision;
    size_t model = 0;
    std::shared_ptr<ClientRequest> client;  // Null: a probe.
    bool drained = false;                   // The replica is, that it was at.
  };
  // What one turn of the dispatch thread does. Each thing stays here until it is done, also where
  // memory is short.
  struct Turn {
    std::vector<std::pair<RequestId, uint32_t>> over;  // Attempts.
    std::vector<std::shared_ptr<ClientRequest>> cancelled;
    std::vector<std::shared_ptr<ClientRequest>> admitted;  // Those that waited for long.
    std::vector<Action> actions;
    bool empty() const {
      return over.empty() && cancelled.empty() && admitted.empty() && actions.empty();
    }
  };
  // One request on its way to a dispatcher.
  struct Arrival {
    std::shared_ptr<ClientRequest> client;
    DispatchRequest dispatch;
  };

  GatewayBackend(GatewayConfig config, std::vector<Model> models,
                 std::unique_ptr<store::SessionStore> sessions);

  // gateway_submit.cc.

  // The names that are known now of a model without one.
  std::shared_ptr<const std::vector<std::string>> ReportedNames(const Model& model) const;
  // The index of the model with this name; nothing: there is none.
  std::optional<size_t> FindModel(const std::string& name) const;
  // The name that its backends know the model by.
  std::string NameForBackends(const Model& model, const std::string& asked) const;
  Status CheckKnown(const Model& model, const Request& request) const;
  StatusOr<Arrival> MakeArrival(SinkRequest request, uint64_t drawn_seed);
  // The next three: REQUIRES: mu_ is held.
  Status CheckAccepting() const;
  Status EnqueueAll(std::vector<Arrival>* arrivals, base::TimePoint now);
  // Gives a session's turn its id, and has its history read.
  Status EnqueueReading(const std::shared_ptr<ClientRequest>& client);
  // Its history is read: adds it to its dispatcher, unless it was cancelled.
  Status EnqueueRead(const std::shared_ptr<ClientRequest>& client);

  // gateway_sessions.cc.

  // Takes the next turn of the session that `request` names.
  Status BeginTurn(Request* request, std::shared_ptr<ClientTurn>* turn);
  // The next three on a thread that reads: reads the turn's history and queues it, or fails it.
  void ReadTurn(const std::shared_ptr<ClientRequest>& client) noexcept;
  Status ReadHistory(ClientRequest* client);
  void FailReading(ClientRequest* client, const Status& status);
  // The answer of a turn is complete: hands its next state to the store, and ends it when that is
  // written. REQUIRES: client->mu is held, and the dispatcher has said that this is the end.
  void KeepTurn(const std::shared_ptr<ClientRequest>& client, uint32_t attempt, const Finish& end);
  void EndKept(ClientRequest* client) noexcept;

  // gateway_answers.cc: what an attempt's backend answers; see Sink. Any thread.
  // False: nothing more is wanted of the attempt.
  bool TakeDelta(const std::shared_ptr<ClientRequest>& client, uint32_t attempt, int replica,
                 Delta delta);
  void TakeAlive(const ClientRequest& client, uint32_t attempt, base::TimePoint now);
  void TakeEnd(const std::shared_ptr<ClientRequest>& client, uint32_t attempt, int replica,
               const Finish& end);
  // The answer is complete. REQUIRES: client->mu is held.
  void EndAnswered(const std::shared_ptr<ClientRequest>& client, uint32_t attempt,
                   const Finish& said);
  // The answer was computed anew, and is another one. REQUIRES: client->mu is held.
  void EndDiffering(ClientRequest* client, uint32_t attempt, int replica);
  void TakeFailure(const std::shared_ptr<ClientRequest>& client, uint32_t attempt, int replica,
                   Outcome failure);
  bool IsUnderWay(const ClientRequest& client, uint32_t attempt) const;
  // The gateway itself fails the request; called in a catch block.
  void FailOn(const std::shared_ptr<ClientRequest>& client, uint32_t attempt) noexcept;
  // The streams of the request's group begin. REQUIRES: no request's lock is held.
  void AdmitGroup(const ClientRequest& client);
  // The next three tell the sink the end and forget the request. REQUIRES: client.mu is held, and
  // the dispatcher has said that this is the end.
  void EndWell(ClientRequest* client, uint32_t attempt, const Finish& end, base::TimePoint now);
  void EndCancelled(ClientRequest* client, uint32_t attempt, base::TimePoint now);
  void EndFailed(ClientRequest* client, uint32_t attempt, const Status& status,
                 base::TimePoint now);
  void Forget(RequestId id, uint32_t attempt);
  // A sentence of a backend, with its name before it.
  std::string Named(size_t model, int replica, const std::string& what) const;
  // The names that all replicas of the model report, this one `names`.
  static std::vector<std::string> NamesWith(const Model& model, int replica,
                                            const std::vector<std::string>& names);
  // REQUIRES: ProbeGate::mu is held, or there are no facts.
  void TakeProbe(size_t model, int replica, uint64_t probe, StatusOr<BackendFacts> facts);

  // gateway_dispatch.cc: the dispatch thread.
  void Loop();
  // Waits until there is something to do, and takes it over, after what is left of the turn before;
  // false: the gateway is destroyed. May throw, as Do: what was taken over by then is in turn_.
  bool NextTurn();
  // The next five: REQUIRES: mu_ is held. Collect also: turn_ is empty.
  void Collect(base::TimePoint now);
  void CollectAdmitted(base::TimePoint now);
  // The same for turns whose time is over while their history is read.
  void CollectOverdue(base::TimePoint now);
  void TakeDecisions(size_t model);
  void CountDecision(Model* model, const Decision& decision);
  base::TimePoint NextLook() const;
  void Do();
  void DoAction(const Action& action);
  // Ends what an action was to do that has thrown; called in a catch block.
  void FailAction(const Action& action) noexcept;
  void Send(const Action& action);
  void EndByDecision(const Action& action);
  void Probe(const Action& action);
  // Cancels the attempt where it is under way; 0: any attempt.
  void DropCall(RequestId id, uint32_t attempt);
  // Takes no memory: there is nobody to catch what it would throw.
  void EndRest();
  // Makes room in the lists of what ends, which then grow without allocating: no end is to be lost
  // for want of memory. REQUIRES: mu_ is held, and every request is in requests_.
  void ReserveEnds();
  // Has the dispatch thread cancel the request. REQUIRES: mu_ is held, and it is in requests_.
  void CancelSoon(const std::shared_ptr<ClientRequest>& client);

  // Makes the dispatch thread look now, or if the dispatcher is due before the thread would look.
  // Returns whether it sleeps: NotifyIf is to be called then, without mu_. REQUIRES: mu_ is held.
  bool LookNow();
  bool LookIfDue(const Dispatcher& dispatcher);
  void NotifyIf(bool sleeps) {
    if (sleeps) wake_.notify_one();
  }

  // gateway_views.cc.
  BackendStatus StatusOfReplica(const Model& model, size_t replica, base::TimePoint now) const;

  const GatewayConfig config_;
  const std::unique_ptr<store::SessionStore> sessions_;  // Outlives all turns.
  std::vector<Model> models_;                            // Constant but for what is guarded by mu_.
  std::map<std::string, size_t> model_of_;               // By name and alias; constant.
  mutable GatewayMetrics metrics_;
  base::SharedBudget request_bytes_;
  std::shared_ptr<ProbeGate> gate_;
  const std::shared_ptr<OpenSinks> open_sinks_ = std::make_shared<OpenSinks>();

  mutable std::mutex mu_;                    // Guards all that follows up to turn_.
  std::condition_variable wake_;             // Of the dispatch thread.
  mutable std::condition_variable changed_;  // For Drain and WaitProbed.
  bool accepting_ = true;
  bool stopping_ = false;
  bool look_ = false;               // There is something to look at now.
  base::TimePoint sleeps_until_{};  // 0: the dispatch thread does not sleep.
  base::TimePoint busy_since_{};    // 0: it is not busy.
  RequestId next_id_ = 1;
  std::unordered_map<RequestId, std::shared_ptr<ClientRequest>> requests_;  // Without their end.
  // Of these, turns of sessions whose history is being read. Whoever takes one out of here queues
  // or ends it.
  std::map<RequestId, std::shared_ptr<ClientRequest>> reading_;
  // Attempts that are over, and requests to be told that they are cancelled: see
  // ReserveEnds.
  std::vector<std::pair<RequestId, uint32_t>> over_;
  std::vector<std::shared_ptr<ClientRequest>> cancelled_;
  AdmitTimes unadmitted_;

  Turn turn_;  // The dispatch thread's, as is the next.
  std::unordered_map<RequestId, Call> calls_;
  base::FairPool readers_;  // Of the histories of turns.
  std::thread thread_;      // Last.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_GATEWAY_BACKEND_H_
