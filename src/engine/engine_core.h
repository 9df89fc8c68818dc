// The engine loop without threads: owns all sequences, blocks and queues, and runs one step at a time.
// LlmEngine calls it from the one engine thread; the simulation calls it in virtual time.
//
//   step = schedule -> executor.Launch -> Wait -> apply -> emit
//
// Thread rule: every method from one thread.
#ifndef ROPEWAY_ENGINE_ENGINE_CORE_H_
#define ROPEWAY_ENGINE_ENGINE_CORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "executor/executor.h"
#include "policy/scheduling_policy.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

// A request as the front end hands it over: encoded, checked, limits resolved.
struct CoreRequest {
  RequestId id = 0;
  std::vector<TokenId> prompt;   // At least 1 id.
  int32_t max_tokens = 1;        // Resolved; prompt.size() + max_tokens <= max_model_len.
  SampleSpec spec;               // Seed resolved; prompt_len is set by the core.
  bool ignore_eos = false;
  TimePoint arrival{};           // When Submit was called.
  std::string tenant;
};

// What happened to a request in a step, in order. After kFinished or kFailed the core knows the id no
// more and its blocks are back.
struct CoreEvent {
  enum class Kind { kStarted, kToken, kPreempted, kFinished, kFailed };
  Kind kind = Kind::kToken;
  RequestId id = 0;
  uint64_t step = 0;
  Sampled sampled;                              // kToken. An end token is reported too, before kFinished.
  FinishReason reason = FinishReason::kStop;    // kFinished.
  int32_t prompt_tokens = 0;                    // kFinished.
  int32_t completion_tokens = 0;                // kFinished: an end token is counted.
  int32_t preemptions = 0;                      // kFinished.
  uint64_t first_token_step = 0;                // kFinished.
  Status status;                                // kFailed.
};

struct EngineCoreOptions {
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  int32_t max_model_len = 0;                    // Already lowered to what the pool holds.
  std::function<bool(TokenId)> is_end;
};

// A snapshot for metrics and health; plain numbers.
struct CoreStats {
  int waiting = 0;        // Never ran yet.
  int running = 0;        // Prefilling or decoding.
  int preempted = 0;      // Ran, and wait for blocks.
  int free_blocks = 0;
  int held_blocks = 0;
  int cached_blocks = 0;
  int total_blocks = 0;
  uint64_t steps = 0;
  uint64_t preemptions = 0;
  int last_rows = 0;              // Tokens of the last step.
  int last_prefill_rows = 0;      // Of these, those of prefill chunks (more than a decode's one token).
};

class EngineCore {
 public:
  using EmitFn = std::function<void(std::vector<CoreEvent>)>;  // Called at most once per step.

  // `executor` (already initialised, with `layout`), `policy` and `clock` must outlive the core.
  EngineCore(const EngineCoreOptions& options, const KvLayout& layout, Executor* executor,
             SchedulingPolicy* policy, const Clock* clock, EmitFn emit);
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Queues a request. kInvalidArgument for one that can never fit; no event follows then.
  Status Add(CoreRequest request);

  // Ends a request, whatever its state: its blocks are back on return, and kFinished with `reason` is
  // emitted with the next step (or at once where there is nothing to run). Unknown ids are ignored.
  void Finish(RequestId id, FinishReason reason);

  // One step. Returns false where there was nothing to do: no sequence waits or runs.
  bool Step();

  bool idle() const;
  const CoreStats& stats() const;

  // Checks free + cached + held == all, reference counts against block tables, and every sequence's
  // state against its queue; the sentence says what is broken. O(blocks + sequences).
  Status CheckIntegrity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_ENGINE_CORE_H_
