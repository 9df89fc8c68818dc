// The Backend seam: the server (and the gateway) hand requests to it, and get output through sinks.
#ifndef ROPEWAY_ENGINE_BACKEND_H_
#define ROPEWAY_ENGINE_BACKEND_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/words.h"
#include "ropeway/request.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"

namespace ropeway::engine {

// Facts about a request once it is queued.
struct Admission {
  int32_t prompt_tokens = 0;
  bool estimated = false;      // prompt_tokens is: the prompt is encoded elsewhere.
  int32_t queue_position = 0;  // Requests that start before it, as ranked now; 0: it is next.
};

// Receives one request's output: OnAdmitted at most once and first, OnDelta any number of times,
// then exactly one of OnFinish or OnError. Calls come in order, one at a time, from the backend's
// threads; they must not block. Owned by the backend from Submit until the end; the backend drops
// it then.
class OutputSink {
 public:
  virtual ~OutputSink() = default;

  // The request is encoded, checked and queued: a stream's headers may be sent now.
  virtual void OnAdmitted(RequestId id, const Admission& admission) = 0;

  // New text and tokens. Returns false to cancel (the client is gone): OnFinish(kCancelled)
  // follows.
  virtual bool OnDelta(RequestId id, Delta delta) = 0;

  // The end of an admitted request.
  virtual void OnFinish(RequestId id, const Finish& finish) = 0;

  // The end of a request that was rejected after Submit (e.g. prompt too long) or failed, also
  // after OnAdmitted and deltas; kDeadlineExceeded: its timeout was over.
  virtual void OnError(RequestId id, const Status& status) = 0;
};

// A request, and who receives its output.
struct SinkRequest {
  Request request;
  std::shared_ptr<OutputSink> sink;
};

struct ModelInfo {
  std::string id;                // The served name.
  int32_t max_model_len = 0;     // 0: not known.
  int64_t created = 0;           // Unix seconds.
  SamplingParams sampling = {};  // Of a request that does not say.
  std::string fingerprint = {};  // OpenAI's system_fingerprint; "": none.
  // Backends of which all three are equal, and the digest is known, give the same bits for the same
  // request: one can go on where another left off (Request::resume_ids).
  std::string digest = {};    // Of the model's files; "": not known.
  std::string numerics = {};  // The version of the order of sums (docs/numerics.md).
  std::string limits = {};    // What else decides: max_model_len, the KV type, the chat template.
  int32_t vocabulary = 0;     // Ids of tokens are below it; 0: not known.
  bool chats = true;          // False: it has no chat template, and chats are rejected.
  std::vector<std::string> aliases = {};  // What requests may call it besides.
};

// Whether a request that says `name` means the model.
inline bool IsNamed(const ModelInfo& model, const std::string& name) {
  return model.id == name ||
         std::find(model.aliases.begin(), model.aliases.end(), name) != model.aliases.end();
}

// kNotFound, with the names of the models that there are.
inline Status NoSuchModel(const std::string& name, const std::vector<ModelInfo>& models) {
  constexpr size_t kMostNames = 8;
  std::vector<std::string> names;
  for (const ModelInfo& model : models) {
    names.push_back(model.id);
    names.insert(names.end(), model.aliases.begin(), model.aliases.end());
  }
  return {StatusCode::kNotFound,
          "The model '" + name.substr(0, 200) + "' does not exist; this server has " +
              base::Listed(names, kMostNames) + ".",
          "model"};
}

// What a client needs to split and to render texts as the model does. "": there is none.
struct TokenizerInfo {
  std::string bos_token;  // Texts.
  std::string eos_token;
  std::string chat_template;  // The source of the template (Jinja).
};

// One request under way, for the operators of a server.
struct RequestInfo {
  RequestId id = 0;
  std::string tenant;
  enum class State { kEncoding, kWaiting, kRunning, kPreempted };
  State state = State::kEncoding;
  bool started() const { return state == State::kRunning || state == State::kPreempted; }
  bool waits() const { return state == State::kWaiting || state == State::kPreempted; }
  double age_seconds = 0.0;  // Since Submit.
  Priority priority = Priority::kMedium;
  // Requests that start before it, as of a moment ago; negative: it runs, or is not in the queue
  // yet.
  int32_t queue_position = -1;
};

// The queue, as of a moment ago.
struct QueueInfo {
  struct Class {
    int waiting = 0;  // Includes preempted requests, and those whose prompt is being encoded.
    int running = 0;
    double wait_seconds = 0.0;  // Predicted wait of a new request of the tenant that asks.
  };
  std::array<Class, kNumPriorities> classes;  // By Priority.
  std::string blocked_by;  // The rule that keeps the first one from starting; "": none waits.
};

// For /livez and /readyz.
struct Health {
  bool live = true;    // The loop makes progress, or there is no work.
  bool ready = true;   // New requests are admitted.
  std::string reason;  // Why not, for a person; empty when both hold.
};

// A text on its way to token ids, in pieces, so that a long one keeps its thread from nothing else
// for long. Thread rule: one thread at a time.
class Tokenization {
 public:
  virtual ~Tokenization() = default;

