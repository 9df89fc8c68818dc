#include "engine/prompt_pool.h"

#include <exception>
#include <utility>

#include "engine/failure.h"

namespace ropeway::engine {

PromptPool::PromptPool(const PromptEncoder* encoder, const base::Clock* clock, int threads,
                       size_t capacity, ReadyFn ready, RejectedFn rejected)
    : encoder_(encoder),
      clock_(clock),
      ready_(std::move(ready)),
      rejected_(std::move(rejected)),
      pool_(threads, capacity, "ropeway-prompt") {}

bool PromptPool::TryAdd(const std::shared_ptr<LiveRequest>& live) {
  // Held to the end: a request that is not taken must not be rejected meanwhile.
  const std::lock_guard lock(mu_);
  Slot* const slot = &slots_.emplace_back(Slot{live, std::nullopt, false});
  const auto drop = [this, slot] {
    deadlines_.erase({slot->live->deadline, slot});
    slots_.pop_back();
  };
  try {
    if (live->deadline != base::TimePoint::max()) deadlines_.emplace(live->deadline, slot);
    if (pool_.TryAdd([this, slot] { Prepare(slot); })) return true;
  } catch (const std::bad_alloc&) {
    drop();
    throw;
  }
  drop();
  return false;
}

void PromptPool::Stop() { pool_.Stop(); }

void PromptPool::Prepare(Slot* slot) {
  RejectOverdue();
  std::optional<core::CoreRequest> encoded = Encode(slot->live);
  RejectOverdue();
  Complete(slot, std::move(encoded));
}

// An error in one request (its template, its memory) ends that request alone.
std::optional<core::CoreRequest> PromptPool::Encode(const std::shared_ptr<LiveRequest>& live) {
  if (live->state() == LiveRequest::State::kEnded) return std::nullopt;
  try {
    StatusOr<core::CoreRequest> core = encoder_->Encode(live.get());
    if (core.ok()) {
      core->context = live;
      return *std::move(core);
    }
    Reject(live, core.status());
  } catch (const std::exception&) {
    Reject(live, CurrentFailure("encoding the prompt"));
  }
  return std::nullopt;
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
      if (deadlines_.empty() || deadlines_.begin()->first > now) return;
      live = deadlines_.begin()->second->live;
      deadlines_.erase(deadlines_.begin());
    }
    Reject(live, RequestTimeout());
  }
}

void PromptPool::Complete(Slot* slot, std::optional<core::CoreRequest> encoded) {
  const std::lock_guard lock(mu_);
  slot->encoded = std::move(encoded);
  slot->done = true;
  while (!slots_.empty() && slots_.front().done) {
    Slot& head = slots_.front();
    // A cancel or a deadline may have ended the request while it waited for its turn.
    if (head.encoded &&
        head.live->Move(LiveRequest::State::kEncoding, LiveRequest::State::kWaiting)) {
      ready_(*std::move(head.encoded));
    }
    deadlines_.erase({head.live->deadline, &head});
    slots_.pop_front();
  }
}

}  // namespace ropeway::engine
