#include "engine/prompt_pool.h"

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "engine/failure.h"
#include "grammar/output_ebnf.h"

namespace ropeway::engine {
namespace {

// One tenant alone gets half of a FairPool's places. A job keeps its place for a moment after its
// request has left the queue that `capacity` counts.
int64_t PlacesFor(size_t capacity, int threads) {
  return 2 * (static_cast<int64_t>(capacity) + threads + base::FairPool::kSpareThreads);
}

base::Flow FlowOf(const LiveRequest& live) {
  return {.tenant = live.tenant(),
          .cls = static_cast<int>(live.priority()),
          .weight = live.request.tenant_weight};
}

}  // namespace

PromptPool::PromptPool(const PromptEncoder* encoder, GrammarPool* grammars,
                       const base::Clock* clock, base::SharedBudget* bytes, int threads,
                       size_t capacity, ReadyFn ready, RejectedFn rejected)
    : encoder_(encoder),
      grammars_(grammars),
      clock_(clock),
      bytes_(bytes),
      free_(threads + base::FairPool::kSpareThreads),
      ready_(std::move(ready)),
      rejected_(std::move(rejected)),
      pool_(threads, PlacesFor(capacity, threads), "ropeway-prompt") {}

bool PromptPool::TryAdd(const std::shared_ptr<LiveRequest>& live) {
  // Held to the end: a request that is not taken must not be rejected meanwhile.
  const std::lock_guard lock(mu_);
  const bool timed = live->deadline != base::TimePoint::max();
  if (timed) deadlines_.emplace(Deadline(live->deadline, live->id), live);
  try {
    if (live->grammar == nullptr ? TryEncode(live) : TryCompile(live)) return true;
  } catch (const std::bad_alloc&) {
    deadlines_.erase({live->deadline, live->id});
    throw;
  }
  deadlines_.erase({live->deadline, live->id});
  return false;
}

bool PromptPool::TryEncode(const std::shared_ptr<LiveRequest>& live) {
  const auto job = std::make_shared<Job>(this, live);
  return pool_.TryAdd(FlowOf(*live), [this, job] { return Run(job.get()); });
}

bool PromptPool::TryCompile(const std::shared_ptr<LiveRequest>& live) {
  if (const std::optional<GrammarPool::Compiled> found = grammars_->Find(*live->grammar);
      found && found->ok()) {
    live->constraint = **found;
    return TryEncode(live);
  }
  return grammars_->TryAdd(
      FlowOf(*live), live->grammar,
      [this, live] {
        RejectOverdue();
        if (live->state() == LiveRequest::State::kEncoding) return true;
        ForgetDeadline(*live);  // It was cancelled.
        return false;
      },
      [this, live](const GrammarPool::Compiled& compiled) { OnCompiled(live, compiled); });
}

namespace {

Status CompileError(const LiveRequest& live, const Status& error) {
  if (error.code() != StatusCode::kInvalidArgument) return CopyStatus(error);
  try {
    return grammar::OfField(live.request.format, error);
  } catch (const std::bad_alloc&) {
    return CopyStatus(error);
  }
}

}  // namespace

void PromptPool::OnCompiled(const std::shared_ptr<LiveRequest>& live,
                            const GrammarPool::Compiled& compiled) {
  RejectOverdue();
  Status status;
  if (!compiled.ok()) {
    status = CompileError(*live, compiled.status());
  } else if (live->state() == LiveRequest::State::kEncoding) {
    live->constraint = *compiled;
    try {
      if (TryEncode(live)) return;
      status = MakeStatus(StatusCode::kResourceExhausted, "the queue of prompts to encode is full");
    } catch (const std::bad_alloc&) {
      status = OutOfMemory();
    }
  }
  if (!status.ok()) Reject(live, std::move(status));
  ForgetDeadline(*live);
}

void PromptPool::Stop() { pool_.Stop(); }

base::PieceEnd PromptPool::Run(Job* job) {
  RejectOverdue();
  if (!Encode(job)) {
    RejectOverdue();
    // One that ended in this piece frees its memory now, not in its next turn.
    if (job->live->state() != LiveRequest::State::kEnded) {
      return job->encoding.gives_way() ? base::PieceEnd::GivingWay() : false;
    }
  }
  ForgetDeadline(*job->live);
  return true;
}

// An error in one request (its template, its memory) ends that request alone.
bool PromptPool::Encode(Job* job) {
  const std::shared_ptr<LiveRequest>& live = job->live;
  if (live->state() == LiveRequest::State::kEnded) return true;
  try {
    std::optional<StatusOr<core::CoreRequest>> core = job->encoding.Run();
    if (!core && Charge(job)) return false;
    if (!core) {
      core =
          Status(StatusCode::kResourceExhausted,
                 "the other requests of this tenant leave too little memory to encode the prompt");
    }
    // Also one whose time ran out in this piece.
    RejectOverdue();
    if (!core->ok()) {
      Reject(live, core->status());
    } else if (live->Move(LiveRequest::State::kEncoding, LiveRequest::State::kWaiting)) {
      (*core)->context = live;
      ready_(**std::move(core));
    }
  } catch (const std::exception&) {
    Reject(live, CurrentFailure("encoding the prompt"));
  }
  return true;
}

bool PromptPool::Charge(Job* job) {
  if (!job->free.taken()) (void)free_.Take(job->live->tenant(), 1, &job->free);
  const int64_t free = job->free.taken() ? kFreeBytes : 0;
  const int64_t more = static_cast<int64_t>(job->encoding.bytes()) - free - job->bytes.amount();
  if (more <= 0) return true;
  if (job->bytes.taken()) return job->bytes.Grow(more);
  return bytes_->Take(job->live->tenant(), more, &job->bytes);
}

void PromptPool::Reject(const std::shared_ptr<LiveRequest>& live, Status status) {
  if (live->Move(LiveRequest::State::kEncoding, LiveRequest::State::kEnded)) {
    rejected_(live, std::move(status));
  }
}

void PromptPool::RejectOverdue() {
  const base::TimePoint now = clock_->Now();
  while (true) {
    std::shared_ptr<LiveRequest> live;
    {
      const std::lock_guard lock(mu_);
      if (deadlines_.empty() || deadlines_.begin()->first.first > now) return;
      live = deadlines_.begin()->second;
      deadlines_.erase(deadlines_.begin());
    }
    Reject(live, RequestTimeout());
  }
}

void PromptPool::ForgetDeadline(const LiveRequest& live) {
  if (live.deadline == base::TimePoint::max()) return;
  const std::lock_guard lock(mu_);
  deadlines_.erase({live.deadline, live.id});
}

}  // namespace ropeway::engine
