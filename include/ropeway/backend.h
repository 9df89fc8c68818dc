// The seam between what asks for text and what computes it. An engine, the gateway, an HTTP server
// of another engine and a class of your own are each a Backend, and all tell a Sink what becomes of
// a request.
#ifndef ROPEWAY_BACKEND_H_
#define ROPEWAY_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

// Facts about a request once it is queued.
struct Admission {
  int32_t prompt_tokens = 0;
  bool estimated = false;      // prompt_tokens is: the prompt is encoded elsewhere.
  int32_t queue_position = 0;  // Requests that start before it, as ranked now; 0: it is next.
};

// Where the fault of a failure is, for a gateway that may send the request elsewhere.
enum class FailureKind : uint8_t {
  kUnreachable,  // The backend did not take the request: no connection, or reset before a byte.
  kBusy,         // It says that it has too much to do (429, 503).
  kBroken,       // It failed, hung or was lost while it had the request (5xx, cut stream, garbage).
  kRejected,     // The request itself is at fault (4xx): no other backend would take it.
};
inline constexpr int kNumFailureKinds = 4;

// How a request ended.
struct Outcome {
  // OK: as kStop or kLength. kCancelled: so. Else why it failed: one sentence; of a gateway's
  // backend a clause about it ("it answered with HTTP 500"), before which the gateway puts its
  // name.
  Status status;
  // If the request failed, only `reason` counts. What a backend does not say stays as it is here: a
  // gateway replaces the numbers of `usage` by estimates, and a seed of 0 by the one it
  // asked for.
  Finish finish = Unsaid();
  FailureKind kind = FailureKind::kBroken;  // Where status is neither OK nor kCancelled.

  static Finish Unsaid() {
    Finish finish;
    finish.usage = Usage::Unknown();
    return finish;
  }
  static Outcome Ended(const Finish& finish) { return {Status(), finish, FailureKind::kBroken}; }
  static Outcome Failed(FailureKind kind, Status status) {
    Outcome outcome;
    outcome.finish = Finish();
    outcome.finish.reason =
        status.code() == StatusCode::kCancelled ? FinishReason::kCancelled : FinishReason::kFailed;
    outcome.status = std::move(status);
    outcome.kind = kind;
    return outcome;
  }
  // As an engine's statuses mean it.
  static Outcome Failed(Status status) {
    FailureKind kind = FailureKind::kBroken;
    switch (status.code()) {
      case StatusCode::kResourceExhausted:
        kind = FailureKind::kBusy;
        break;
      case StatusCode::kInvalidArgument:
      case StatusCode::kNotFound:
      case StatusCode::kUnimplemented:
      case StatusCode::kDeadlineExceeded:
        kind = FailureKind::kRejected;
        break;
      default:
        // Where another engine's ids are at fault, this one is not.
        if (status.field() == "resume_ids") kind = FailureKind::kRejected;
        break;
    }
    return Failed(kind, std::move(status));
  }
};

// Receives one request's output: OnAdmitted at most once and before any output, OnDelta and OnAlive
// any number of times, then OnEnd exactly once. Calls come one at a time, in order, from the
// backend's threads, perhaps before Submit returns; they must not block, and may call the backend.
// A sink that throws is treated as one that wants no more. Owned by the backend from Submit until
// the end; the backend drops it then.
class Sink {
 public:
  virtual ~Sink() = default;

  // The request is encoded, checked and queued: a stream's headers may be sent now. Without it, the
  // request is admitted with its first output.
  virtual void OnAdmitted(RequestId /*id*/, const Admission& /*admission*/) {}

  // New text, and tokens as far as the backend reports them: ids of -1 are not known. Returns false
  // to cancel (the client is gone): OnEnd(kCancelled) follows.
  virtual bool OnDelta(RequestId id, Delta delta) = 0;

