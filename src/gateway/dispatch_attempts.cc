#include "gateway/dispatch_attempts.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "base/failure.h"

namespace ropeway::gateway {
namespace {

// Tokens of its prompt that were computed, as the backend says, and not charged.
int32_t PromptUnpaid(const DispatchEntry& entry, const Finish& end) {
  const Usage& usage = end.usage;
  if (usage.prompt_tokens == Usage::kUnknown) return 0;
  // What is computed again elsewhere is not charged, and what a backend does not say about its
  // cache is as it was thought.
  int64_t paid = entry.prompt_len;
  if (entry.resumptions == 0 && usage.cached_tokens != Usage::kUnknown) paid = entry.prompt_paid;
  const int64_t unpaid = int64_t{usage.prompt_tokens} - std::max(usage.cached_tokens, 0) - paid;
  // Up to the estimate: a backend may say anything.
  return static_cast<int32_t>(std::clamp<int64_t>(unpaid, 0, entry.prompt_len));
}

}  // namespace

void DispatchAttempts::Begin(DispatchEntry* entry, const Route& route) {
  Replica& replica = from_.replicas[route.replica];
  const bool newcomer = (entry->tenant->there & MaskOf(route.replica)) == 0;
  from_.entries.Send(entry, route.replica);
  entry->sent = entry->last_output = entry->sched.queued_since = now_;
  entry->first_byte = false;
  entry->cached = std::min(route.cached * kTokensPerPrefixBlock, entry->num_ids() - 1);
  entry->computed = entry->cached;
  const int32_t outputs = std::max(1, from_.load.OutputsOf(*entry) - entry->generated());
  entry->tokens_left = entry->num_ids() - entry->cached + outputs;
  // From its first output on it goes on only where the bits are the same.
  if (!entry->given) {
    entry->ids_known = true;
    entry->identity = replica.identity();
  }
  replica.OnSent(entry->tokens_left, newcomer, now_);
  from_.replicas.NoteSent(entry->blocks, route.replica);
}

void DispatchAttempts::Charge(DispatchEntry* entry, int32_t prompt, int32_t output) {
  from_.load.OnWork(prompt, output);
  from_.order.Charge(entry, prompt, output);
}

bool DispatchAttempts::OnFirstByte(DispatchEntry* entry) {
  if (entry->first_byte) return false;
  entry->first_byte = true;
  entry->last_output = now_;
  Replica& replica = from_.replicas[entry->replica];
  const int32_t computed = std::max(0, entry->num_ids() - entry->cached);
  replica.OnFirstByte(now_ - entry->sent, computed, now_);
  from_.mover.Move(entry->id(), &entry->state, core::SequenceEvent::kCaughtUp);
  entry->computed = entry->num_ids();
  const int64_t done = std::min<int64_t>(entry->tokens_left, computed);
  entry->tokens_left -= done;
  replica.OnTokens(done);
  if (!entry->prompt_charged) {
    Charge(entry, computed, 0);
    entry->prompt_charged = true;
    entry->prompt_paid = computed;
  }
  return true;
}

void DispatchAttempts::AddTokens(DispatchEntry* entry, int64_t reported) {
  // Whatever a backend says: no more than were asked for.
  const int32_t left = std::max(0, entry->request.max_tokens - entry->generated());
  const auto tokens = static_cast<int32_t>(std::clamp<int64_t>(reported, 0, left));
  if (tokens == 0) return;
  entry->length += tokens;
  entry->computed = entry->num_ids();
  const int64_t done = std::min<int64_t>(entry->tokens_left, tokens);
  entry->tokens_left -= done;
  from_.replicas[entry->replica].OnTokens(done);
  Charge(entry, 0, tokens);
}

bool DispatchAttempts::OnOutput(DispatchEntry* entry, const AttemptOutput& output) {
  const bool first = OnFirstByte(entry);
  AddTokens(entry, output.tokens);
  entry->last_output = now_;
  entry->given = true;
  entry->ids_known = entry->ids_known && output.ids_known;
  // The stream lives, so its replica is the same that answered the last probe.
  const Replica& replica = from_.replicas[entry->replica];
  if (entry->identity == nullptr) entry->identity = replica.identity();
  return first;
}

void DispatchAttempts::OnEnd(DispatchEntry* entry, const Finish& end) {
  OnFirstByte(entry);
  if (end.usage.completion_tokens != Usage::kUnknown) {
    AddTokens(entry, int64_t{end.usage.completion_tokens} - entry->generated());
  }
  Charge(entry, PromptUnpaid(*entry, end), 0);
  OnCancel(entry, true);
}

void DispatchAttempts::OnCancel(DispatchEntry* entry, bool completed) {
  if (completed) from_.replicas[entry->replica].OnCompleted(now_ - entry->sent, now_);
  Leave(entry);
}

void DispatchAttempts::Leave(DispatchEntry* entry) {
  Replica& replica = from_.replicas[entry->replica];
  replica.OnLeft(std::exchange(entry->tokens_left, 0), from_.entries.EndAttempt(entry));
}

void DispatchAttempts::OnReplicaFailed(int replica, FailureKind kind, int retry_after_seconds) {
  Replicas& replicas = from_.replicas;
  const bool last = (replicas.Alive() & ~MaskOf(replica)) == 0;
  try {
    if (replicas[replica].OnFailure(kind, retry_after_seconds, last, now_)) {
      replicas.ForgetCache(replica);
    }
  } catch (const std::bad_alloc&) {  // Its next failure ejects it.
  }
}

bool DispatchAttempts::MayResume(const DispatchEntry& entry) const {
  return entry.given && entry.ids_known && !entry.replays && entry.identity != nullptr &&
         entry.resumptions < from_.options.failover.max_resumptions &&
         now_ < entry.request.deadline;
}

DispatchAttempts::Next DispatchAttempts::OnFailure(DispatchEntry* entry, const Outcome& failure,
                                                   Status* status) {
  using Kind = FailureKind;
  *status = base::CopyStatus(failure.status);
  if (status->ok()) *status = base::MakeStatus(StatusCode::kUnavailable, "the backend failed");
  const int replica = entry->replica;
  Leave(entry);
  // What a replica began to answer it did not find at fault.
  const bool rejected_late = failure.kind == Kind::kRejected && entry->given && !entry->resumes;
  // A replica that shares its machine between tenants has too much of this one, and may have room
  // for others: as its 429 says nothing of them, it is the request's alone.
  const bool is_tenants = failure.kind == Kind::kBusy &&
                          status->code() == StatusCode::kResourceExhausted &&
                          from_.replicas[replica].shares();
  if (!is_tenants) {
    OnReplicaFailed(replica, rejected_late ? Kind::kBroken : failure.kind,
                    failure.status.retry_after_seconds());
  }
  const bool in_time = now_ < entry->request.deadline;
  if (failure.kind == Kind::kRejected && entry->given &&
      status->code() != StatusCode::kDeadlineExceeded) {
    // A replica has begun to answer it. At fault is what came of that, and neither the request nor
    // this replica.
    if (entry->resumes && !entry->replays && in_time) {
      entry->replays = true;
      ++entry->resumptions;
      return Next::kResume;
    }
    *status = base::MakeStatus(StatusCode::kUnavailable, status->message().c_str());
  }
  if (failure.kind != Kind::kBusy || is_tenants) entry->failed_on |= MaskOf(replica);
  const bool elsewhere = (from_.replicas.Alive() & ~entry->failed_on) != 0;
  if (failure.kind != Kind::kRejected) {
    if (MayResume(*entry)) {
      ++entry->resumptions;
      return Next::kResume;
    }
    const bool may_help = !is_tenants || elsewhere;
    if (!entry->given && in_time && may_help &&
        entry->retries < from_.options.failover.max_retries) {
      ++entry->retries;
      return Next::kRetry;
    }
  }
  status->set_retry_after_seconds(
      failure.kind == Kind::kBusy ? scheduler::WholeSeconds(failure.status.retry_after_seconds())
                                  : 0);
  return Next::kEnd;
}

base::Duration DispatchAttempts::PatienceFor(const DispatchEntry& entry) const {
  const base::Duration none(0);
  const base::Duration idle = from_.options.failover.idle_timeout;
  const base::Duration first = from_.options.failover.first_byte_timeout;
  if (entry.first_byte) return idle;
  const bool hurries = entry.resumes || from_.replicas[entry.replica].unheard();
  if (!hurries || idle <= none) return first;
  return first > none ? std::min(idle, first) : idle;
}

base::TimePoint DispatchAttempts::DueOf(const DispatchEntry& entry) const {
  base::TimePoint due = entry.request.deadline;
  const base::Duration none(0);
  if (entry.replica < 0) {
    if (entry.resumes) due = std::min(due, EndOf(entry.queued_at, from_.options.resume_wait));
  } else if (const base::Duration patience = PatienceFor(entry); patience > none) {
    due = std::min(due, EndOf(entry.last_output, patience));
  }
  return due;
}

}  // namespace ropeway::gateway
