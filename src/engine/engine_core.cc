#include "engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "core/request_check.h"
#include "engine/failure.h"

namespace ropeway::engine {
namespace {

// Blocks handed to a tier in one step, and in one call while nothing else is to be done.
constexpr int kStoresPerStep = 4;
constexpr int kStoresPerIdleCall = 16;

// Equal for the same text, which is how a rejected request is known when it comes again.
uint64_t ContentOf(const core::Sequence& sequence) {
  uint64_t content = 0;
  for (const TokenId id : sequence.ids()) content = base::Mix64(content, static_cast<uint64_t>(id));
  return content;
}

// Ends the process for options that are not valid.
const EngineCoreOptions& Checked(const EngineCoreOptions& options,
                                 const executor::KvLayout& layout) {
  base::Check(options.Validate(layout));
  return options;
}

}  // namespace

EngineCore::EngineCore(const EngineCoreOptions& options, const executor::KvLayout& layout,
                       executor::Executor* executor, policy::SchedulingPolicy* policy,
                       const base::Clock* clock, EmitFn emit)
    : options_(Checked(options, layout)),
      executor_(executor),
      clock_(clock),
      emit_(std::move(emit)),
      scratch_(layout.num_blocks - 1),
      kv_(options.CacheOf(layout)),
      scheduler_(options.scheduler, options.queue.max_wait, options.step, policy, &kv_, &mover_),
      admission_(options.queue.max_wait, options.queue.max_queued_tokens, &scheduler_),
      control_(scheduler::MakeBatchSizeControl(options.scheduler.batch_control,
                                               options.scheduler.max_num_seqs)),
      transfers_(options.cache.prefix_caching ? options.tier : nullptr, executor, &kv_, clock,
                 options.scheduler.max_num_seqs,
                 [this](core::Sequence* sequence) { scheduler_.FetchDone(sequence); }),
      builder_(std::min(options.scheduler.max_num_seqs, options.scheduler.max_num_batched_tokens),
               kv_.windows().groups()),
      masks_(clock, options.scheduler.max_num_seqs) {
  UpdateStats();
}

Status EngineCore::CheckRequest(const core::CoreRequest& request) const {
  if (!device_status_.ok()) {
    return {StatusCode::kUnavailable, "the device is lost: " + device_status_.message()};
  }
  if (sequences_.contains(request.id)) {
    return InvalidArgument("request id " + std::to_string(request.id) + " is in use", "id");
  }
  return core::CheckFits(request, options_.max_model_len);
}

Status EngineCore::Add(core::CoreRequest request) {
  const RequestId id = request.id;
  try {
    if (Status status = CheckRequest(request); !status.ok()) return status;
    if (!request.long_rope && request.rope_length() > options_.step.long_rope_above) {
      request.UseLongRope();
    }
    auto sequence = std::make_unique<core::Sequence>(std::move(request), next_number_);
    Status status = admission_.Admit(*sequence, ContentOf(*sequence), clock_->Now());
    if (!status.ok()) return status;
    try {
      Insert(std::move(sequence));
    } catch (const std::bad_alloc&) {
      admission_.LeaveQueue(id);
      throw;
    }
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
  UpdateStats();
  return {};
}

int32_t EngineCore::QueuePosition(RequestId id) const {
  const auto it = sequences_.find(id);
  if (it == sequences_.end() || it->second->running()) return 0;
  return scheduler_.PositionOf(*it->second);
}

void EngineCore::Insert(std::unique_ptr<core::Sequence> added) {
  const RequestId id = added->id();
  const base::TimePoint deadline = added->request.deadline;
  ReserveEvents(sequences_.size() + 1);
  if (batches_.capacity() <= sequences_.size()) batches_.reserve(2 * (sequences_.size() + 1));
  const auto it = sequences_.emplace(id, std::move(added)).first;
  try {
    if (deadline != base::TimePoint::max()) deadlines_.emplace(deadline, id);
    scheduler_.Add(it->second.get(), clock_->Now());
  } catch (...) {
    deadlines_.erase({deadline, id});
    sequences_.erase(it);
    throw;
  }
  ++next_number_;
}

void EngineCore::ReserveEvents(size_t sequences) {
  // Each that runs can be preempted twice or started, and be scored, get a token and end; each
  // other one can end.
  const size_t running = std::min(sequences, static_cast<size_t>(options_.scheduler.max_num_seqs));
  const size_t most = events_.size() + sequences + 6 * running;
  if (events_.capacity() < most) events_.reserve(2 * most);
}

void EngineCore::Abort(RequestId id, FinishReason reason) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  End(it->second.get(), core::SequenceEvent::kAbort, reason);
  UpdateStats();
  // If no sequence is left, there may be no next step to emit the event.
  if (sequences_.empty()) EmitAll();
}

void EngineCore::AbortAll(FinishReason reason) {
  while (!sequences_.empty()) {
    End(sequences_.begin()->second.get(), core::SequenceEvent::kAbort, reason);
  }
  UpdateStats();
  EmitAll();
}

bool EngineCore::Background() {
  if (!has_background()) return false;
  bool more = transfers_.StoreSome(kStoresPerIdleCall);
  more = transfers_.FinishStores() && more;
  kv_.SettleEvents();
  return more || kv_.events_scanning();
}

bool EngineCore::Step() {
  if (idle()) return false;
  ++step_;
  const base::TimePoint now = clock_->Now();
  stats_.last_rows = stats_.last_prefill_rows = stats_.last_items = stats_.last_fetches = 0;
  stats_.last_prompt_tokens = 0;
  stats_.last_forward = stats_.last_sampling = {};
  last_step_ = {};
  try {
    ReserveEvents(sequences_.size());
    const uint64_t fetched = transfers_.counts().fetched_blocks;
    transfers_.TakeReads(last_took_);
    scheduler_.set_limit(control_->limit());
    FailOverdue(now);
    const scheduler::SchedulerOutput& schedule = scheduler_.Schedule(now);
    // First, for its memory is reserved: what comes after may throw.
    AddScheduleEvents(schedule, now);
    MoveBlocks(schedule);
    NoteSchedule(schedule);
    BuildBatch(schedule);
    if (notes_steps_) {
      NoteContent(schedule, transfers_.counts().fetched_blocks - fetched);
    }
    if (builder_.batch().items.empty()) {
      memory_tries_ = 0;
    } else {
      Compute();
    }
  } catch (const std::bad_alloc&) {
    OnShortOfMemory();
  }
  if (device_status_.ok()) transfers_.FinishStores();
  UpdateStats();
  EmitAll();
  return true;
}

void EngineCore::MoveBlocks(const scheduler::SchedulerOutput& schedule) {
  for (const scheduler::SchedulerOutput::Preempted& gone : schedule.preempted) {
    transfers_.Cancel(gone.sequence);
    gone.sequence->constraint_run.reset();
  }
  transfers_.StoreEvicted();
  transfers_.StoreSome(kStoresPerStep);
  // None is of a block that is only begun to be stored: the schedule found all of them in the tier.
  for (const scheduler::SchedulerOutput::Fetch& fetch : schedule.fetches) {
    ++stats_.last_fetches;
    transfers_.Begin(fetch.sequence, fetch.blocks, fetch.tail);
  }
}

void EngineCore::FailOverdue(base::TimePoint now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Fail(sequences_.at(deadlines_.begin()->second).get(), RequestTimeout());
  }
}

