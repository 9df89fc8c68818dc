#include "engine/engine_core.h"

#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "core/sequence.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/scheduler.h"

namespace ropeway {

class EngineCore::Impl {
 public:
  Impl(const EngineCoreOptions& options, const KvLayout& layout, Executor* executor,
       SchedulingPolicy* policy, const Clock* clock, EmitFn emit)
      : options_(options),
        executor_(executor),
        clock_(clock),
        emit_(std::move(emit)),
        kv_(layout.num_blocks),
        scheduler_({.max_num_seqs = options.max_num_seqs,
                    .max_num_batched_tokens = options.max_num_batched_tokens,
                    .max_prefill_chunk = options.max_prefill_chunk},
                   policy, &kv_, &mover_) {
    UpdateStats();
  }

  Status Add(CoreRequest request);
  void Finish(RequestId id, FinishReason reason);
  bool Step();
  bool idle() const { return sequences_.empty() && events_.empty(); }
  const CoreStats& stats() const { return stats_; }
  const Status& device_status() const { return device_status_; }
  const TransitionCounts& transitions() const { return mover_.counts(); }
  Status CheckIntegrity() const;

 private:
  Status CheckRequest(const CoreRequest& request) const;
  void AddScheduleEvents(const Schedule& schedule);
  void BuildBatch(const Schedule& schedule);
  Status CheckResult(const Schedule& schedule, const StepResult& result) const;
  void Apply(const Schedule& schedule, StepResult* result);
  void Accept(Sequence* sequence, Sampled sampled);
  // Ends the sequence and destroys it.
  void End(Sequence* sequence, SequenceEvent event, FinishReason reason);
  void LoseDevice(Status status);
  void EmitAll();
  void UpdateStats();
  CoreEvent& AddEvent(CoreEvent::Kind kind, RequestId id);

  const EngineCoreOptions options_;
  Executor* const executor_;
  const Clock* const clock_;
  const EmitFn emit_;
  KvCacheManager kv_;
  SequenceMover mover_;
  Scheduler scheduler_;
  Status device_status_;

  std::map<RequestId, std::unique_ptr<Sequence>> sequences_;
  uint64_t next_order_ = 0;
  uint64_t step_ = 0;
  uint64_t preemptions_ = 0;
  std::vector<CoreEvent> events_;       // Not emitted yet.
  Batch batch_;                         // Its items keep their vectors' memory from step to step.
  std::vector<BatchItem> spare_items_;  // Items beyond this step's number, for the same reason.
  CoreStats stats_;
};

Status EngineCore::Impl::CheckRequest(const CoreRequest& request) const {
  if (!device_status_.ok()) {
    return {StatusCode::kUnavailable, "the device is lost: " + device_status_.message()};
  }
  if (sequences_.contains(request.id)) {
    return InvalidArgument("request id " + std::to_string(request.id) + " is in use", "id");
  }
  if (request.prompt.empty()) return InvalidArgument("the prompt has no tokens", "prompt");
  if (request.max_tokens < 1) {
    return InvalidArgument(
        "max_tokens is " + std::to_string(request.max_tokens) + ", must be at least 1",
        "max_tokens");
  }
  const int64_t limit = options_.max_model_len;
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt + 1 > limit) {
    return InvalidArgument("the prompt has " + std::to_string(prompt) +
                               " tokens, which leaves none to generate of max_model_len " +
                               std::to_string(limit),
                           "prompt");
  }
  if (prompt + request.max_tokens > limit) {
    return InvalidArgument("the prompt's " + std::to_string(prompt) + " tokens and max_tokens " +
                               std::to_string(request.max_tokens) + " exceed max_model_len " +
                               std::to_string(limit),
                           "max_tokens");
  }
  return {};
}

Status EngineCore::Impl::Add(CoreRequest request) {
  if (Status status = CheckRequest(request); !status.ok()) return status;
  auto sequence = std::make_unique<Sequence>();
  sequence->id = request.id;
  sequence->prompt_len = static_cast<int32_t>(request.prompt.size());
  sequence->ids = std::move(request.prompt);
  sequence->max_tokens = request.max_tokens;
  sequence->ignore_eos = request.ignore_eos;
  sequence->spec = request.spec;
  sequence->spec.prompt_len = sequence->prompt_len;
  sequence->tenant = std::move(request.tenant);
  sequence->arrival = request.arrival;
  sequence->order = next_order_++;
  scheduler_.Add(sequence.get());
  sequences_.emplace(request.id, std::move(sequence));
  UpdateStats();
  return {};
}

