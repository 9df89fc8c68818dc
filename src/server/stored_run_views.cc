// StoredRun, as the thread that writes records and the connections that read it see it.
#include <algorithm>
#include <utility>

#include "server/delta_merge.h"
#include "server/stored_record.h"
#include "server/stored_run.h"

namespace ropeway::server {
namespace {

// What an error that was stored means.
Status StatusOf(const api::ApiError& error) {
  StatusCode code = StatusCode::kInternal;
  switch (error.http_status) {
    case 400:
      code = StatusCode::kInvalidArgument;
      break;
    case 404:
      code = StatusCode::kNotFound;
      break;
    case 408:
      code = StatusCode::kDeadlineExceeded;
      break;
    case 429:
      code = StatusCode::kResourceExhausted;
      break;
    case 503:
      code = StatusCode::kUnavailable;
      break;
    default:
      break;
  }
  return {code, error.message, error.param};
}

}  // namespace

// --- The writer's side

StoredRun::Write StoredRun::Due(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (settled_ || writing_) return Write::kNothing;
  const bool ended = AllEnded();
  Write write = Write::kNothing;
  if (dropped_) {
    if (ended || Running().empty()) Settle();
  } else if (ended && lost_ && !parked_ && !stopped()) {
    // It goes on elsewhere (TakeLost).
  } else if (ended && interrupted_ && !cancelled_) {
    if (recorded_ && news_) {
      write = Write::kCheckpoint;
    } else {
      Settle();
    }
  } else if (ended) {
    // Its client is told of the failure, or has left.
    const bool unknown = !recorded_ && (cancelled_ || !failure_.ok());
    if (unknown) Settle();
    if (!unknown) write = Write::kFinal;
  } else if (!recorded_) {
    if (records_first() && !stopped() && (record_now_ || AllAdmitted())) write = Write::kFirst;
  } else if (news_ && (unsaved_ >= kCheckpointTokens || now - saved_at_ >= kCheckpointPause)) {
    write = Write::kCheckpoint;
  }
  writing_ = write != Write::kNothing;
  return write;
}

std::string StoredRun::Pack(Write write, api::AnswerState* state) {
  const bool final = write == Write::kFinal;
  std::optional<api::ApiError> error;
  std::vector<ChoicePart> parts;
  {
    const std::lock_guard lock(mutex_);
    *state = State();
    if (final && !failure_.ok()) error = api::ToApiError(failure_);
    for (Choice& choice : choices_) {
      ChoicePart& part = parts.emplace_back();
      part.pieces = choice.pieces.Share();
      if (choice.ids_known) part.ids = choice.ids;
      part.finish = choice.finish;
      if (final || choice.finish) {
        part.count = part.pieces.size();
      } else if (choice.ids_known) {
        part.count = choice.with_ids;  // Without ids it starts again.
      }
    }
    news_ = false;
    unsaved_ = 0;
    saved_at_ = std::chrono::steady_clock::now();
  }
  return PackAnswer(*state, error, parts);
}

void StoredRun::Written(Write write, const Status& status) {
  std::vector<RequestId> running;
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    const bool was_recorded = recorded_;
    if (status.ok()) recorded_ = true;
    if (!status.ok() && !was_recorded) {
      failure_ = status;
      running = Running();
    }
    // What the store could not write at once it keeps in memory, and writes later.
    if (write == Write::kFinal || (!status.ok() && !was_recorded)) Settle(status);
    Wake();
  }
  CancelAll(running);
  parts_.inbox->Add(shared_from_this());
}

StoredRun::Report StoredRun::report() const {
  const std::lock_guard lock(mutex_);
  Report report;
  report.state = api::AnswerStateName(State());
  if (interrupted_ && !cancelled_) report.state = "parked";
  if (dropped_) report.state = "deleted";
  report.total = std::chrono::steady_clock::now() - made_;
  if (!failure_.ok()) report.error = failure_.message();
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    const auto ids = static_cast<int64_t>(choice.ids.size());
    report.generated += std::max(choice.facts.generated, ids);
    if (i % parts_.per_prompt == 0) report.prompt_tokens += choice.facts.prompt_tokens;
  }
  return report;
}

bool StoredRun::TakeLost(std::vector<StoredChoice>* had) {
  const std::lock_guard lock(mutex_);
  if (!lost_ || submitting_ || settled_ || parked_ || stopped() || !AllEnded()) return false;
  lost_ = false;
  bytes_ = request_->body.size();
  had->clear();
  for (Choice& choice : choices_) {
    StoredChoice& before = had->emplace_back();
    if (choice.finish) {
      before = {choice.pieces.First(choice.pieces.size()), choice.ids, choice.finish};
      continue;
    }
    if (choice.ids_known) before = {choice.pieces.First(choice.with_ids), choice.ids, {}};
    choice.pieces = PieceLog();
    choice.ids.clear();
    choice.with_ids = 0;
    choice.ids_known = true;
    choice.ended = choice.taken = false;
  }
  waits_ = true;
  return true;
}