void EngineCore::AddScheduleEvents(const scheduler::SchedulerOutput& schedule,
                                   base::TimePoint now) {
  for (const core::Sequence* sequence : schedule.started) {
    const core::StartedBatch& batch = sequence->sched.batch;
    if (batch.number != stats_.batches) {
      stats_.batches = batch.number;
      stats_.batch_sizes += static_cast<uint64_t>(batch.size);
      batches_.push_back({.number = batch.number, .began = now});
    }
    ++batches_.back().sequences;
    ++stats_.started;
    admission_.LeaveQueue(sequence->id());
    AddEvent(CoreEvent::Kind::kStarted, *sequence);
  }
  // What started in this step may have been preempted in it.
  for (const scheduler::SchedulerOutput::Preempted& gone : schedule.preempted) {
    ++stats_.preemptions;
    ++stats_.preemptions_by[static_cast<size_t>(gone.reason)];
    AddEvent(CoreEvent::Kind::kPreempted, *gone.sequence).preempt_reason = gone.reason;
  }
}

void EngineCore::LeaveBatch(uint64_t number) {
  const auto batch =
      std::lower_bound(batches_.begin(), batches_.end(), number,
                       [](const OpenBatch& open, uint64_t wanted) { return open.number < wanted; });
  if (batch == batches_.end() || batch->number != number || --batch->sequences > 0) return;
  ++stats_.ended_batches;
  stats_.batch_time += clock_->Now() - batch->began;
  batches_.erase(batch);
}

