// The engine thread: the one owner of the EngineCore, and so of all sequences, blocks and queues.
#ifndef ROPEWAY_ENGINE_ENGINE_LOOP_H_
#define ROPEWAY_ENGINE_ENGINE_LOOP_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "engine/engine_core.h"
#include "engine/engine_metrics.h"
#include "engine/live_request.h"
#include "engine/output_processor.h"
#include "engine/trace_writer.h"
#include "engine/work_window.h"
#include "policy/scheduling_policy.h"
#include "scheduler/queue_load.h"
#include "service/activity.h"
#include "service/front_desk.h"

namespace ropeway::engine {

// loop: drain the inbox (arrivals, aborts) -> core.Step() -> emit; asleep while idle.
//
// It moves the requests between waiting, running and preempted (LiveRequest). Once a step, before
// the step's events are handed on, it publishes what other threads may read: that takes the one
// lock of this class.
//
// Thread rule: every method from any thread, but Stop from one, which is not the engine thread.
class EngineLoop {
 public:
  // All pointers must outlive it; `trace` may be null. REQUIRES: options.Validate(layout) is OK.
  EngineLoop(const EngineCoreOptions& options, const executor::KvLayout& layout,
             std::unique_ptr<executor::Executor> executor,
             std::unique_ptr<policy::SchedulingPolicy> policy, const base::Clock* clock,
             EngineMetrics* metrics, OutputProcessor* output, const LiveRequests* requests,
             TraceWriter* trace);
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Both take effect within one step and never wait. The inbox's length is bounded by the number of
  // live requests: each arrives once, and is aborted from outside at most twice. The context of
  // `request` is its LiveRequest, in state kWaiting.
  void Add(core::CoreRequest request);
  void Abort(RequestId id, FinishReason reason);

  // Nothing more will come: a static or dynamic batch that fills begins.
  void Flush();

  // Ends all requests as cancelled, and the thread.
  void Stop();

  // The last steps, while they are watched.
  service::StepLog* steps() { return &step_log_; }
  const service::StepLog* steps() const { return &step_log_; }

  // As of the last step.
  struct Snapshot {
    CoreStats core;
    base::Duration busy{};    // The time of all steps that computed.
    WorkWindow::Rates rates;  // Their rates in the last seconds.
  };
  Snapshot snapshot() const;
  // The ids of the waiting requests, the next one first, as of a moment ago.
  std::vector<RequestId> queue_order() const;
  // OK while the engine computes; else why it cannot go on.
  Status device_status() const;
  // Not OK when there is work and no step made progress for kStallLimit: names the step that does
  // not end, with its age, or the request at the head of the queue and the rule that blocks it.
  Status CheckProgress() const;
  // The same for the thread that watches the engine. It also notes that this thread ran: time in
  // which not even it did, because the process was stopped or the machine slept, is no stall.
  Status Watch();
  // The load as of a moment ago, from which waits are predicted. Throws std::bad_alloc.
  scheduler::LoadView load() const;

  static constexpr base::Duration kStallLimit = std::chrono::seconds(30);
  // What counts of the time between two calls of Watch, at most.
  static constexpr base::Duration kLongestGap = std::chrono::seconds(10);

 private:
  struct AbortAsk {
    RequestId id;
    FinishReason reason;
  };
  using Message = std::variant<core::CoreRequest, AbortAsk>;

  void Run();
  void RunUntilClosed();
  // Puts what came from the inbox where HandleSome takes it.
  void Sort(std::list<Message> messages);
  bool has_messages() const { return !aborts_.empty() || !arrivals_.empty(); }
  // Handles as many messages as fit between two steps, at least one. Cancels come first, because
  // they make room. Tenants take turns with their arrivals: even a rejection takes time.
  void HandleSome();
  void AbortAll();
  void Push(Message message);
  // While idle: waits for the next messages, and works in the background meanwhile.
  std::list<Message> WaitForMessages();
  void Admit(core::CoreRequest arrival);
  void Step();
  // The newest step computed nothing, because a batch fills.
  bool Fills() const;
  // Whether the newest step made progress. A read from a tier that ends, or fails, is progress too.
  bool MadeProgress();
  void Emit(std::vector<CoreEvent> events);
  // Moves the event's request to its new state, and counts it.
  void Track(const CoreEvent& event, base::TimePoint now);
  void TraceStep(base::TimePoint end);
  void CountStep(base::Duration took);
  // Makes next_order_ and next_load_, now and then; whether it did.
  bool NoteQueue(base::TimePoint now);
  // Shows other threads what there is by now, and that the step under way, if there is one, ended.
  void Publish(base::TimePoint now);
  void Lose(const Status& status);
  bool in_step() const { return in_step_since_.load() != kNoStep; }
  // The engine thread alone writes device_status_, so it reads that without the lock.
  bool lost() const { return !device_status_.ok(); }
  // What a stall would count from: the last progress, or the begin of the first step after a pause.
  // REQUIRES: mu_ is held.
  base::TimePoint Since(base::TimePoint now) const;
  // REQUIRES: mu_ is held.
  Status ProgressAt(base::TimePoint now) const;

  static constexpr base::TimePoint kNoStep = base::TimePoint::max();

  const std::unique_ptr<executor::Executor> executor_;
  const base::Clock* const clock_;
  EngineMetrics* const metrics_;
  OutputProcessor* const output_;
  const LiveRequests* const requests_;
  TraceWriter* const trace_;
  service::StepLog step_log_;
  const std::unique_ptr<policy::SchedulingPolicy> policy_;
  EngineCore core_;  // The engine thread's once that runs.
  kvcache::KvTier* const tier_;
  const int max_num_seqs_;
  // Used by the engine thread alone, from here to next_load_.
  RequestId warned_id_ = 0;        // The blocked request that the log named last.
  uint64_t moved_ = 0;             // Blocks and ends of reads that a tier has brought so far.
  uint64_t generated_ = 0;         // Tokens that are counted.
  bool progressed_ = false;        // The newest step did.
  base::TimePoint step_begin_{};   // When the newest step began.
  base::TimePoint queue_noted_{};  // When next_order_ and next_load_ were made.
  std::vector<RequestId> next_order_;
  scheduler::LoadView next_load_;
  std::atomic<bool> flush_asked_{false};
  base::BoundedQueue<Message> inbox_;
  // Messages that were popped from the inbox and not handled yet. Used by the engine thread alone.
  std::list<Message> aborts_;
  base::TurnQueue<Message> arrivals_;

  std::atomic<base::TimePoint> in_step_since_{kNoStep};
  mutable std::mutex mu_;
  CoreStats stats_;                     // GUARDED_BY(mu_)
  base::Duration busy_time_{};          // GUARDED_BY(mu_)
  WorkWindow work_;                     // GUARDED_BY(mu_)
  std::vector<RequestId> queue_order_;  // GUARDED_BY(mu_)
  scheduler::LoadView load_;            // GUARDED_BY(mu_)
  Status device_status_;                // GUARDED_BY(mu_)
  bool busy_ = false;                   // There was work at the last look. GUARDED_BY(mu_)
  base::TimePoint last_progress_{};     // GUARDED_BY(mu_)
  // The part of the time since last_progress_ that Watch does not count as a stall. GUARDED_BY(mu_)
  base::Duration excused_{};
  base::TimePoint last_watch_{};  // The last call of Watch. GUARDED_BY(mu_)
  std::thread thread_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_ENGINE_LOOP_H_
