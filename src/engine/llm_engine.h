// The Backend that computes in this process: prompt pool, engine thread and output thread around an
// EngineCore.
#ifndef ROPEWAY_ENGINE_LLM_ENGINE_H_
#define ROPEWAY_ENGINE_LLM_ENGINE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/shared_budget.h"
#include "core/block_name.h"
#include "engine/engine_core.h"
#include "engine/engine_loop.h"
#include "engine/engine_metrics.h"
#include "engine/grammar_pool.h"
#include "engine/live_request.h"
#include "engine/output_processor.h"
#include "engine/prompt_encoder.h"
#include "engine/prompt_pool.h"
#include "engine/trace_writer.h"
#include "engine/watchdog.h"
#include "executor/executor.h"
#include "kvcache/block_events.h"
#include "kvcache/event_publisher.h"
#include "kvcache/kv_tier.h"
#include "policy/scheduling_policy.h"
#include "ropeway/options.h"
#include "ropeway/session.h"
#include "service/front_desk.h"
#include "service/intake.h"
#include "store/session_store.h"
#include "store/state_writer.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

// The parts of an engine. `options` is valid (ValidateEngineOptions) and resolved: threads and
// cache.kv_bytes are set (threads is not used here); max_model_len may be 0 and is lowered to what
// the model and the KV pool hold.
struct LlmEngineConfig {
  EngineOptions options;
  std::string served_name;
  int32_t model_context_length = 0;
  int64_t created = 0;        // Unix seconds, for Models().
  SamplingDefaults sampling;  // The options' and the model's.
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  ChatRenderer render_chat;   // Empty: chats are rejected.
  std::string chat_template;  // What it renders.
  // How answers to chats are read; null: they are text.
  std::shared_ptr<const ModelAnswers> answers;
  std::unique_ptr<executor::Executor> executor;
  Pooling pooling = Pooling::kLast;  // Of embeddings, where a request leaves it to the model.
  int32_t embedding_size = 0;        // ModelInfo::embedding_size.
  bool embeds_only = false;          // An encoder (ModelConfig::causal): it generates nothing.
  std::string kernels_name;          // The executor's kernel table, for the metrics.
  // What KV blocks depend on beside their ids; scope and salt are each request's own.
  core::CacheRoot cache_root;
  std::string fingerprint;                // ModelInfo::fingerprint.
  std::string model_digest;               // ModelInfo::digest.
  std::string limits;                     // ModelInfo::limits without max_model_len.
  service::ModelDetails details;          // ModelInfo::details.
  std::unique_ptr<kvcache::KvTier> tier;  // For KV blocks that the pool evicts; null: none.
  std::shared_ptr<store::StateWriter> state_writer;  // Of sessions; null: as the options say.
  // What OpenFiles opens.
  std::unique_ptr<store::SessionStore> sessions;
  std::unique_ptr<TraceWriter> trace;                  // Null: none.
  std::unique_ptr<kvcache::EventPublisher> publisher;  // Of KV events; null: none.
  std::unique_ptr<kvcache::BlockEvents> block_events;  // What it publishes.
  // What the texts and ids of all requests under way may take together, shared between tenants
  // (base::SharedBudget); more are rejected with kResourceExhausted. One alone is accepted, however
  // large.
  int64_t max_request_bytes = int64_t{256} << 20;
  base::Duration watchdog_period = std::chrono::seconds(1);  // How often progress is checked.
  bool check_integrity = EngineCoreOptions().check_integrity;
  const base::Clock* clock = nullptr;  // Must outlive the engine.
  base::Random* random = nullptr;  // For absent seeds; must outlive the engine; one call at a time.
};

// Opens the sessions, the trace file and the address of events that the options name, unless they
// are open: before the model is loaded, a mistake in them costs no time. kInvalidArgument with the
// option at fault.
Status OpenFiles(LlmEngineConfig* config);

// See Backend. An absent max_tokens means what the prompt leaves of max_model_len, and so does a
// larger one; a prompt that leaves none can never fit and is rejected. completion_tokens
// counts the end token, as in vLLM.
class LlmEngine final : public service::FrontDesk {
 public:
  // Initialises the executor and starts the threads. kInvalidArgument with the option at fault.
  static StatusOr<std::unique_ptr<LlmEngine>> Create(LlmEngineConfig config);