void EngineCore::NoteSchedule(const scheduler::SchedulerOutput& schedule) {
  stats_.blocked_id = schedule.head != nullptr ? schedule.head->id() : 0;
  stats_.blocked_by =
      schedule.head != nullptr ? scheduler::NamesOf(schedule.head_blocked_by).text : "";
  stats_.blocked_rule = schedule.head_blocked_by;
  stats_.next_look = schedule.next_look;
  // If no sequence computes, all wait for the one that waits for the tier.
  const core::Sequence* fetching = schedule.items.empty() ? transfers_.oldest() : nullptr;
  if (fetching != nullptr) {
    stats_.blocked_id = fetching->id();
    stats_.blocked_by = "a read from the disk tier";
  }
}

void EngineCore::BuildBatch(const scheduler::SchedulerOutput& schedule) {
  builder_.Begin(step_);
  for (const scheduler::ScheduledItem& item : schedule.items) {
    try {
      builder_.Add(item);
    } catch (const std::bad_alloc&) {
      Fail(item.sequence, OutOfMemory());
    }
  }
  builder_.AddPadding(schedule.padding, scratch_);
  stats_.last_padding_rows = schedule.num_padding_tokens;
}

void EngineCore::NoteContent(const scheduler::SchedulerOutput& schedule, uint64_t fetched_blocks) {
  try {
    last_step_.fetched_blocks = static_cast<int32_t>(fetched_blocks);
    for (const scheduler::SchedulerOutput::Preempted& gone : schedule.preempted) {
      last_step_.preempted.push_back(gone.sequence->id());
    }
    for (const auto& fetch : schedule.fetches) last_step_.fetching.push_back(fetch.sequence->id());
    builder_.NoteItems(&last_step_.items);
  } catch (const std::bad_alloc&) {
    last_step_ = {};
  }
}

void EngineCore::Compute() {
  const base::TimePoint begin = clock_->Now();
  StatusOr<core::StepResult> result = Execute();
  if (!result.ok() && result.status().code() == StatusCode::kResourceExhausted) {
    OnShortOfMemory();
    return;
  }
  memory_tries_ = 0;
  Status status = result.ok() ? builder_.CheckResult(*result) : result.status();
  if (!status.ok()) {
    LoseDevice(std::move(status));
    return;
  }
  masks_.AcceptSampled(&builder_, &*result);
  const base::Duration took = last_took_ = clock_->Now() - begin;
  transfers_.HandOver();  // Before Apply, which asks the tier what it has.
  scheduler_.OnStep(took, *result);
  control_->OnStep(took, static_cast<double>(kv_.pool().num_free() + kv_.pool().num_cached()) /
                             kv_.pool().num_blocks());
  stats_.experts_read += static_cast<uint64_t>(result->experts_read);
  stats_.device_busy += result->device_busy;
  stats_.copied_bytes += static_cast<uint64_t>(result->copied_bytes);
  stats_.last_forward = result->forward;
  stats_.last_sampling = result->sampling;
  CountRows();
  // A step that mostly decodes, or hardly fills, says little about what a prompt's tokens cost.
  if (stats_.last_prefill_rows >= options_.step.device.efficient_step &&
      2 * stats_.last_prefill_rows > stats_.last_rows) {
    kv_.read_cost().OnPrefill(stats_.last_rows, took);
  }
  Apply(&*result);
}

