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
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/sequence.h"
#include "core/sequence_state.h"
#include "engine/batch_builder.h"
#include "engine/engine_options.h"
#include "engine/mask_filler.h"
#include "engine/tier_transfers.h"
#include "executor/executor.h"
#include "kvcache/kv_cache_manager.h"
#include "policy/scheduling_policy.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "scheduler/admission.h"
#include "scheduler/batch_size_control.h"
#include "scheduler/queue_load.h"
#include "scheduler/scheduler.h"
#include "scheduler/scheduler_output.h"

namespace ropeway::engine {

// What happened to a request in a step, in order. After kFinished or kFailed the core does not know
// the id any more, and its blocks are released.
struct CoreEvent {
  enum class Kind { kStarted, kPromptScored, kPooled, kToken, kPreempted, kFinished, kFailed };
  Kind kind = Kind::kToken;
  RequestId id = 0;
  std::shared_ptr<core::RequestContext> context;  // The CoreRequest's.
  uint64_t step = 0;
  // kPromptScored, if the request wants prompt log-probs: the next ids of its prompt. The first
  // event of a request begins with the id at position 0, whose log-prob is NaN.
  std::vector<core::Scored> scored;
  // kPooled: the sum of the hidden states that its embedding is made of, and how many they are.
  std::vector<float> pool_sum;
  int32_t pooled_positions = 0;
  core::Sampled sampled;  // kToken. An end token is reported too, before kFinished.
  FinishReason reason = FinishReason::kStop;  // kFinished.
  int32_t prompt_tokens = 0;                  // kFinished.
  int32_t completion_tokens = 0;              // kFinished: an end token is counted.
  int32_t cached_tokens = 0;  // kToken, kFinished: of the prompt, found when it began to compute.
  int32_t preemptions = 0;    // kFinished.
  uint64_t first_token_step = 0;                                                // kFinished.
  scheduler::PreemptReason preempt_reason = scheduler::PreemptReason::kMemory;  // kPreempted.
  core::StartedBatch batch;
  Status status;  // kFailed.
};

// A snapshot for metrics and health; plain numbers.
struct CoreStats {
  int waiting = 0;    // Have not started.
  int running = 0;    // Prefilling or decoding.
  int preempted = 0;  // Ran, and wait for blocks.
  int free_blocks = 0;
  int held_blocks = 0;
  int cached_blocks = 0;
  int total_blocks = 0;
  int fetching = 0;  // Running sequences that wait for a tier.
  uint64_t steps = 0;
  uint64_t preemptions = 0;
  int last_rows = 0;               // Tokens of the last step.
  int last_prefill_rows = 0;       // The rows of prefill chunks in last_rows.
  int last_prompt_tokens = 0;      // Prompt tokens in last_rows that were not computed before.
  int last_items = 0;              // Sequences in the last step.
  int last_fetches = 0;            // Reads from a tier that the last step began.
  base::Duration last_forward{};   // What the forward pass took of the last step's time ...
  base::Duration last_sampling{};  // ... and of this, what the search for tokens took.
  RequestId blocked_id = 0;        // The first of the queue that did not start; 0: none waits.
  const char* blocked_by = "";     // The rule that kept it waiting.
  scheduler::BlockedBy blocked_rule =
      scheduler::BlockedBy::kNothing;  // The same rule, as the scheduler knows it.
  // The last step computed nothing, for a batch fills: until then, unless something happens.
  base::TimePoint next_look = base::TimePoint::max();
  int last_padding_rows = 0;  // The padding in last_rows.
  int limit = 0;              // Sequences that may run at once by now (BatchSizeControl).
  // Since the start.
  uint64_t batches = 0;         // Begun: the number of the newest one.
  uint64_t batch_sizes = 0;     // Sum over them.
  uint64_t started = 0;         // Sequences that started in them.
  uint64_t ended_batches = 0;   // Every sequence that started in them has ended.
  base::Duration batch_time{};  // Sum over the ended ones, from start to end.
  uint64_t computed_steps = 0;  // Steps that computed something.
  uint64_t rows = 0;            // Rows of these steps, without padding.
  uint64_t items = 0;           // Sequences of these steps, summed.
  uint64_t generated_tokens = 0;
  uint64_t experts_read = 0;  // StepResult::experts_read, summed, as the two below.
  base::Duration device_busy{};
  uint64_t copied_bytes = 0;
  std::array<uint64_t, scheduler::kNumPreemptReasons> preemptions_by{};  // By PreemptReason.
  std::array<int, kNumPriorities> waiting_by{};  // By class, preempted ones too.
  std::array<int, kNumPriorities> running_by{};
  double speed = 0.0;             // Units of cost per second of steps; 0: not measured.
  double attention_weight = 0.0;  // What attending to a position costs, in tokens.
  // In tokens, since the start.
  uint64_t prompt_tokens = 0;         // Prompts of requests when they first began to compute.
  uint64_t cached_prompt_tokens = 0;  // Those of prompt_tokens that were in the pool or a tier.
  uint64_t recomputed_tokens = 0;     // Computed again after a preemption.
  uint64_t evicted_blocks = 0;
  uint64_t masks = 0;           // Filled for sequences with a constraint.
  uint64_t deferred_masks = 0;  // Put off to a later step, counted once for each step.
  base::Duration mask_time{};
  size_t constraint_bytes = 0;  // What the constraints' states of running sequences take, about.
  TierTransfers::Counts transfers;
};

class EngineCore {
 public:
  // Called at most once per step, with all its events in order. Must not call back into the core.
  using EmitFn = std::function<void(std::vector<CoreEvent>)>;

