#include "service/active_request.h"

#include <chrono>

#include "base/failure.h"
#include "service/sinks.h"

namespace ropeway::service {
namespace {

bool IsQueued(RequestState state) {
  return state == RequestState::kEncoding || state == RequestState::kWaiting;
}

}  // namespace

bool ActiveRequest::Move(State from, State to) {
  if (!state_.compare_exchange_strong(from, to)) return false;
  Count(from, to);
  return true;
}

bool ActiveRequest::End() {
  const State from = state_.exchange(State::kEnded);
  Count(from, State::kEnded);
  return from != State::kEnded;
}

void ActiveRequest::Count(State from, State to) {
  if (!IsQueued(from) || IsQueued(to)) return;
  place.Release();
  if (queued_ != nullptr) --*queued_;
}

PhaseTimes ActiveRequest::Times() const {
  PhaseTimes times;
  if (started == base::TimePoint{}) return times;
  times.queue = started - arrival;
  times.formation = batch.formation;
  if (first_token == base::TimePoint{}) return times;
  times.prefill = first_token - started;
  times.decode = last_token - first_token;
  return times;
}

bool ActiveRequest::Admit(const Admission& admission) {
  if (admitted_) return !gone_;
  admitted_ = true;
  if (!CallSink(id, [&] { sink_->OnAdmitted(id, admission); })) gone_ = true;
  return !gone_;
}

bool ActiveRequest::Give(Delta delta) {
  if (turn != nullptr) AddTo(delta, &turn->answer);
  bool more = false;
  if (!CallSink(id, [&] { more = sink_->OnDelta(id, std::move(delta)); }) || !more) gone_ = true;
  return !gone_;
}

void ActiveRequest::TellAlive() {
  CallSink(id, [&] { sink_->OnAlive(id); });
}

void ActiveRequest::Tell(const Outcome& outcome) {
  told_ = true;
  if (End()) bytes.Release();
  if (turn != nullptr) turn->turn.Abandon();
  end_code_ = outcome.status.code();
  finish_ = outcome.finish;
  CallSink(id, [&] { sink_->OnEnd(id, outcome); });
  CallSink(id, [&] { sink_.reset(); });
}

EndedRequest ActiveRequest::ended_as() const {
  EndedRequest ended;
  ended.id = id;
  ended.tenant = tenant();
  ended.priority = priority();
  ended.code = end_code_;
  ended.reason = finish_.reason;
  if (end_code_ == StatusCode::kCancelled) ended.reason = FinishReason::kCancelled;
  if (end_code_ != StatusCode::kOk && end_code_ != StatusCode::kCancelled) {
    ended.reason = FinishReason::kFailed;
  }
  ended.usage = finish_.usage;
  ended.preemptions = finish_.preemptions;
  ended.times = finish_.times;
  ended.ended_at = base::ToSeconds(std::chrono::system_clock::now().time_since_epoch());
  return ended;
}

void ActiveRequest::Fail(const Status& status) { Tell(Outcome::Failed(base::CopyStatus(status))); }

}  // namespace ropeway::service
