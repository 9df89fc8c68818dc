// How an engine is set up: plain values, one per `ropeway serve` flag that concerns the engine.
#ifndef ROPEWAY_OPTIONS_H_
#define ROPEWAY_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace ropeway {

struct EngineOptions {
  std::string model_path;         // A GGUF file.
  std::string served_model_name;  // Absent (""): the file's name without ".gguf".

  int threads = 0;                   // Compute threads; 0: physical cores. Never changes a result.
  int max_num_seqs = 64;             // Sequences that run at once. At least 1.
  int max_num_batched_tokens = 512;  // Rows of one forward pass. At least 1.
  int64_t kv_cache_bytes = 0;        // KV pool; 0: a quarter of the free memory, at most 4 GiB.
  // How the KV pool keeps numbers: "f16", or "q8_0" (int8 with a scale per token and KV head:
  // nearly twice the tokens in the same memory). Changes results slightly (docs/numerics.md).
  std::string kv_cache_dtype = "f16";
  // Prompt plus output tokens of one request; 0: the model's context length. Lowered at start to
  // what the KV pool holds.
  int max_model_len = 0;
  int max_queued_requests = 1000;  // Accepted and not yet running; more are refused.
  int frontend_threads = 1;        // Threads that apply chat templates and encode.
  // Any request ends by then, also one that asks for a longer timeout; 0: no such limit.
  std::chrono::milliseconds request_timeout{0};
  std::string chat_template;  // Jinja text to use instead of the model file's; "": the file's.

  // Keep the KV blocks of ended requests for later ones that begin with the same tokens, and share
  // them between running ones. Never changes a result.
  bool prefix_caching = true;
  // When the blocks of a preempted request go to the disk tier: "pressure" (when their memory is
  // needed) or "always" (at once). Without a disk tier they are dropped under pressure.
  std::string preempt_checkpoint = "pressure";
  std::string kv_disk_path;                  // Directory of the disk tier; "": none.
  int64_t kv_disk_bytes = int64_t{8} << 30;  // What it may take there, all overhead included.
  // Bytes per second written to it in the long run; 0: what costs 3 % of the cores.
  int64_t kv_disk_write_rate = 0;

  std::string state_path;  // Directory of what must survive a restart (sessions); "": in memory.
  // A session unused for so long is closed.
  std::chrono::seconds session_ttl{std::chrono::hours(24)};
  int max_sessions = 10000;                        // More are refused.
  int64_t session_store_bytes = int64_t{1} << 30;  // What sessions may take, memory and disk each.

  std::string trace_file;  // Chrome/Perfetto JSON of steps and requests is written here; "": none.
};

}  // namespace ropeway

#endif  // ROPEWAY_OPTIONS_H_