void EngineCore::CountRows() {
  stats_.last_rows = stats_.last_padding_rows;
  for (const BatchBuilder::Work& work : builder_.work()) {
    const bool decodes = work.planned.sequence->state == core::SequenceState::kDecoding;
    stats_.last_rows += work.planned.num_tokens;
    if (!decodes) stats_.last_prefill_rows += work.planned.num_tokens;
    ++stats_.last_items;
    CountTokens(work.planned);
  }
  ++stats_.computed_steps;
  stats_.rows += static_cast<uint64_t>(stats_.last_rows - stats_.last_padding_rows);
  stats_.items += static_cast<uint64_t>(stats_.last_items);
}

void EngineCore::CountTokens(const scheduler::ScheduledItem& planned) {
  core::Sequence& sequence = *planned.sequence;
  if (sequence.kv.cached_tokens < 0) {  // Nothing was computed for it before.
    sequence.kv.cached_tokens = std::min(planned.start, sequence.prompt_len);
    stats_.prompt_tokens += static_cast<uint64_t>(sequence.prompt_len);
    stats_.cached_prompt_tokens += static_cast<uint64_t>(sequence.kv.cached_tokens);
  }
  const int32_t end = planned.start + planned.num_tokens;
  stats_.last_prompt_tokens += std::max(
      0, std::min(sequence.prompt_len, end) - std::max(planned.start, sequence.kv.high_water));
  const int32_t again = std::min(sequence.kv.high_water, end);
  if (again > planned.start) {
    stats_.recomputed_tokens += static_cast<uint64_t>(again - planned.start);
  }
}

StatusOr<core::StepResult> EngineCore::Execute() {
  try {
    executor_->Launch(builder_.batch());
    masks_.Fill(&builder_);
    return executor_->Wait();
  } catch (const std::exception&) {
    return CurrentFailure("the executor");
  }
}

// The K/V of the step may be written or not: it is computed again, to the same bits.
void EngineCore::OnShortOfMemory() {
  stats_.blocked_id = sequences_.empty() ? 0 : sequences_.begin()->first;
  stats_.blocked_by = "memory";
  if (++memory_tries_ < kMaxMemoryTries || sequences_.empty()) return;
  memory_tries_ = 0;
  core::Sequence* newest = sequences_.begin()->second.get();
  for (const auto& [id, sequence] : sequences_) {
    const bool better = sequence->running() == newest->running() ? sequence->order > newest->order
                                                                 : sequence->running();
    if (better) newest = sequence.get();
  }
  Fail(newest, OutOfMemory());
}

void EngineCore::Apply(core::StepResult* result) {
  size_t sampled = 0;
  size_t scored = 0;
  size_t pooled = 0;
  for (size_t i = 0; i < builder_.work().size(); ++i) {
    BatchBuilder::Work& work = builder_.work()[i];
    core::Sequence* sequence = work.planned.sequence;
    sequence->computed += work.planned.num_tokens;
    // Its last row is computed again, for the next step's sampling.
    if (work.planned.sample && !MaskFiller::MaySample(*sequence)) --sequence->computed;
    kv_.OnComputed(sequence);
    builder_.TakeScored(i, result, &scored);
    if (!work.scored.empty()) {
      AddEvent(CoreEvent::Kind::kPromptScored, *sequence).scored = std::move(work.scored);
    }
    builder_.TakePooled(i, result, &pooled);
    if (work.planned.sample) {
      core::Sampled& token = result->sampled[sampled++];
      if (MaskFiller::MaySample(*sequence)) {
        Accept(sequence, std::move(token));
      } else {
        HoldBack(sequence);
      }
    } else if (sequence->request.max_tokens == 0 && sequence->computed == sequence->num_ids()) {
      if (sequence->spec.pooling) {
        CoreEvent& event = AddEvent(CoreEvent::Kind::kPooled, *sequence);
        event.pool_sum = std::move(sequence->pool_sum);
        event.pooled_positions =
            *sequence->spec.pooling == Pooling::kMean ? sequence->prompt_len : 1;
      }
      End(sequence, core::SequenceEvent::kEnd, FinishReason::kLength);
    }
  }
}

