// What a server needs beside requests of an engine or a gateway: models, health, queue, tokens.
#ifndef ROPEWAY_SERVICE_FRONT_DESK_H_
#define ROPEWAY_SERVICE_FRONT_DESK_H_

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
#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/stats.h"
#include "ropeway/status.h"
#include "service/activity.h"

namespace ropeway::service {

// What a model is, for people and their programs. What is not known is 0 or "".
struct ModelDetails {
  std::string architecture = {};  // "llama".
  std::string quantization = {};  // The type of most of its weights: "Q4_1".
  uint64_t parameters = 0;
  uint64_t bytes = 0;       // Of its files.
  int32_t hidden_size = 0;  // Numbers of an embedding.
  int32_t layers = 0;
  bool calls_tools = false;  // Its answers' calls of tools are found.
  bool thinks = false;       // Its answers' thoughts are found.
  bool on_gpu = false;       // A GPU computes it, and has its weights.
};

struct ModelInfo {
  std::string id;                // The served name.
  int32_t max_model_len = 0;     // 0: not known.
  int64_t created = 0;           // Unix seconds.
  SamplingParams sampling = {};  // For requests that give none.
  std::string fingerprint = {};  // OpenAI's system_fingerprint; "": none.
  // Backends give the same bits for the same request if all three are equal and the digest is
  // known. Then one can go on where another left off (Request::resume_ids).
  std::string digest = {};     // The digest of the model's files; "": not known.
  std::string numerics = {};   // The version of the order of sums (docs/numerics.md).
  std::string limits = {};     // What else decides: max_model_len, the KV type, the chat template.
  int32_t vocabulary = 0;      // Ids of tokens are below it; 0: not known.
  int32_t embedding_size = 0;  // Numbers of an embedding (Request::embedding); 0: not known.
  bool chats = true;           // False: it has no chat template, and chats are rejected.
  bool embeds_only = false;    // It makes embeddings; all else is rejected.
  std::vector<std::string> aliases = {};  // What requests may call it besides.
  ModelDetails details = {};
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

// Where a request under way is; see ActiveRequest.
enum class RequestState : uint8_t { kEncoding, kWaiting, kRunning, kPreempted, kEnded };

// One request under way, for the operators of a server.
struct RequestInfo {
  RequestId id = 0;
  std::string tenant;
  using State = RequestState;
  State state = State::kEncoding;
  bool started() const { return state == State::kRunning || state == State::kPreempted; }
  bool waits() const { return state == State::kWaiting || state == State::kPreempted; }
  double age_seconds = 0.0;  // Since Submit.
  Priority priority = Priority::kMedium;
  // Requests that start before it, as of a moment ago; negative: it runs, or is not in the queue
  // yet.
  int32_t queue_position = -1;
  int32_t prompt_tokens = 0;  // 0: not known.
  int replica = -1;           // Of a gateway: which of its model's backends computes it; -1: none.
  std::string backend = {};   // The name of that.
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

  // The text that is encoded; of a chat, what it is rendered to. Null: it is not there yet.
  virtual const std::string* text() const { return nullptr; }

  // The memory that it takes by now: the text, the ids, and what encoding needs.
  virtual size_t bytes() const = 0;

  // The ids, once they are there. Call last.
  virtual std::vector<TokenId> Take() = 0;
};

// A Backend with what a server shows of it. Thread rule: every method from any thread.
class FrontDesk : public Backend {
 public:
  // How it is, told from what the methods below say.
  void Probe(ProbeFn done) override;
  // Where the digest of the model's files is known.
  bool CanResume() const override;

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

  // Whether it is watched: until then no steps are kept. One thread at a time.
  virtual void SetWatched(bool /*watched*/) {}
  // What there was behind `cursor`.
  virtual Activity ActivityAfter(const ActivityCursor& cursor) const = 0;

  // For gateways: the state of each backend.
  virtual std::vector<BackendStatus> Backends() const { return {}; }

  // The tokenizer. Do not call these three from I/O threads: they may take milliseconds per
  // megabyte. The backend must outlive what they return.

  // Begins to encode a text.
  virtual StatusOr<std::unique_ptr<Tokenization>> Tokenize(std::string text,
                                                           bool add_special) const = 0;
  // Begins to encode a chat as a request's is encoded: the first steps render it with the model's
  // template.
  virtual StatusOr<std::unique_ptr<Tokenization>> TokenizeChat(Chat chat,
                                                               bool add_special) const = 0;
  virtual StatusOr<std::string> Detokenize(const std::vector<TokenId>& ids) const = 0;

  // Describes the tokenizer that the three above use.
  virtual StatusOr<TokenizerInfo> DescribeTokenizer() const = 0;

  // Rejects new requests from now on; waits until all ended, or cancels the rest at `deadline`.
  // kDeadlineExceeded if anything had to be cancelled.
  virtual Status Drain(std::chrono::nanoseconds deadline) = 0;
};

// What `view` returns; where memory is short, `otherwise`.
template <typename T, typename View>
T OrIfShort(T otherwise, const View& view) {
  try {
    return view();
  } catch (const std::bad_alloc&) {
    return otherwise;
  }
}

inline bool FrontDesk::CanResume() const {
  const std::vector<ModelInfo> models = Models();
  return !models.empty() && !models.front().digest.empty();
}

inline void FrontDesk::Probe(ProbeFn done) {
  BackendFacts facts;
  const Health health = GetHealth();
  facts.ready = health.live && health.ready;
  facts.reason = health.reason;
  const EngineStats stats = Stats();
  if (stats.max_batch_size > 0) facts.places = stats.max_batch_size;
  facts.running = stats.running;
  facts.waiting = stats.queue_depth;
  facts.preempts = true;
  facts.shares_tenants = true;
  const int blocks = stats.kv_blocks_free + stats.kv_blocks_held + stats.kv_blocks_cached;
  if (blocks > 0) {
    facts.free_memory = 1.0 - static_cast<double>(stats.kv_blocks_held) / blocks;
  }
  for (const ModelInfo& model : Models()) {
    facts.models.push_back(model.id);
    facts.model_digest = model.digest;
    facts.numerics = model.numerics;
    facts.limits = model.limits;
    facts.embeds_only = model.embeds_only;
  }
  done(std::move(facts));
}

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_FRONT_DESK_H_