  // REQUIRES: options.Validate(layout) is OK; the process ends otherwise.
  // `executor` (already initialised, with `layout`), `policy` and `clock` must outlive the core.
  EngineCore(const EngineCoreOptions& options, const executor::KvLayout& layout,
             executor::Executor* executor, policy::SchedulingPolicy* policy,
             const base::Clock* clock, EmitFn emit);
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Queues a request. No event follows a failure: kInvalidArgument, with the field at fault, for a
  // request that can never fit or an id in use; kUnavailable once the device is lost;
  // kResourceExhausted where memory is short, or as scheduler::AdmissionControl decides.
  Status Add(core::CoreRequest request);

  // Requests that are to start before this one, which waits; 0 too if it does not wait.
  int32_t QueuePosition(RequestId id) const;
  // All waiting requests, the next one first. Throws std::bad_alloc.
  std::vector<RequestId> QueueOrder() const { return scheduler_.QueueOrder(); }
  // The load, from which waits are predicted. Throws std::bad_alloc.
  void View(scheduler::LoadView* view) const { admission_.View(view); }

  // Nothing more will come: a static or dynamic batch that fills begins with the next step.
  void Flush() { scheduler_.set_flush(true); }

  // Ends a request in whatever state: its blocks are released on return, and kFinished with
  // `reason` is emitted with the next step, or before this returns if the core is idle then.
  // Unknown ids are ignored. REQUIRES: reason is not kFailed. Never throws.
  void Abort(RequestId id, FinishReason reason);
  // Ends all requests as Abort ends one.
  void AbortAll(FinishReason reason);

  // Runs one step. Returns false if there was nothing to do: no sequence waits or runs. First,
  // sequences past their deadline end as kFailed with kDeadlineExceeded, whatever their state.
  //
  // If the executor fails, the device is lost: every sequence, also the waiting ones, ends as
  // kFailed with that status, and Add fails from then on.
  //
  // A step computes nothing (last_rows == 0) while all running sequences wait for a tier
  // (fetching > 0, or last_fetches > 0), or while a batch fills.
  //
  // Memory that is short for one sequence fails that one (kResourceExhausted). If it is short for
  // the step as a whole, the step changes nothing (last_rows == 0, blocked_by "memory") and is to
  // be tried again; the newest sequence fails after kMaxMemoryTries such steps. Any other step with
  // last_rows == 0 although sequences are there is a bug; stats() names what blocks which request.
  //
  // Never throws.
  bool Step();
  static constexpr int kMaxMemoryTries = 10;

  // No sequence waits or runs, and all events are emitted.
  bool idle() const { return sequences_.empty() && events_.empty(); }

  // Does a small part of the work beside the steps, also while idle: KV blocks for a tier, and KV
  // events of what the tier dropped. Returns whether more could be done at once. Each Step does as
  // much.
  bool Background();
  // Background has something to do, now or later. The blocks of a lost device are not to be
  // trusted, least of all after a restart.
  bool has_background() const {
    return device_status_.ok() && (transfers_.anything_to_store() || kv_.events_unsettled());
  }
  // Tells by KV events that its blocks are gone: it will not be used any more.
  void ClearBlockEvents() { kv_.ClearEvents(); }
  const CoreStats& stats() const { return stats_; }

