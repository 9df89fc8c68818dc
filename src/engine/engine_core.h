// The engine loop without threads: owns all sequences, blocks and queues, and runs one step at a
// time. LlmEngine calls it from the one engine thread; the simulation calls it in virtual time.
//
//   step = schedule -> executor.Launch -> Wait -> apply -> emit
//
// Thread rule: every method from one thread.
#ifndef ROPEWAY_ENGINE_ENGINE_CORE_H_
#define ROPEWAY_ENGINE_ENGINE_CORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/block_name.h"
#include "core/sequence.h"
#include "core/sequence_state.h"
#include "core/step_content.h"
#include "engine/tier_transfers.h"
#include "executor/executor.h"
#include "kvcache/eviction_queue.h"
#include "kvcache/kv_tier.h"
#include "policy/scheduling_policy.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "scheduler/scheduler.h"

namespace ropeway {

// A request as the front end hands it over: encoded, checked, limits resolved.
struct CoreRequest {
  RequestId id = 0;
  std::vector<TokenId> prompt;  // At least 1 id.
  int32_t max_tokens = 1;  // Resolved, at least 0; prompt.size() + max_tokens <= max_model_len.
  SampleSpec spec;         // Seed resolved; prompt_len is set by the core.
  bool ignore_eos = false;
  std::vector<TokenId> stop_ids;          // In any order.
  TimePoint arrival{};                    // When Submit was called.
  TimePoint deadline = TimePoint::max();  // Fails with kDeadlineExceeded then.
  std::string tenant;
  BlockName cache_root;  // Names whose KV blocks it may share (see CacheRoot).
  // Of the prompt's full blocks, as many of the first as are known already; the core names the
  // rest.
  std::vector<BlockName> block_names;
  Retention retention = Retention::kNormal;
  Priority priority = Priority::kMedium;
  double tenant_weight = 1.0;
};

// What happened to a request in a step, in order. After kFinished or kFailed the core knows the id
// no more and its blocks are back.
struct CoreEvent {
  enum class Kind { kStarted, kPromptScored, kToken, kPreempted, kFinished, kFailed };
  Kind kind = Kind::kToken;
  RequestId id = 0;
  uint64_t step = 0;
  // kPromptScored, where the request wants prompt log-probs: the next ids of its prompt. The first
  // event of a request begins with the id at position 0, whose log-prob is NaN.
  std::vector<Scored> scored;
  Sampled sampled;  // kToken. An end token is reported too, before kFinished.
  FinishReason reason = FinishReason::kStop;  // kFinished.
  int32_t prompt_tokens = 0;                  // kFinished.
  int32_t completion_tokens = 0;              // kFinished: an end token is counted.
  int32_t cached_tokens = 0;  // kToken, kFinished: of the prompt, found when it began to compute.
  int32_t preemptions = 0;    // kFinished.
  uint64_t first_token_step = 0;                          // kFinished.
  PreemptReason preempt_reason = PreemptReason::kMemory;  // kPreempted.
  // kStarted, kFinished, kFailed: see Finish; and of its time in the queue, what it waited for
  // others to fill a batch.
  uint64_t batch = 0;
  int32_t batch_size = 0;
  Duration formation{};
  Status status;  // kFailed.
};

struct EngineCoreOptions {
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  int32_t max_model_len = 0;                      // Already lowered to what the pool holds.
  std::function<bool(TokenId)> is_end = nullptr;  // Empty: no token ends a sequence.
  // Of SchedulerOptions; see there.
  int max_prefill_chunk = 0;
  int mixed_prefill_budget = 0;
  int long_prefill_threshold = 0;
  int long_prefill_budget = 64;
  int32_t preempt_max_generated = std::numeric_limits<int32_t>::max();
  Duration max_wait = Duration::max();  // Who would wait longer is refused.
  bool has_classes = false;
  ClassParts class_parts{};
  double attention_weight = 0.0;
  bool learn_cost = false;
  BatchFormerOptions batching{};
  bool padding = false;
  // Prompt tokens that wait, all together; more are refused, unless nobody waits.
  int64_t max_queued_tokens = std::numeric_limits<int64_t>::max();
  std::string batch_control = "fixed";  // See MakeBatchSizeControl.
  Duration step_target = std::chrono::milliseconds(100);
  // KV blocks are kept and shared under their names; else every preempted sequence is recomputed.
  bool prefix_caching = true;
  EvictionPolicy eviction = EvictionPolicy::kCost;
  bool checkpoint_always = false;  // See EngineOptions::preempt_checkpoint.
  KvTier* tier = nullptr;          // Null: none. Must outlive the core.
  bool note_steps = false;         // last_step() is filled in.
  // Check integrity after each step or Finish that leaves the core idle; what is broken ends the
  // process (base/check.h).
#ifdef NDEBUG
  bool check_integrity = false;
#else
  bool check_integrity = true;
#endif
};

// A snapshot for metrics and health; plain numbers.
struct CoreStats {
  int waiting = 0;    // Never ran yet.
  int running = 0;    // Prefilling or decoding.
  int preempted = 0;  // Ran, and wait for blocks.
  int free_blocks = 0;
  int held_blocks = 0;
  int cached_blocks = 0;
  int total_blocks = 0;
  int fetching = 0;  // Of those that run, the ones that wait for a tier.
  uint64_t steps = 0;
  uint64_t preemptions = 0;
  int last_rows = 0;            // Tokens of the last step.
  int last_prefill_rows = 0;    // Of these, those of prefill chunks.
  int last_items = 0;           // Sequences in the last step.
  int last_fetches = 0;         // Reads from a tier that the last step began.
  Duration last_forward{};      // What the forward pass took of the last step's time ...
  Duration last_sampling{};     // ... and of this, what the search for tokens took.
  RequestId blocked_id = 0;     // The first of the queue that did not start; 0: none waits.
  const char* blocked_by = "";  // The rule that kept it waiting.
  BlockedBy blocked_rule = BlockedBy::kNothing;  // Likewise, as the scheduler knows it.
  // The last step computed nothing, for a batch fills: until then, unless something happens.
  TimePoint next_look = TimePoint::max();
  int last_padding_rows = 0;  // Of last_rows, those that stood for nobody.
  int limit = 0;              // Sequences that may run at once by now (BatchSizeControl).
  uint64_t batch = 0;         // Number of the newest batch.
  std::array<uint64_t, kNumPreemptReasons> preemptions_by{};  // By PreemptReason.
  std::array<int, kNumPriorities> waiting_by{};               // By class, preempted ones too.
  std::array<int, kNumPriorities> running_by{};
  std::array<double, kNumPriorities> wait_seconds{};  // See EngineCore::WaitSeconds.
  int64_t queued_tokens = 0;
  double speed = 0.0;             // Units of cost per second of steps; 0: not measured.
  double attention_weight = 0.0;  // What attending to a position costs, in tokens.
  // Since the start, in tokens: of requests that began to compute for the first time,
  uint64_t prompt_tokens = 0;         // their prompts,
  uint64_t cached_prompt_tokens = 0;  // what of these was in the pool or came from a tier,
  uint64_t recomputed_tokens = 0;     // and what was computed again after a preemption.
  uint64_t evicted_blocks = 0;
  TierTransfers::Counts transfers;
};

class EngineCore {
 public:
  // Called at most once per step, with all its events in order. Must not call back into the core.
  using EmitFn = std::function<void(std::vector<CoreEvent>)>;