  // Cancels what still runs; every sink has had its end when it returns.
  ~LlmEngine() override;

  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override;
  // kNotFound also for one whose sink is being told its end.
  Status Cancel(RequestId id) override;
  // Has the sinks of what waits, or has no output yet, told that it is alive.
  void Probe(ProbeFn done) override;
  bool CanResume() const override { return !config_.model_digest.empty(); }
  std::vector<service::ModelInfo> Models() const override;
  service::Health GetHealth() const override;
  std::string MetricsText() const override;
  int RetryAfterSeconds(const std::string& tenant) const override;
  std::vector<service::RequestInfo> Requests() const override;
  service::QueueInfo Queue(const std::string* tenant, double weight) const override;
  void SetWatched(bool watched) override { loop_.steps()->set_watched(watched); }
  service::Activity ActivityAfter(const service::ActivityCursor& cursor) const override;
  EngineStats Stats() const override;
  StatusOr<std::unique_ptr<service::Tokenization>> Tokenize(std::string text,
                                                            bool add_special) const override;
  StatusOr<std::unique_ptr<service::Tokenization>> TokenizeChat(Chat chat,
                                                                bool add_special) const override;
  StatusOr<std::string> Detokenize(const std::vector<TokenId>& ids) const override;
  StatusOr<service::TokenizerInfo> DescribeTokenizer() const override;
  Status Drain(std::chrono::nanoseconds deadline) override;
  // See Engine::Flush.
  void Flush();

  // See Engine.
  std::vector<SessionInfo> Sessions(const std::string& tenant) const;
  Status CloseSession(const std::string& id, const std::string& tenant);

  int32_t max_model_len() const { return max_model_len_; }
  const std::string& served_name() const { return config_.served_name; }
  const SamplingDefaults& sampling_defaults() const { return config_.sampling; }
  bool embeds_only() const { return config_.embeds_only; }

 private:
  LlmEngine(LlmEngineConfig config, std::unique_ptr<policy::SchedulingPolicy> policy,
            const EngineCoreOptions& core_options, const executor::KvLayout& layout);

  EngineStats StatsOf(const EngineLoop::Snapshot& loop) const;
  Status CheckModel(const std::string& model) const;
  // What EngineLoop says of its progress, with the oldest request.
  Status DescribeProgress(Status status) const;
  // The grammar of the request's format or of the calls that its chat asks for; null: any text. See
  // MakeLive.
  StatusOr<std::shared_ptr<const GrammarText>> GrammarOf(const Request& request,
                                                         const LiveRequest* before) const;
  // Of a chat that may call tools.
  StatusOr<std::shared_ptr<const GrammarText>> GrammarOfCalls(const Request& request,
                                                              const LiveRequest* before) const;
  // `before`: another one of the same call, whose grammar it shares if they ask for the same; or
  // null. Throws std::bad_alloc.
  StatusOr<std::shared_ptr<LiveRequest>> MakeLive(SinkRequest request, const LiveRequest* before);
  Status CheckAccepting() const;
  // Takes what the request needs to be queued: a place of its tenant's, and its bytes.
  Status Reserve(LiveRequest* live);
  // Gives the request its id and its seed, and hands it to the prompt pool; throws std::bad_alloc
  // with nothing kept. REQUIRES: mu_ is held.
  Status Enqueue(const std::shared_ptr<LiveRequest>& live);
  // Enqueues all requests or none. REQUIRES: mu_ is held.
  StatusOr<std::vector<RequestId>> EnqueueAll(const std::vector<std::shared_ptr<LiveRequest>>& all);
  void CancelLive(const std::shared_ptr<LiveRequest>& live);
  void CancelAll();

  LlmEngineConfig config_;  // Constant, except for the parts that the constructor moves out of it.
  const int32_t max_model_len_;
  mutable EngineMetrics metrics_;
  const std::unique_ptr<store::SessionStore> sessions_;  // Outlives all requests.
  const std::unique_ptr<TraceWriter> trace_;             // Null: none.
  const PromptEncoder encoder_;
  service::Intake intake_;
  base::SharedBudget places_;  // In the queue.

  std::mutex mu_;  // Held while requests are added: until then they may yet be rejected.
  LiveRequests requests_{"the engine"};

  // Destroyed from the last to the first: each hands on to the one before.
  OutputProcessor output_;
  EngineLoop loop_;
  GrammarPool grammars_;
  PromptPool prompt_pool_;
  Watchdog watchdog_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_LLM_ENGINE_H_
