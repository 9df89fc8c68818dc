#include "engine/engine_loop.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

#include "base/log.h"
#include "engine/failure.h"

namespace ropeway::engine {
namespace {

// A loop that cannot go on must not use a whole core to find that out.
constexpr auto kBlockedPause = std::chrono::milliseconds(5);

// How often the loop looks for a tier's results: while the tier takes no more work, and while a
// sequence waits for it, in case a wake was lost for want of memory.
constexpr auto kTierPause = std::chrono::milliseconds(20);

// A batch that fills is looked at again at least so often, for clocks other than the machine's.
constexpr base::Duration kLongestFill = std::chrono::milliseconds(100);

// How often the order of the queue is published.
constexpr base::Duration kQueueNotes = std::chrono::milliseconds(100);

// How long blocks that wait to be stored are given when the engine stops.
constexpr auto kStoreGrace = std::chrono::seconds(5);

// The time for arrivals and cancels between two steps, about: running requests wait meanwhile.
constexpr base::Duration kMessageTime = std::chrono::milliseconds(2);

// How the trace says that a request ended.
const char* EndName(const CoreEvent& event) {
  return event.kind == CoreEvent::Kind::kFailed ? "failed" : FinishReasonName(event.reason);
}

}  // namespace

EngineLoop::EngineLoop(const EngineCoreOptions& options, const executor::KvLayout& layout,
                       std::unique_ptr<executor::Executor> executor,
                       std::unique_ptr<policy::SchedulingPolicy> policy, const base::Clock* clock,
                       EngineMetrics* metrics, OutputProcessor* output,
                       const LiveRequests* requests, TraceWriter* trace)
    : executor_(std::move(executor)),
      clock_(clock),
      metrics_(metrics),
      output_(output),
      requests_(requests),
      trace_(trace),
      policy_(std::move(policy)),
      core_(options, layout, executor_.get(), policy_.get(), clock_,
            [this](std::vector<CoreEvent> events) { Emit(std::move(events)); }),
      tier_(options.tier),
      max_num_seqs_(options.scheduler.max_num_seqs),
      inbox_(1),
      stats_(core_.stats()),
      work_(clock_->Now()),
      last_progress_(clock_->Now()),
      last_watch_(clock_->Now()),
      thread_([this] { Run(); }) {
  if (tier_ != nullptr) tier_->SetWake([this] { inbox_.Wake(); });
}

EngineLoop::~EngineLoop() {
  Stop();
  if (tier_ != nullptr) tier_->SetWake(nullptr);
}

void EngineLoop::Add(core::CoreRequest request) { Push(std::move(request)); }

void EngineLoop::Abort(RequestId id, FinishReason reason) { Push(AbortAsk{id, reason}); }

void EngineLoop::Flush() {
  flush_asked_ = true;
  inbox_.Wake();
}

void EngineLoop::Push(Message message) {
  RetryUntilMemory([&] { return inbox_.ForcePush(std::move(message)); });
}

void EngineLoop::Stop() {
  if (!thread_.joinable()) return;
  inbox_.Close();
  thread_.join();
}

void EngineLoop::Run() {
  pthread_setname_np(pthread_self(), "ropeway-engine");
  while (true) {
    try {
      RunUntilClosed();
      break;
    } catch (const std::exception&) {
      // What the core knows of its blocks is not to be trusted any more.
      Lose(CurrentFailure("the engine thread"));
    }
  }
  AbortAll();
}

void EngineLoop::AbortAll() {
  if (lost()) return;
  core_.AbortAll(FinishReason::kCancelled);
  // Its events wait if there was no memory to emit them.
  while (!core_.idle()) core_.Step();
  const base::TimePoint limit = clock_->Now() + kStoreGrace;
  while (core_.has_background() && clock_->Now() < limit) {
    if (!core_.Background()) std::this_thread::sleep_for(kBlockedPause);
  }
}

void EngineLoop::Sort(std::list<Message> messages) {
  while (!messages.empty()) {
    std::list<Message> one;
    one.splice(one.end(), messages, messages.begin());
    if (const auto* arrival = std::get_if<core::CoreRequest>(&one.front())) {
      RetryUntilMemory([&] { arrivals_.Push(arrival->tenant, &one); });
    } else {
      aborts_.splice(aborts_.end(), one);
    }
  }
}

void EngineLoop::HandleSome() {
  const base::TimePoint end = clock_->Now() + kMessageTime;
  while (has_messages()) {
    if (!aborts_.empty()) {
      const AbortAsk ask = std::get<AbortAsk>(aborts_.front());
      aborts_.pop_front();
      if (!lost()) core_.Abort(ask.id, ask.reason);
    } else {
      Admit(std::get<core::CoreRequest>(std::move(arrivals_.Pop().front())));
    }
    if (clock_->Now() >= end) return;
  }
}

void EngineLoop::RunUntilClosed() {
  while (true) {
    const bool idle = lost() || core_.idle();
    if (idle && !lost()) Publish(clock_->Now());
    // Asked before the pop: what is pushed between a pop and the close must still be handled.
    const bool closed = inbox_.closed();
    Sort(idle && !has_messages() ? WaitForMessages() : inbox_.PopAll());
    if (!has_messages() && closed) return;
    HandleSome();
    if (!lost() && !core_.idle()) Step();
  }
}

std::list<EngineLoop::Message> EngineLoop::WaitForMessages() {
  if (lost() || !core_.has_background()) return inbox_.WaitPopAll();
  if (core_.Background()) return inbox_.PopAll();
  return inbox_.WaitPopAll(kTierPause);
}

void EngineLoop::Admit(core::CoreRequest arrival) {
  const auto live = std::static_pointer_cast<LiveRequest>(arrival.context);
  arrival.group = live->group;
  const auto prompt_tokens = static_cast<int32_t>(arrival.prompt.size());
  live->prompt_tokens = prompt_tokens;
  Status status = lost() ? CopyStatus(device_status_) : core_.Add(std::move(arrival));
  if (!status.ok()) {
    output_->Reject(live, std::move(status));
    return;
  }
  if (trace_ != nullptr) trace_->Arrived(live->id, live->tenant(), live->arrival);
  output_->Admit(live,
                 {.prompt_tokens = prompt_tokens, .queue_position = core_.QueuePosition(live->id)});
  // A cancel that overtook the arrival found no request to abort.
  if (live->cancel_asked.load()) core_.Abort(live->id, FinishReason::kCancelled);
}

void EngineLoop::Step() {
  step_begin_ = clock_->Now();
  in_step_since_ = step_begin_;
  // A flush is for all that came before it.
  if (flush_asked_ && !has_messages() && inbox_.size() == 0) core_.Flush();
  core_.NoteSteps(trace_ != nullptr || step_log_.watched());
  core_.Step();
  if (in_step()) Publish(clock_->Now());  // It had no events.
  const CoreStats& stats = core_.stats();
  if (!core_.device_status().ok()) {
    Lose(core_.device_status());
  } else if (has_messages() || core_.idle()) {
    return;  // There is something to do, or nothing.
  } else if (Fills()) {
    const base::Duration left = stats.next_look - clock_->Now();
    inbox_.WaitForWork(std::clamp(left, base::Duration{}, kLongestFill));
  } else if (stats.last_rows == 0 && stats.fetching > 0) {
    inbox_.WaitForWork(kTierPause);
  } else if (!progressed_ && inbox_.size() == 0) {
    if (stats.blocked_id != 0 && warned_id_ != stats.blocked_id) {
      warned_id_ = stats.blocked_id;
      base::TryLog(spdlog::level::warn, "step {} computed nothing: request {} waits for {}",
                   stats.steps, stats.blocked_id, stats.blocked_by);
    }
    std::this_thread::sleep_for(kBlockedPause);
  }
}

bool EngineLoop::Fills() const {
  const CoreStats& stats = core_.stats();
  return stats.last_rows == 0 && stats.next_look != base::TimePoint::max();
}

bool EngineLoop::MadeProgress() {
  const CoreStats& stats = core_.stats();
  const uint64_t moved = stats.transfers.fetched_blocks + stats.transfers.failed_reads;
  const bool brought = std::exchange(moved_, moved) != moved;
  return stats.last_rows > 0 || stats.last_fetches > 0 || brought || Fills();
}

void EngineLoop::Emit(std::vector<CoreEvent> events) {
  const base::TimePoint now = clock_->Now();
  // Before any sink learns of it: a request that is submitted after a failure must be rejected.
  Publish(now);
  for (const CoreEvent& event : events) Track(event, now);
  output_->Emit(std::move(events), now);
}

void EngineLoop::Publish(base::TimePoint now) {
  const CoreStats& stats = core_.stats();
  const bool stepped = in_step();
  const base::Duration took = now - step_begin_;
  if (stepped) {
    progressed_ = MadeProgress();
    TraceStep(now);
    if (stats.last_rows > 0) CountStep(took);
  }
  const bool noted = NoteQueue(now);
  const std::lock_guard lock(mu_);
  stats_ = stats;
  // The time before the first step after a pause is no stall.
  if (stepped && !busy_) last_progress_ = step_begin_;
  busy_ = !core_.idle();
  in_step_since_ = kNoStep;
  if (!busy_ || (stepped && progressed_)) {
    last_progress_ = now;
    excused_ = {};
  }
  if (stepped && stats.last_rows > 0) {
    const uint64_t generated =
        stats.generated_tokens - std::exchange(generated_, stats.generated_tokens);
    busy_time_ += took;
    work_.Add(now, took, static_cast<uint64_t>(stats.last_prompt_tokens), generated);
  }
  if (noted) {
    queue_order_.swap(next_order_);
    std::swap(load_, next_load_);
  }
  if (!lost() && !core_.device_status().ok()) device_status_ = CopyStatus(core_.device_status());
}

bool EngineLoop::NoteQueue(base::TimePoint now) {
  // An idle loop sleeps: what it notes now must hold until there is work.
  const bool early = now - queue_noted_ < kQueueNotes && queue_noted_ != base::TimePoint{};
  if (early && !core_.idle()) return false;
  queue_noted_ = now;
  try {
    next_order_ = core_.QueueOrder();
    core_.View(&next_load_);
    return true;
  } catch (const std::bad_alloc&) {
    return false;  // It is noted later.
  }
}

void EngineLoop::CountStep(base::Duration took) {
  const CoreStats& stats = core_.stats();
  const double seconds = base::ToSeconds(took);
  metrics_->step_rows->Observe(stats.last_rows);
  metrics_->batch_size->Observe(stats.last_items);
  metrics_->step_time->Observe(seconds);
  metrics_->recent_steps.Add(took, base::RealClock().Now());
  metrics_->busy_seconds->Increment(seconds);
  if (stats.waiting + stats.preempted > 0) {
    metrics_->slots_used->Increment(seconds * stats.last_items);
    metrics_->slots_all->Increment(seconds * max_num_seqs_);
  }
  // The counters' sum is the histogram's; what another clock or core measured is kept within it.
  const base::Duration forward = std::clamp(stats.last_forward, base::Duration{}, took);
  const base::Duration sampling = std::clamp(stats.last_sampling, base::Duration{}, forward);
  metrics_->step_forward->Increment(base::ToSeconds(forward - sampling));
  metrics_->step_sampling->Increment(base::ToSeconds(sampling));
  metrics_->step_scheduling->Increment(base::ToSeconds(took - forward));
}

void EngineLoop::Track(const CoreEvent& event, base::TimePoint now) {
  using State = LiveRequest::State;
  LiveRequest& live = static_cast<LiveRequest&>(*event.context);
  [[maybe_unused]] bool moved = false;
  switch (event.kind) {
    case CoreEvent::Kind::kStarted:
      live.started = step_begin_;
      live.batch = event.batch;
      metrics_->requests.of(live.priority())
          .Started(step_begin_ - live.arrival, event.batch.formation);
      moved = live.Move(State::kWaiting, State::kRunning);
      assert(moved || live.state() == State::kEnded);
      break;
    case CoreEvent::Kind::kPromptScored:
    case CoreEvent::Kind::kPooled:
    case CoreEvent::Kind::kToken:
      live.Move(State::kPreempted, State::kRunning);
      break;
    case CoreEvent::Kind::kPreempted:
      live.Move(State::kRunning, State::kPreempted);
      // Without a token since the last preemption it is kPreempted already.
      assert(live.state() != State::kWaiting);
      break;
    case CoreEvent::Kind::kFailed:
    case CoreEvent::Kind::kFinished:
      if (trace_ != nullptr) trace_->Ended(live.id, EndName(event), now);
      break;
  }
}

void EngineLoop::TraceStep(base::TimePoint end) {
  const bool watched = step_log_.watched();
  if ((trace_ == nullptr && !watched) || core_.last_step().empty()) return;
  try {
    const CoreStats& stats = core_.stats();
    core::StepTrace step{stats.steps,        step_begin_,         end,
                         stats.last_forward, stats.last_sampling, core_.last_step()};
    if (watched) step_log_.Add(step);
    if (trace_ != nullptr) trace_->Step(std::move(step));
  } catch (const std::bad_alloc&) {  // A trace may lack a step.
  }
}

void EngineLoop::Lose(const Status& status) {
  base::TryLog(spdlog::level::err, "the engine has failed: {}", status.message());
  core_.ClearBlockEvents();
  {
    const std::lock_guard lock(mu_);
    device_status_ = CopyStatus(status);
    stats_ = core_.stats();
    stats_.waiting = stats_.running = stats_.preempted = 0;
    busy_ = false;
    in_step_since_ = kNoStep;
  }
  // Requests that are still encoding, or in the inbox, are rejected when they are handled; again,
  // the latter, without effect.
  for (const std::shared_ptr<LiveRequest>& live : requests_->All()) {
    const LiveRequest::State state = live->state();
    if (state == LiveRequest::State::kEncoding || state == LiveRequest::State::kEnded) continue;
    if (trace_ != nullptr) trace_->Ended(live->id, "failed", clock_->Now());
    output_->Reject(live, CopyStatus(status));
  }
}

EngineLoop::Snapshot EngineLoop::snapshot() const {
  const base::TimePoint now = clock_->Now();
  const std::lock_guard lock(mu_);
  return {stats_, busy_time_, work_.At(now)};
}

std::vector<RequestId> EngineLoop::queue_order() const {
  const std::lock_guard lock(mu_);
  return queue_order_;
}

scheduler::LoadView EngineLoop::load() const {
  const std::lock_guard lock(mu_);
  return load_;
}

Status EngineLoop::device_status() const {
  const std::lock_guard lock(mu_);
  return device_status_;
}

Status EngineLoop::CheckProgress() const {
  const base::TimePoint now = clock_->Now();
  const std::lock_guard lock(mu_);
  return ProgressAt(std::min(now, last_watch_ + kLongestGap));
}

Status EngineLoop::Watch() {
  const base::TimePoint now = clock_->Now();
  const std::lock_guard lock(mu_);
  const base::Duration pause = now - last_watch_ - kLongestGap;
  last_watch_ = now;
  if (pause > base::Duration{}) excused_ = std::min(excused_ + pause, now - Since(now));
  return ProgressAt(now);
}

base::TimePoint EngineLoop::Since(base::TimePoint now) const {
  return busy_ ? last_progress_ : std::min<base::TimePoint>(in_step_since_, now);
}

Status EngineLoop::ProgressAt(base::TimePoint now) const {
  const base::Duration age = now - Since(now) - excused_;
  if (age < kStallLimit) return {};
  std::string reason = fmt::format("no step made progress for {:.0f} s", base::ToSeconds(age));
  if (const base::TimePoint begin = in_step_since_; begin != kNoStep) {
    const base::Duration runs = std::clamp(now - begin, base::Duration{}, age);
    reason +=
        fmt::format("; step {} has run for {:.0f} s", stats_.steps + 1, base::ToSeconds(runs));
  } else {
    reason += fmt::format(", after step {}", stats_.steps);
  }
  if (stats_.blocked_id != 0) {
    reason += fmt::format("; request {} waits for {}", stats_.blocked_id, stats_.blocked_by);
  }
  return {StatusCode::kInternal, std::move(reason)};
}

}  // namespace ropeway::engine