  // What the constructor requires: limits of at least 1, and max_model_len positions in the pool.
  static Status CheckOptions(const EngineCoreOptions& options, const KvLayout& layout);

  // REQUIRES: CheckOptions(options, layout) is OK; ends the process otherwise.
  // `executor` (already initialised, with `layout`), `policy` and `clock` must outlive the core.
  EngineCore(const EngineCoreOptions& options, const KvLayout& layout, Executor* executor,
             SchedulingPolicy* policy, const Clock* clock, EmitFn emit);
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Queues a request. No event follows a failure: kInvalidArgument, with the field at fault, for a
  // request that can never fit or an id in use; kUnavailable once the device is lost;
  // kResourceExhausted where memory is short, too many tokens wait, or it would wait longer than
  // max_wait.
  Status Add(CoreRequest request);

  // Requests that are to start before this one, which waits; 0 also where it does not.
  int32_t QueuePosition(RequestId id) const;
  // All that wait, the next one first. Throws std::bad_alloc.
  std::vector<RequestId> QueueOrder() const;
  // How long a request of the class would wait that came now, as foreseen; 0: not, or nothing is
  // measured yet.
  double WaitSeconds(Priority priority) const;

  // Nothing more will come: a static or dynamic batch that fills begins with the next step.
  void Flush();

  // Ends a request, whatever its state: its blocks are back on return, and kFinished with `reason`
  // is emitted with the next step, or before this returns if the core is idle then. Unknown ids are
  // ignored. REQUIRES: reason is not kFailed. Never throws.
  void Finish(RequestId id, FinishReason reason);

  // One step. Returns false where there was nothing to do: no sequence waits or runs. First, those
  // whose deadline is over end as kFailed with kDeadlineExceeded, whatever their state.
  // If the executor fails, the device is lost: every sequence, also the waiting ones, ends as
  // kFailed with that reason, and Add refuses from then on.
  // A step computes nothing (last_rows == 0) while all who run wait for a tier (fetching > 0, or
  // last_fetches > 0).
  // Memory that is short for one sequence fails that one (kResourceExhausted). Where it is short
  // for the step as a whole, the step changes nothing (last_rows == 0, blocked_by "memory") and is
  // to be tried again; the newest sequence fails after kMaxMemoryTries such steps. Else a step with
  // last_rows == 0 although sequences are there is a bug; stats() names who is blocked by what.
  // Never throws.
  bool Step();
  static constexpr int kMaxMemoryTries = 10;

  // No sequence waits or runs, and all events are emitted.
  bool idle() const;

  // What is to be done beside the steps, also while idle: KV blocks for a tier. Does a small part
  // of it, and says whether more could be done at once. Each Step does as much.
  bool Background();
  // Background has something to do, now or later.
  bool has_background() const;
  const CoreStats& stats() const;

  // What the newest step was made of, also while its events are emitted. Empty where
  // EngineCoreOptions::note_steps is not set, or memory was short for it.
  const StepContent& last_step() const;

  // OK, or why the device was lost.
  const Status& device_status() const;

  // How often each move of the transition table was made.
  const TransitionCounts& transitions() const;

  // Checks free + cached + held == all, reference counts against block tables, and every sequence's
  // state against its queue; the sentence says what is broken. O(blocks + sequences).
  Status CheckIntegrity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_ENGINE_CORE_H_