void EngineCore::Impl::Finish(RequestId id, FinishReason reason) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  End(it->second.get(), SequenceEvent::kAbort, reason);
  UpdateStats();
  // With nobody left to run there may be no next step to emit it.
  if (sequences_.empty()) EmitAll();
}

bool EngineCore::Impl::Step() {
  if (idle()) return false;
  ++step_;
  const Schedule& schedule = scheduler_.Plan(clock_->Now());
  AddScheduleEvents(schedule);
  stats_.last_rows = schedule.num_tokens;
  stats_.last_prefill_rows = schedule.num_prefill_tokens;
  stats_.last_items = static_cast<int>(schedule.items.size());
  stats_.blocked_id = schedule.head != nullptr ? schedule.head->id : 0;
  stats_.blocked_by = schedule.head != nullptr ? BlockedByName(schedule.head_blocked_by) : "";
  if (!schedule.items.empty()) {
    BuildBatch(schedule);
    executor_->Launch(batch_);
    StatusOr<StepResult> result = executor_->Wait();
    Status status = result.ok() ? CheckResult(schedule, *result) : result.status();
    if (status.ok()) {
      Apply(schedule, &*result);
    } else {
      LoseDevice(std::move(status));
    }
  }
  UpdateStats();
  EmitAll();
  return true;
}

void EngineCore::Impl::AddScheduleEvents(const Schedule& schedule) {
  for (const Sequence* sequence : schedule.preempted) {
    ++preemptions_;
    AddEvent(CoreEvent::Kind::kPreempted, sequence->id);
  }
  for (const Sequence* sequence : schedule.started) {
    AddEvent(CoreEvent::Kind::kStarted, sequence->id);
  }
}

void EngineCore::Impl::BuildBatch(const Schedule& schedule) {
  batch_.step = step_;
  batch_.copies.assign(schedule.copies.begin(), schedule.copies.end());
  while (batch_.items.size() > schedule.items.size()) {
    spare_items_.push_back(std::move(batch_.items.back()));
    batch_.items.pop_back();
  }
  while (batch_.items.size() < schedule.items.size()) {
    if (spare_items_.empty()) spare_items_.emplace_back();
    batch_.items.push_back(std::move(spare_items_.back()));
    spare_items_.pop_back();
  }
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    const ScheduledItem& scheduled = schedule.items[i];
    const Sequence& sequence = *scheduled.sequence;
    BatchItem& item = batch_.items[i];
    const auto first = sequence.ids.begin() + scheduled.start;
    item.sequence = sequence.id;
    item.start = scheduled.start;
    item.tokens.assign(first, first + scheduled.num_tokens);
    item.blocks.assign(sequence.blocks.begin(), sequence.blocks.end());
    item.sample = scheduled.sample;
    item.spec = sequence.spec;
  }
}

// An executor that answers for other sequences than asked can no more be trusted than one that
// fails.
Status EngineCore::Impl::CheckResult(const Schedule& schedule, const StepResult& result) const {
  size_t n = 0;
  for (const ScheduledItem& item : schedule.items) {
    if (!item.sample) continue;
    if (n >= result.sampled.size() || result.sampled[n].sequence != item.sequence->id) {
      return {StatusCode::kInternal, "the executor sampled no token for sequence " +
                                         std::to_string(item.sequence->id) + " in step " +
                                         std::to_string(step_)};
    }
    ++n;
  }
  if (n == result.sampled.size()) return {};
  return {StatusCode::kInternal, "the executor sampled " + std::to_string(result.sampled.size()) +
                                     " tokens in step " + std::to_string(step_) + ", asked for " +
                                     std::to_string(n)};
}

void EngineCore::Impl::Apply(const Schedule& schedule, StepResult* result) {
  size_t n = 0;
  for (const ScheduledItem& item : schedule.items) {
    item.sequence->computed += item.num_tokens;
    if (item.sample) Accept(item.sequence, std::move(result->sampled[n++]));
  }
}

void EngineCore::Impl::Accept(Sequence* sequence, Sampled sampled) {
  const TokenId token = sampled.token;
  if (sequence->state == SequenceState::kPrefilling) {
    mover_.Move(sequence->id, &sequence->state, SequenceEvent::kCaughtUp);
  }
  if (sequence->first_token_step == 0) sequence->first_token_step = step_;
  sequence->ids.push_back(token);
  AddEvent(CoreEvent::Kind::kToken, sequence->id).sampled = std::move(sampled);
  if (!sequence->ignore_eos && options_.is_end && options_.is_end(token)) {
    End(sequence, SequenceEvent::kEnd, FinishReason::kStop);
  } else if (sequence->generated() >= sequence->max_tokens) {
    End(sequence, SequenceEvent::kEnd, FinishReason::kLength);
  }
}

