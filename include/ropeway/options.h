// How an engine and a gateway are set up: plain values in one struct per part.
#ifndef ROPEWAY_OPTIONS_H_
#define ROPEWAY_OPTIONS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ropeway/request.h"

namespace ropeway {

class Backend;  // backend.h

// Sampling parameters for requests that do not say; those that are absent are SamplingParams' own.
struct SamplingDefaults {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;

  // These defaults; where one is absent, the one of `other`.
  SamplingDefaults Or(const SamplingDefaults& other) const;

  // Sets those that are there.
  void ApplyTo(SamplingParams* params) const;

  // What a request gets that says nothing.
  SamplingParams Params() const {
    SamplingParams params;
    ApplyTo(&params);
    return params;
  }
};

struct ModelOptions {
  // A GGUF file (of a split one the first part), a folder in Hugging Face's format, or a folder
  // with one GGUF model.
  std::string path;
  std::string served_name;           // "": the file's name without ".gguf".
  std::vector<std::string> aliases;  // What requests may call it besides.
  bool any_name = false;             // Requests may call it anything.
  // "q8_0" or "q4_0": weights in F32, F16 and BF16 are quantised when they are loaded; "": as the
  // file has them.
  std::string quantize;
  // Prompt plus output tokens of one request; 0: the model's context length, of encoders its
  // max_seq_length. Lowered at start to what the KV pool holds.
  int max_model_len = 0;
  std::string chat_template;  // Jinja text to use instead of the model file's; "": the file's.
  // How answers to chats say that a tool is to be called: "auto" (as the chat template's models
  // do), "none" (calls stay text), or the name of a form, such as "hermes" (docs/tools.md).
  std::string tool_parser = "auto";
  // "auto": what a model thinks before it answers is apart from the answer's text
  // (Delta::reasoning). "none": it stays in the text.
  std::string reasoning_format = "auto";
  // Go before those that come with the model (generation_config.json, general.sampling in GGUF).
  SamplingDefaults sampling;
  // Recognise control tokens, such as "<|im_end|>", also in what a chat's messages say. The
  // writer of a message can then end it and speak in another role.
  bool parse_special = false;
  // Read the model's files once more at the start for their digest, by which a gateway knows that
  // another server has the same model. (A disk tier needs it, too.)
  bool digest = false;
};

// The order in which requests run, and how long and how many of them may wait: at an engine and at
// a gateway alike (docs/scheduling.md).
struct QueueOptions {
  // The order of requests: "fcfs", "sjf", "length-balance", "cache-aware", "priority", "fair", or
  // two or three of them joined by '+': the first decides, and the next breaks its ties.
  std::string policy = "priority+fair";
  // "priority": the classes' guaranteed parts of the work, in percent; together 100.
  std::array<int, 3> class_shares = {70, 20, 10};
  bool strict_priority = false;  // No shares: a higher class always goes first.
  // A request that would wait longer is rejected; one that has waited so long goes first. Above 0.
  std::chrono::milliseconds max_wait{30000};
  // Requests accepted and not yet running, and prompt tokens that wait, of one tenant while no
  // other's do; more are rejected. A tenant may have as many as all of them leave free of twice
  // that, so all together have less than twice as many, and none shuts out the others.
  int max_queued_requests = 1000;
  int64_t max_queued_tokens = 4'000'000;
  // Limits by class (high, medium, low) beyond which a request is counted as late in the metrics:
  // on the time to its first token, and on its latency from arrival to end.
  std::array<std::chrono::milliseconds, 3> ttft_limits = {std::chrono::milliseconds(100),
                                                          std::chrono::milliseconds(300),
                                                          std::chrono::milliseconds(500)};
  std::array<std::chrono::milliseconds, 3> latency_limits = {std::chrono::milliseconds(10'000),
                                                             std::chrono::milliseconds(30'000),
                                                             std::chrono::milliseconds(60'000)};
};

// How many sequences of an engine run at once, at most max_num_seqs.
struct BatchSizeOptions {
  // "fixed", "aimd" (by the time of a step, and of a request) or "memory" (by the free part of the
  // KV pool).
  std::string name = "fixed";
  // aimd: the initial number, from 8 to 64 (max_num_seqs if that is less); and the targets of the
  // p99 time of a step and of the p99 latency of a request (0: latencies are not watched).
  int start = 32;
  std::chrono::milliseconds step_target{100};
  std::chrono::milliseconds request_target{0};
};

// How the requests of an engine come together and share its steps (docs/scheduling.md).
struct SchedulingOptions {
  int max_num_seqs = 64;             // Sequences that run at once. At least 1.
  int max_num_batched_tokens = 512;  // Rows of one forward pass. At least 1.

  // "continuous" (requests join and leave at every step), "dynamic" (a batch begins with
  // max_batch_size requests or after batch_timeout, and ends as a whole), "static" (with
  // max_batch_size requests, after static_flush, or when nothing more will come), or "serial" (one
  // at a time).
  std::string strategy = "continuous";
  int max_batch_size = 16;  // Of a static or dynamic batch; at least 1, at most max_num_seqs.
  // static: rows of ended and shorter requests keep their slot and cost, as in classic batching.
  bool static_padding = true;
  std::chrono::milliseconds static_flush{5000};  // From the oldest waiting request on.
  // dynamic: from the oldest waiting request on. Negative: chosen from the arrivals, the batch
  // waiting no longer than target_latency leaves after its predicted time.
  std::chrono::milliseconds batch_timeout{50};
  std::chrono::milliseconds target_latency{2000};
  // dynamic, static and serial: a request of class high starts at once also while a batch runs, in
  // up to half of max_num_seqs. `ropeway serve` turns it on.
  bool urgent_joins = false;

  // A request that has generated so many tokens is not preempted for another one, unless memory is
  // short. Negative: no such limit where its KV is kept (CacheOptions::prefix_caching), 50 where it
  // is computed anew.
  int preempt_max_generated = -1;

  // Tokens of one prompt in one step; 0: max_num_batched_tokens alone.
  int max_prefill_chunk = 0;
  // A prompt with more tokens than this to compute is a long one: while others decode, all long
  // ones together get at most long_prefill_budget of a step, in units of cost, and no more than
  // twice what the others' decodes cost where that is above 16 (docs/scheduling.md).
  int long_prefill_threshold = 512;
  int long_prefill_budget = 64;
  BatchSizeOptions batch_control{};
};

// The KV cache: the pool in memory and the disk tier below it.
struct CacheOptions {
  int64_t kv_bytes = 0;  // Size of the pool; 0: a quarter of the free memory, at most 4 GiB.
  // How the pool keeps numbers: "f16", or "q8_0" (int8 with a scale per token and KV head: nearly
  // twice the tokens in the same memory). Changes results slightly (docs/numerics.md).
  std::string kv_dtype = "f16";
  // Keep the KV blocks of ended requests for later ones that begin with the same tokens, and share
  // them between running ones. Never changes a result.
  bool prefix_caching = true;
  // When the blocks of a preempted request go to the disk tier: "pressure" (when their memory is
  // needed) or "always" (at once). Without a disk tier they are dropped under pressure.
  std::string preempt_checkpoint = "pressure";
  std::string disk_path;                  // Directory of the disk tier; "": none.
  int64_t disk_bytes = int64_t{8} << 30;  // What it may take there, all overhead included.
  // Bytes per second written to it in the long run; 0: what costs 3 % of the cores.
  int64_t disk_write_rate = 0;
  // Where it publishes which blocks it has, for routers (docs/kv_cache.md): "tcp://HOST:PORT",
  // "ipc://PATH", or a port of 127.0.0.1; "": nowhere. Its readers see prompts.
  std::string events_address = {};
  std::string events_topic = {};  // Of those messages.
};

struct SessionOptions {
  std::string state_path;  // Directory of what must survive a restart; "": in memory.
  // A session unused for so long is closed; a stored response or conversation that has not changed
  // for so long is deleted.
  std::chrono::seconds ttl{std::chrono::hours(24)};
  int max_sessions = 10000;                // More are rejected.
  int64_t store_bytes = int64_t{1} << 30;  // What sessions may take, memory and disk each.
  int max_stored = 100000;                 // Responses and conversations; more are rejected.
  // Each write is synced to the device, so that it survives a loss of power too, not only the death
  // of the process.
  bool fsync = false;
};

struct EngineOptions {
  ModelOptions model;
  QueueOptions queue;
  SchedulingOptions scheduler;
  CacheOptions cache;
  SessionOptions sessions;

  // "cpu", "auto" (the first GPU that can give the same bits, else the CPU), "opencl:1" or "cuda",
  // without a number the first one: what computes. Never changes a result.
  std::string device = "cpu";
  int threads = 0;           // Compute threads; 0: physical cores. Never changes a result.
  int frontend_threads = 1;  // Threads that apply chat templates and encode.
  // Any request ends by then, also one that asks for a longer timeout; 0: no such limit.
  std::chrono::milliseconds request_timeout{0};
  // What the results that wait for Engine::PollFinished may take, in bytes: give it where that is
  // called. 0: none are kept for it, as suits callers that wait for handles or stream.
  int64_t max_finished_bytes = 0;
  std::string trace_file;  // Chrome/Perfetto JSON of steps and requests is written here; "": none.
};

// When a gateway sends its requests, and how many together.
struct GatewayBatching {
  // "continuous": a request is sent when a backend has a free place for it. "batch": requests go
  // out together, when max_batch_size of them wait or the oldest has waited for max_batch_wait.
  std::string dispatch = "continuous";
  bool enable_batching = true;  // false: strictly one request at a time, whatever `dispatch` is.
  int max_batch_size = 8;
  std::chrono::milliseconds max_batch_wait{50};
  int max_parallel_batches = 1;
};

// What a gateway does about backends that fail or hang.
struct FailoverOptions {
  // What waits while no backend can be reached fails after so long; 0: at once.
  std::chrono::milliseconds hold_timeout{0};
  // A backend that is silent for so long, before its first output for a request (the prompt is
  // computed then) or between two, is taken to hang; 0: never. The second one also bounds the first
  // where a stream is taken up, and at a backend that is out because its probes fail.
  std::chrono::milliseconds first_byte_timeout{300'000};
  std::chrono::milliseconds idle_timeout{60'000};
  int max_retries = 3;      // Of a request without output yet, on other backends.
  int max_resumptions = 3;  // Of one stream whose backend was lost.
};

// One backend: an engine's server, or an object that answers requests. Exactly one of `url` and
// `backend` is set.
struct BackendOptions {
  // Its name in errors, logs and metrics; no other backend of the gateway has it. "": the URL's
  // host and port, or the number of a backend that is an object, from 1.
  std::string name = {};

  // http or https, with the path that the server's API is under, such as /v1; without one it is
  // that.
  std::string url = {};
  // What speaks there: "openai" (any server of OpenAI's API), "llamacpp", "ollama" or "ropeway".
  std::string kind = "openai";
  // The model's name there. "": as the model is named here, or as a Ropeway (vLLM, SGLang) that has
  // one model alone calls it.
  std::string upstream_model = {};
  std::string api_key = {};  // Sent as a bearer token; "": none.
  bool insecure = false;     // https accepts any certificate.

  // A class of your own, or OpenLocalBackend's (engine.h). The gateway keeps it until no request of
  // its own is left there.
  std::shared_ptr<Backend> backend = nullptr;

  double weight = 1.0;      // Its part of the load, against other replicas': [0.01, 100].
  int max_concurrency = 0;  // Requests at once; 0: as it reports its places, or else as learned.
  // How few requests at once failures and growing latencies may leave it; 0: 1. At most
  // max_concurrency, or else GatewayOptions::max_learned_concurrency.
  int min_concurrency = 0;
};

// A model and the backends that serve it, its replicas; at most 64.
struct GatewayModel {
  // As requests name it. "": by the names that all of its backends report; of one model at most.
  std::string name = {};
  std::vector<std::string> aliases = {};
  std::vector<BackendOptions> backends = {};
};

struct GatewayOptions {
  std::vector<GatewayModel> models;  // At least one. The first serves requests that name none.

  GatewayBatching batching;
  // How many requests a backend may have at once, if it does not report its places: "aimd" (learned
  // from failures and latencies) or "memory" (by the free part of its KV memory, where it reports
  // that).
  std::string batch_control = "aimd";
  int max_learned_concurrency = 256;

  QueueOptions queue;  // As of an engine.
  // Tenants that requests may come from (Request::tenant). With 2 or more and a policy that is
  // fair, every backend of two or more places keeps one for a tenant that runs nothing there.
  int tenants = 1;

  SessionOptions sessions;  // Where Request::session_id finds them, and their bounds.

  // Any request ends by then, also one that asks for a longer timeout; 0: no such limit.
  std::chrono::milliseconds request_timeout{0};
  FailoverOptions failover;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds probe_interval{5'000};  // Between two looks at a backend's health.

  // Requests with a parameter that their model's backends do not know fail (kInvalidArgument);
  // otherwise it is left out.
  bool strict = false;
};

}  // namespace ropeway

#endif  // ROPEWAY_OPTIONS_H_