void EngineCore::HoldBack(core::Sequence* sequence) {
  core::ConstraintRun& run = *sequence->constraint_run;
  if (!run.status.ok()) {
    Fail(sequence, CopyStatus(run.status));
  } else if (run.exhausted) {
    End(sequence, core::SequenceEvent::kEnd, FinishReason::kStop);
  }
}

void EngineCore::Accept(core::Sequence* sequence, core::Sampled sampled) {
  if (sampled.invalid) {
    const char* const why =
        sequence->constraint == nullptr
            ? "the model produced no finite logit"
            : "the model produced no finite logit for a token that the request's format allows";
    Fail(sequence, MakeStatus(StatusCode::kInternal, why));
    return;
  }
  const TokenId token = sampled.token;
  if (sequence->state == core::SequenceState::kPrefilling) {
    mover_.Move(sequence->id(), &sequence->state, core::SequenceEvent::kCaughtUp);
  }
  if (sequence->first_token_step == 0) sequence->first_token_step = step_;
  sequence->Append(token);
  ++stats_.generated_tokens;
  CoreEvent& event = AddEvent(CoreEvent::Kind::kToken, *sequence);
  event.sampled = std::move(sampled);
  event.cached_tokens = std::max(0, sequence->kv.cached_tokens);
  const bool goes_on = MaskFiller::GoesOn(sequence);
  if (sequence->constraint_run != nullptr && !sequence->constraint_run->status.ok()) {
    Fail(sequence, CopyStatus(sequence->constraint_run->status));
  } else if (!goes_on || EndsAt(*sequence, token)) {
    End(sequence, core::SequenceEvent::kEnd, FinishReason::kStop);
  } else if (sequence->generated() >= sequence->request.max_tokens) {
    End(sequence, core::SequenceEvent::kEnd, FinishReason::kLength);
  }
}

// The sampler keeps out what would end a sequence before min_tokens; this holds whatever it does.
bool EngineCore::EndsAt(const core::Sequence& sequence, TokenId token) const {
  if (sequence.generated() <= sequence.spec.params.min_tokens) return false;
  if (!sequence.request.ignore_eos && options_.is_end && options_.is_end(token)) return true;
  return std::binary_search(sequence.request.stop_ids.begin(), sequence.request.stop_ids.end(),
                            token);
}

void EngineCore::End(core::Sequence* sequence, core::SequenceEvent event, FinishReason reason,
                     Status status) {
  transfers_.Cancel(sequence);
  // A stop string ends it as an end token does; the engine only learns of it later.
  const bool stopped = event == core::SequenceEvent::kAbort && reason == FinishReason::kStop;
  const bool completed = event == core::SequenceEvent::kEnd || stopped;
  scheduler_.Remove(sequence, event, completed);
  if (completed) control_->OnRequest(clock_->Now() - sequence->request.arrival);
  const bool failed = event == core::SequenceEvent::kFail;
  CoreEvent& e =
      AddEvent(failed ? CoreEvent::Kind::kFailed : CoreEvent::Kind::kFinished, *sequence);
  e.reason = reason;
  e.prompt_tokens = sequence->prompt_len;
  e.completion_tokens = sequence->generated();
  e.cached_tokens = std::max(0, sequence->kv.cached_tokens);
  e.preemptions = sequence->preemptions;
  e.first_token_step = sequence->first_token_step;
  e.status = std::move(status);
  LeaveBatch(sequence->sched.batch.number);
  admission_.LeaveQueue(sequence->id());  // Where it was still in it.
  deadlines_.erase({sequence->request.deadline, sequence->id()});
  sequences_.erase(sequence->id());
}

