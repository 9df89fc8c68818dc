// The engine loop without threads: owns all sequences, blocks and queues, and runs one step at a
// time. LlmEngine calls it from the one engine thread; the simulation calls it in virtual time.
//
//   step = schedule -> executor.Launch -> Wait -> apply -> emit
//
// Thread rule: every method from one thread.
#ifndef ROPEWAY_ENGINE_ENGINE_CORE_H_
#define ROPEWAY_ENGINE_ENGINE_CORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "core/sequence_state.h"
#include "core/step_content.h"
#include "engine/core_request.h"
#include "engine/core_stats.h"
#include "engine/engine_options.h"
#include "executor/executor.h"
#include "policy/scheduling_policy.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

class EngineCore {
 public:
  // Called at most once per step, with all its events in order. Must not call back into the core.
  using EmitFn = std::function<void(std::vector<CoreEvent>)>;

  // REQUIRES: options.Validate(layout) is OK; ends the process otherwise.
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