  // Goes on for about a millisecond. Returns whether all ids are there; after a failure, or once
  // they are, it is not called again.
  virtual StatusOr<bool> Step() = 0;

  // The memory that it takes by now: the text, the ids, and what encoding needs.
  virtual size_t bytes() const = 0;

  // The ids, once they are there. Call last.
  virtual std::vector<TokenId> Take() = 0;
};

// Thread rule: every method from any thread.
class Backend {
 public:
  virtual ~Backend() = default;

  // Queues requests that are one to their client (OpenAI's lists of prompts, and n), all or none,
  // and returns their ids in order, in far under 1 ms each: kInvalidArgument (malformed), kNotFound
  // (no such model), kResourceExhausted (queue full), kUnavailable (stopping). They are admitted,
  // or rejected later, by one decision, in which what they take themselves does not count as a
  // wait. After success each sink gets exactly one end. On failure sinks are dropped uncalled,
  // except that some may get the end of a cancelled request; of one request alone none does.
  virtual StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) = 0;

  // Likewise, for one request.
  StatusOr<RequestId> Submit(Request request, std::shared_ptr<OutputSink> sink) {
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

  // Asks that the request end as kCancelled; without effect after its end.
  virtual void Cancel(RequestId id) = 0;

  virtual std::vector<ModelInfo> Models() const = 0;

  // Whether a request for this model is accepted though Models() does not list it yet: a gateway
  // learns some names from its backends.
  virtual bool MayServe(const std::string& /*model*/) const { return false; }

  virtual Health GetHealth() const = 0;

  // The backend's metrics in the Prometheus text format.
  virtual std::string MetricsText() const = 0;

  // When to retry what was rejected for what the tenant has under way, if its status does not say
  // it (Status::retry_after_seconds): seconds until the first of its requests is predicted to end;
  // at least 1.
  virtual int RetryAfterSeconds(const std::string& tenant) const = 0;

  // All requests accepted and not ended, in order of their ids.
  virtual std::vector<RequestInfo> Requests() const = 0;

  // The tenant's requests, and the waits of a new one of its weight; without a tenant, all
  // requests, and the waits of the tenant that would wait longest.
  virtual QueueInfo Queue(const std::string* tenant, double weight) const = 0;

  virtual EngineStats Stats() const = 0;

  // Of a gateway: how each of the backends behind it does.
  virtual std::vector<BackendStatus> Backends() const { return {}; }

  // Begins to encode a text. Not for I/O threads, as the next two: they may take milliseconds per
  // megabyte. The backend must outlive what it returns.
  virtual StatusOr<std::unique_ptr<Tokenization>> Tokenize(std::string text,
                                                           bool add_special) const = 0;
  // Likewise the chat as a request's would be: rendered by the model's template, in the first
  // steps.
  virtual StatusOr<std::unique_ptr<Tokenization>> TokenizeChat(std::vector<ChatMessage> messages,
                                                               bool add_generation_prompt,
                                                               bool add_special) const = 0;
  virtual StatusOr<std::string> Detokenize(const std::vector<TokenId>& ids) const = 0;

  // Of the model whose tokens the three above tell.
  virtual StatusOr<TokenizerInfo> DescribeTokenizer() const = 0;

  // Rejects new requests from now on; waits until all ended, or cancels the rest at `deadline`.
  // kDeadlineExceeded if anything had to be cancelled.
  virtual Status Drain(std::chrono::nanoseconds deadline) = 0;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_BACKEND_H_