void EngineCore::Impl::End(Sequence* sequence, SequenceEvent event, FinishReason reason) {
  scheduler_.Remove(sequence, event);
  const bool failed = event == SequenceEvent::kFail;
  CoreEvent& e =
      AddEvent(failed ? CoreEvent::Kind::kFailed : CoreEvent::Kind::kFinished, sequence->id);
  e.reason = reason;
  e.prompt_tokens = sequence->prompt_len;
  e.completion_tokens = sequence->generated();
  e.preemptions = sequence->preemptions;
  e.first_token_step = sequence->first_token_step;
  if (failed) e.status = device_status_;
  sequences_.erase(sequence->id);
}

void EngineCore::Impl::LoseDevice(Status status) {
  device_status_ = std::move(status);
  while (!sequences_.empty()) {
    End(sequences_.begin()->second.get(), SequenceEvent::kFail, FinishReason::kFailed);
  }
}

CoreEvent& EngineCore::Impl::AddEvent(CoreEvent::Kind kind, RequestId id) {
  CoreEvent& event = events_.emplace_back();
  event.kind = kind;
  event.id = id;
  event.step = step_;
  return event;
}

void EngineCore::Impl::EmitAll() {
  if (options_.check_integrity && sequences_.empty()) Check(CheckIntegrity());
  if (events_.empty()) return;
  std::vector<CoreEvent> events;
  events.reserve(events_.size());
  events.swap(events_);
  emit_(std::move(events));
}

void EngineCore::Impl::UpdateStats() {
  stats_.waiting = scheduler_.num_waiting();
  stats_.running = scheduler_.num_running();
  stats_.preempted = scheduler_.num_preempted();
  stats_.free_blocks = kv_.pool().num_free();
  stats_.held_blocks = kv_.pool().num_held();
  stats_.cached_blocks = kv_.pool().num_cached();
  stats_.total_blocks = kv_.pool().num_blocks();
  stats_.steps = step_;
  stats_.preemptions = preemptions_;
}

Status EngineCore::Impl::CheckIntegrity() const {
  std::vector<const std::vector<BlockId>*> tables;
  for (const auto& [id, sequence] : sequences_) tables.push_back(&sequence->blocks);
  if (Status status = kv_.CheckIntegrity(tables); !status.ok()) return status;
  if (Status status = scheduler_.CheckIntegrity(); !status.ok()) return status;
  const size_t listed = static_cast<size_t>(scheduler_.num_waiting() + scheduler_.num_running() +
                                            scheduler_.num_preempted());
  if (listed == sequences_.size()) return {};
  return {StatusCode::kInternal, "the core owns " + std::to_string(sequences_.size()) +
                                     " sequences, the scheduler lists " + std::to_string(listed)};
}

Status EngineCore::CheckOptions(const EngineCoreOptions& options, const KvLayout& layout) {
  if (options.max_num_seqs < 1) return InvalidArgument("must be at least 1", "max_num_seqs");
  if (options.max_num_batched_tokens < 1) {
    return InvalidArgument("must be at least 1", "max_num_batched_tokens");
  }
  if (options.max_prefill_chunk < 0) {
    return InvalidArgument("must not be negative", "max_prefill_chunk");
  }
  if (options.max_model_len < 2) return InvalidArgument("must be at least 2", "max_model_len");
  if (BlocksFor(options.max_model_len) > layout.num_blocks) {
    return InvalidArgument("max_model_len " + std::to_string(options.max_model_len) + " needs " +
                               std::to_string(BlocksFor(options.max_model_len)) +
                               " KV blocks, the pool holds " + std::to_string(layout.num_blocks),
                           "max_model_len");
  }
  return {};
}

EngineCore::EngineCore(const EngineCoreOptions& options, const KvLayout& layout, Executor* executor,
                       SchedulingPolicy* policy, const Clock* clock, EmitFn emit) {
  Check(CheckOptions(options, layout));
  impl_ = std::make_unique<Impl>(options, layout, executor, policy, clock, std::move(emit));
}

EngineCore::~EngineCore() = default;
Status EngineCore::Add(CoreRequest request) { return impl_->Add(std::move(request)); }
void EngineCore::Finish(RequestId id, FinishReason reason) { impl_->Finish(id, reason); }
bool EngineCore::Step() { return impl_->Step(); }
bool EngineCore::idle() const { return impl_->idle(); }
const CoreStats& EngineCore::stats() const { return impl_->stats(); }
const Status& EngineCore::device_status() const { return impl_->device_status(); }
const TransitionCounts& EngineCore::transitions() const { return impl_->transitions(); }
Status EngineCore::CheckIntegrity() const { return impl_->CheckIntegrity(); }

}  // namespace ropeway