  // The backend has the request still, though it has no output for it yet: it waits there, or gave
  // way to another one. Without this a gateway takes a long silence for a hang.
  virtual void OnAlive(RequestId /*id*/) {}

  virtual void OnEnd(RequestId id, const Outcome& outcome) = 0;
};

// A request, and what receives its output.
struct SinkRequest {
  Request request;
  std::shared_ptr<Sink> sink;
};

// How a backend is, as far as it tells; absent or empty: it does not say.
struct BackendFacts {
  bool ready = true;                  // It takes requests.
  std::string reason;                 // Why it does not, for a person.
  std::optional<int> places;          // Requests that it computes at once.
  std::optional<int> running;         // Requests that it computes now, of all its clients.
  std::optional<int> waiting;         // Requests that wait there, of all its clients.
  std::optional<double> free_memory;  // The part of the memory for KV that is free: 0 to 1.
  std::vector<std::string> models;    // The names that it serves.
  bool embeds_only = false;           // The model makes embeddings; all else is rejected.
  // It makes room for a request of class high by itself, and lets lower ones wait for it: such
  // requests are sent to it beyond its places, half as many more.
  bool preempts = false;
  // It is told the tenant of each request, and divides its machine fairly between tenants.
  bool shares_tenants = false;
  // Backends give the same bits for the same request if all three are equal and not empty.
  std::string model_digest;
  std::string numerics;
  std::string limits;  // What else decides, such as the resolved max_model_len and the KV type.
};

// Takes requests. Thread rule: every method from any thread; none blocks.
class Backend {
 public:
  using ProbeFn = std::function<void(StatusOr<BackendFacts>)>;

  // The owner of a backend waits until each sink has had its end before it destroys the backend.
  virtual ~Backend() = default;

  // Queues requests that are one to their client (OpenAI's lists of prompts, and n), all or none,
  // and returns their ids in order, in far under 1 ms each: kInvalidArgument (malformed), kNotFound
  // (no such model), kResourceExhausted (queue full), kUnavailable (stopping). They are admitted,
  // or rejected later, by one decision, in which what they take themselves does not count as a
  // wait. After success each sink gets exactly one end. On failure sinks are dropped uncalled,
  // except that some may get the end of a cancelled request; of one request alone none does.
  virtual StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) = 0;

  // As SubmitAll, for one request.
  StatusOr<RequestId> Submit(Request request, std::shared_ptr<Sink> sink) {
    try {
      std::vector<SinkRequest> one;
      one.push_back({std::move(request), std::move(sink)});
      StatusOr<std::vector<RequestId>> ids = SubmitAll(std::move(one));
      if (!ids.ok()) return ids.status();
      return ids->front();
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kResourceExhausted, "out of memory");
    }
  }

  // Asks that the request end as kCancelled, soon and whatever it waits for; output may still come
  // before. kNotFound: no such request is under way.
  virtual Status Cancel(RequestId id) = 0;

  // Asks how the backend is, and passes the answer, or why there is none, to `done`, once, from any
  // thread, perhaps before this returns. It is asked regularly: sinks of what waits may be told
  // OnAlive then.
  virtual void Probe(ProbeFn done) = 0;

  // Whether an answer can go on where another backend with the same digest, numerics and limits
  // left off (Request::resume_ids).
  virtual bool CanResume() const { return false; }

  // Fields of the request that it does not know and leaves out, such as "top_k"; with --strict the
  // gateway rejects requests that set one.
  virtual std::vector<std::string> Unknown(const Request& /*request*/) const { return {}; }
};

// What Cancel returns for an id that is not under way.
inline Status NotUnderWay(RequestId id) noexcept {
  try {
    return {StatusCode::kNotFound, "no request " + std::to_string(id) + " is running"};
  } catch (const std::bad_alloc&) {
    return {StatusCode::kNotFound, "no such request"};  // Takes no memory.
  }
}

}  // namespace ropeway

#endif  // ROPEWAY_BACKEND_H_