  // Whether last_step() is filled in, from the next step on.
  void NoteSteps(bool notes) { notes_steps_ = notes; }
  // What the newest step consisted of, also while its events are emitted. Empty unless steps are
  // noted, or if memory was short for it.
  const core::StepContent& last_step() const { return last_step_; }

  // OK, or why the device was lost.
  const Status& device_status() const { return device_status_; }

  // How often each move of the transition table was made.
  const core::TransitionCounts& transitions() const { return mover_.counts(); }

  // Checks free + cached + held == all, reference counts against block tables, and every sequence's
  // state against its queue; the sentence says what is broken. O(blocks + sequences).
  Status CheckIntegrity() const;

 private:
  using Sequences = std::map<RequestId, std::unique_ptr<core::Sequence>>;

  Status CheckRequest(const core::CoreRequest& request) const;
  void Insert(std::unique_ptr<core::Sequence> added);
  // Makes room for the events of a step of `sequences` sequences.
  void ReserveEvents(size_t sequences);
  void FailOverdue(base::TimePoint now);
  void AddScheduleEvents(const scheduler::SchedulerOutput& schedule, base::TimePoint now);
  // A sequence of this batch ended.
  void LeaveBatch(uint64_t number);
  // Begins to move what the schedule says, before the step writes anything.
  void MoveBlocks(const scheduler::SchedulerOutput& schedule);
  void NoteSchedule(const scheduler::SchedulerOutput& schedule);
  void BuildBatch(const scheduler::SchedulerOutput& schedule);
  // Before the step changes any sequence's state.
  void NoteContent(const scheduler::SchedulerOutput& schedule, uint64_t fetched_blocks);
  void Compute();
  void CountRows();
  void CountTokens(const scheduler::ScheduledItem& planned);
  StatusOr<core::StepResult> Execute();
  void OnShortOfMemory();
  void Apply(core::StepResult* result);
  // What the sequence's constraint says in place of a token: that it sits the step out, or ends.
  void HoldBack(core::Sequence* sequence);
  void Accept(core::Sequence* sequence, core::Sampled sampled);
  bool EndsAt(const core::Sequence& sequence, TokenId token) const;
  // Ends the sequence and destroys it; `status` says why it failed.
  void End(core::Sequence* sequence, core::SequenceEvent event, FinishReason reason,
           Status status = {});
  void Fail(core::Sequence* sequence, Status status) {
    End(sequence, core::SequenceEvent::kFail, FinishReason::kFailed, std::move(status));
  }
  void LoseDevice(Status status);
  void EmitAll();
  void UpdateStats();
  CoreEvent& AddEvent(CoreEvent::Kind kind, const core::Sequence& sequence);

  const EngineCoreOptions options_;
  executor::Executor* const executor_;
  const base::Clock* const clock_;
  const EmitFn emit_;
  const core::BlockId scratch_;  // Padding reads it.
  kvcache::KvCacheManager kv_;
  core::SequenceMover mover_;
  scheduler::Scheduler scheduler_;
  scheduler::AdmissionControl admission_;
  const std::unique_ptr<scheduler::BatchSizeControl> control_;
  TierTransfers transfers_;
  BatchBuilder builder_;
  MaskFiller masks_;
  Status device_status_;

  Sequences sequences_;
  std::set<std::pair<base::TimePoint, RequestId>> deadlines_;  // Requests that have a deadline.
  uint64_t next_number_ = 0;
  uint64_t step_ = 0;
  base::Duration last_took_{};  // By the newest step that computed.
  int memory_tries_ = 0;        // Steps in a row for which memory was short.
  // Not emitted yet. Its memory is taken ahead, for one end of each sequence and in a step for all
  // of that step's, so that no event is lost for want of memory.
  std::vector<CoreEvent> events_;
  // Batches with a sequence that has not ended, by number. Their memory is taken ahead too.
  struct OpenBatch {
    uint64_t number = 0;
    base::TimePoint began{};
    int sequences = 0;
  };
  std::vector<OpenBatch> batches_;
  CoreStats stats_;
  bool notes_steps_ = false;
  core::StepContent last_step_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_ENGINE_CORE_H_