void StoredRun::Retry() {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  news_ = true;
}

api::ChoiceOutput StoredRun::Collected(size_t index) const {
  const std::lock_guard lock(mutex_);
  return WholeOf(choices_[index]);
}

api::ChoiceOutput StoredRun::WholeOf(const Choice& choice) {
  api::ChoiceOutput output;
  choice.pieces.ForEach(0, choice.pieces.size(),
                        [&output](const Delta& piece) { api::AddTo(piece, &output); });
  output.finish = choice.finish.value_or(Finish());
  return output;
}

api::AnswerState StoredRun::State() const {
  using api::AnswerState;
  if (!failure_.ok() || error_) return AnswerState::kFailed;
  if (cancelled_) return AnswerState::kCancelled;
  bool begun = false;
  bool ended = true;
  bool cut = false;
  for (const Choice& choice : choices_) {
    begun = begun || !choice.pieces.empty();
    if (!choice.finish) {
      ended = false;
    } else if (choice.finish->reason == FinishReason::kCancelled) {
      return AnswerState::kCancelled;
    } else if (choice.finish->reason == FinishReason::kLength) {
      cut = true;
    }
  }
  if (!ended) return begun ? AnswerState::kInProgress : AnswerState::kQueued;
  return cut ? AnswerState::kIncomplete : AnswerState::kCompleted;
}

void StoredRun::Settle(const Status& status) {
  settled_ = true;
  parts_.conversation.reset();
  for (const DoneFn& done : settled_fns_) done(status);
  settled_fns_.clear();
  Wake();
}

// --- Readers

uint64_t StoredRun::Watch(WakeFn wake) {
  const std::lock_guard lock(mutex_);
  watchers_.emplace(next_watcher_, std::move(wake));
  return next_watcher_++;
}

void StoredRun::Unwatch(uint64_t watcher) {
  // Destroyed after the lock is released: the function may own objects that lock in turn.
  WakeFn dropped;
  const std::lock_guard lock(mutex_);
  const auto found = watchers_.find(watcher);
  if (found == watchers_.end()) return;
  dropped.swap(found->second);
  watchers_.erase(found);
}

void StoredRun::Wake() {
  for (const auto& [watcher, wake] : watchers_) wake();
}

AnswerSource::Progress StoredRun::Look(size_t index) const {
  const std::lock_guard lock(mutex_);
  const Choice& choice = choices_[index];
  const bool admitted = choice.admitted && (recorded_ || !records_first());
  const bool failed = settled_ && choice.pieces.empty() && !choice.finish;
  return {admitted, settled_, failed};
}

AnswerSource::Output StoredRun::Read(size_t index, bool as_one, size_t most, size_t* pieces,
                                     bool* more) const {
  const std::lock_guard lock(mutex_);
  const Choice& choice = choices_[index];
  const size_t all = choice.pieces.size();
  AnswerSource::Output output;
  output.admitted = choice.admitted;
  *more = false;
  if (as_one && !settled_) return output;
  const size_t end = as_one ? all : std::min(all, *pieces + most);
  if (as_one) {
    output.whole = WholeOf(choice);
  } else {
    choice.pieces.ForEach(std::min(*pieces, end), end,
                          [&output](const Delta& piece) { output.deltas.push_back(piece); });
  }
  *pieces = std::max(*pieces, end);  // There are fewer after TakeLost.
  *more = end < all;
  if (!settled_ || *more) return output;
  output.end = EndOf(choice);
  // A stream does not end: the client asks for the rest once the server has started again.
  output.breaks_off = interrupted_ && !cancelled_ && !dropped_;
  return output;
}

Outcome StoredRun::EndOf(const Choice& choice) const {
  if (error_) return Outcome::Failed(StatusOf(*error_));
  if (!failure_.ok()) return Outcome::Failed(failure_);
  // The client's own doing: not to be tried again.
  if (dropped_) return Outcome::Failed(InvalidArgument("The answer was deleted."));
  if (cancelled_) {
    Status cancelled = InvalidArgument("The answer was cancelled.");
    cancelled.set_api_code(api::kAnswerCancelled);
    return Outcome::Failed(std::move(cancelled));
  }
  if (!interrupted_ && choice.finish) return Outcome::Ended(*choice.finish);
  return Outcome::Failed(
      {StatusCode::kUnavailable,
       "The server stops. It goes on with this answer when it starts again: ask for it then."});
}

AnswerFacts StoredRun::facts(size_t choice) const {
  const std::lock_guard lock(mutex_);
  return choices_[choice].facts;
}

std::optional<int32_t> StoredRun::queue_position() const {
  const std::lock_guard lock(mutex_);
  return queue_position_;
}

}  // namespace ropeway::server