void EngineCore::LoseDevice(Status status) {
  device_status_ = std::move(status);
  transfers_.DropStores();
  while (!sequences_.empty()) {
    Fail(sequences_.begin()->second.get(), CopyStatus(device_status_));
  }
  kv_.ClearEvents();  // Last, for a sequence that ends may publish blocks.
}

CoreEvent& EngineCore::AddEvent(CoreEvent::Kind kind, const core::Sequence& sequence) {
  CoreEvent& event = events_.emplace_back();
  event.kind = kind;
  event.id = sequence.id();
  event.context = sequence.context;
  event.step = step_;
  event.batch = sequence.sched.batch;
  return event;
}

void EngineCore::EmitAll() {
  kv_.SettleEvents();
  std::vector<CoreEvent> events;
  try {
    if (options_.check_integrity && sequences_.empty()) base::Check(CheckIntegrity());
    events.reserve(events_.size());
  } catch (const std::bad_alloc&) {
    return;  // With the next step.
  }
  if (events_.empty()) return;
  events.assign(std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  emit_(std::move(events));
}

void EngineCore::UpdateStats() {
  stats_.running = static_cast<int>(scheduler_.running().size());
  stats_.preempted = stats_.fetching = 0;
  stats_.constraint_bytes = 0;
  stats_.free_blocks = kv_.pool().num_free();
  stats_.held_blocks = kv_.pool().num_held();
  stats_.cached_blocks = kv_.pool().num_cached();
  stats_.total_blocks = kv_.pool().num_blocks();
  stats_.waiting_by = {};
  stats_.running_by = {};
  for (const core::Sequence* sequence : scheduler_.queue()) {
    if (sequence->state == core::SequenceState::kPreempted) ++stats_.preempted;
    ++stats_.waiting_by[static_cast<size_t>(sequence->request.priority)];
  }
  stats_.waiting = static_cast<int>(scheduler_.queue().size()) - stats_.preempted;
  for (const core::Sequence* sequence : scheduler_.running()) {
    if (sequence->state == core::SequenceState::kFetching) ++stats_.fetching;
    if (sequence->constraint_run != nullptr) {
      stats_.constraint_bytes += sequence->constraint_run->state->bytes();
    }
    ++stats_.running_by[static_cast<size_t>(sequence->request.priority)];
  }
  stats_.limit = scheduler_.limit();
  stats_.speed = scheduler_.step_cost().speed();
  stats_.attention_weight = scheduler_.step_cost().weight();
  stats_.evicted_blocks = kv_.pool().evictions();
  stats_.masks = masks_.counts().filled;
  stats_.deferred_masks = masks_.counts().deferred;
  stats_.mask_time = masks_.counts().time;
  stats_.transfers = transfers_.counts();
  stats_.steps = step_;
  if (!sequences_.empty()) return;
  stats_.blocked_id = 0;
  stats_.blocked_by = "";
  stats_.blocked_rule = scheduler::BlockedBy::kNothing;
}

Status EngineCore::CheckIntegrity() const {
  std::vector<const core::Sequence*> all;
  for (const auto& [id, sequence] : sequences_) all.push_back(sequence.get());
  if (Status status = kv_.CheckIntegrity(all); !status.ok()) return status;
  if (Status status = scheduler_.CheckIntegrity(); !status.ok()) return status;
  const size_t listed = scheduler_.queue().size() + scheduler_.running().size();
  if (listed == sequences_.size()) return {};
  return {StatusCode::kInternal, fmt::format("the core owns {} sequences, the scheduler lists {}",
                                             sequences_.size(), listed)};
}

}  // namespace ropeway::engine
