// The seam between the gateway and what computes behind it: an HTTP server of another engine, an
// engine in this process, or a class of your own.
#ifndef ROPEWAY_REMOTE_BACKEND_H_
#define ROPEWAY_REMOTE_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

// How a backend is, as far as it tells; absent or empty: it does not say.
struct BackendFacts {
  bool ready = true;                  // It takes requests.
  std::string reason;                 // Why it does not, for a person.
  std::optional<int> places;          // Requests that it computes at once.
  std::optional<int> running;         // Requests that it computes now, of all its clients.
  std::optional<int> waiting;         // Requests that wait there, of all its clients.
  std::optional<double> free_memory;  // Of the memory for KV, the part that is free: 0 to 1.
  std::vector<std::string> models;    // The names that it serves.
  // It makes room for a request of class high by itself, and lets lower ones wait for it: such
  // requests are sent to it beyond its places, half as many more.
  bool preempts = false;
  // It is told the tenant of each request, and divides its machine fairly between tenants.
  bool shares_tenants = false;
  // Backends of which all three are equal, and not empty, give the same bits for the same request.
  std::string model_digest;
  std::string numerics;
  std::string limits;  // What else decides, such as the resolved max_model_len and the KV type.
};

// How a request ended at a backend. What the backend leaves out is absent.
struct BackendEnd {
  FinishReason reason = FinishReason::kStop;  // kStop or kLength.
  std::optional<int32_t> prompt_tokens = {};
  std::optional<int32_t> completion_tokens = {};
  std::optional<int32_t> cached_tokens = {};
  std::optional<uint64_t> seed = {};
  int32_t max_tokens = 0;   // As Finish::max_tokens,
  const char* cut_by = "";  // and as Finish::cut_by.
};

// Why a request failed at a backend.
struct BackendFailure {
  enum class Kind {
    kUnreachable,  // It did not take the request: no connection, or reset before a byte came.
    kBusy,         // It says that it has too much to do (429, 503).
    kBroken,    // It failed, hung or was lost while it had the request (5xx, cut stream, garbage).
    kRejected,  // The request itself is at fault (4xx): no other backend would take it.
  };
  Kind kind = Kind::kBroken;
  // For the client: one sentence with what the backend said. The gateway puts its name before it.
  Status status;
  int retry_after_seconds = 0;  // As the backend says; 0: it does not.
};

// Receives what a backend answers to one request: OnDelta and OnAlive any number of times, then
// exactly one of OnEnd or OnFailure, one call at a time, from any thread; they do not block.
// Nothing follows once the RemoteCall is destroyed.
class RemoteSink {
 public:
  virtual ~RemoteSink() = default;
  // New text, and tokens as far as the backend reports them: ids of -1 are not known.
  virtual void OnDelta(Delta delta) = 0;
  // The backend has the request still, though it has no output for it yet: it waits there, or gave
  // way to another one. Without this a long silence is taken for a hang. May be called often.
  virtual void OnAlive() {}
  virtual void OnEnd(const BackendEnd& end) = 0;
  virtual void OnFailure(BackendFailure failure) = 0;
};

// A request at a backend. Its destructor cancels what has not ended, without waiting for it: the
// sink is not called any more once it has returned.
class RemoteCall {
 public:
  virtual ~RemoteCall() = default;
};

// What of a request's output was given to its client already, for a backend that can go on from it
// (see RemoteBackend::CanResume).
struct ResumePoint {
  std::vector<TokenId> ids;  // Generated so far.
  uint64_t seed = 0;         // That the first backend used.
};

// One backend of the gateway. Owned by the gateway, which destroys all calls before it. Thread
// rule: every method from any thread; none blocks.
class RemoteBackend {
 public:
  virtual ~RemoteBackend() = default;

  // Sends one request; its answer comes to `sink`, perhaps before this returns. `request.timeout`
  // is what is left of it. `resume`: null, or what the answer is to go on from; only where
  // CanResume. Never fails otherwise than by OnFailure.
  virtual std::unique_ptr<RemoteCall> Start(const Request& request, const ResumePoint* resume,
                                            std::shared_ptr<RemoteSink> sink) = 0;

  // Asks how the backend is, and passes the answer, or why there is none, to `done`, once, from any
  // thread, perhaps before this returns; not once the backend is destroyed.
  virtual void Probe(std::function<void(StatusOr<BackendFacts>)> done) = 0;

  // Whether an answer can go on where another backend with the same digest, numerics and limits
  // left off.
  virtual bool CanResume() const { return false; }

  // Fields of the request that it does not know and leaves out, such as "top_k"; with --strict the
  // gateway rejects requests that set one.
  virtual std::vector<std::string> Unknown(const Request& /*request*/) const { return {}; }
};

}  // namespace ropeway

#endif  // ROPEWAY_REMOTE_BACKEND_H_
