#include "engine/front_end.h"

#include <exception>
#include <utility>

#include "engine/failure.h"

namespace ropeway {

FrontEnd::FrontEnd(const PromptEncoder* encoder, const Clock* clock, int threads, size_t capacity,
                   ReadyFn ready, RefusedFn refused)
    : encoder_(encoder),
      clock_(clock),
      ready_(std::move(ready)),
      refused_(std::move(refused)),
      pool_(threads, capacity, "ropeway-front") {}

bool FrontEnd::TryAdd(const std::shared_ptr<LiveRequest>& live) {
  // Held to the end: nobody may refuse a request that was not taken.
  const std::lock_guard lock(mu_);
  Place* const place = &places_.emplace_back(Place{live, std::nullopt, false});
  const auto drop = [this, place] {
    deadlines_.erase({place->live->deadline, place});
    places_.pop_back();
  };
  try {
    if (live->deadline != TimePoint::max()) deadlines_.emplace(live->deadline, place);
    if (pool_.TryAdd([this, place] { Prepare(place); })) return true;
  } catch (const std::bad_alloc&) {
    drop();
    throw;
  }
  drop();
  return false;
}

void FrontEnd::Stop() { pool_.Stop(); }

void FrontEnd::Prepare(Place* place) {
  RefuseOverdue();
  std::optional<Prepared> prepared = Encode(place->live);
  RefuseOverdue();
  Complete(place, std::move(prepared));
}

// What goes wrong in one request (its template, its memory) ends that request alone.
std::optional<FrontEnd::Prepared> FrontEnd::Encode(const std::shared_ptr<LiveRequest>& live) {
  if (live->stage.load() == LiveRequest::Stage::kEnded) return std::nullopt;
  try {
    StatusOr<CoreRequest> core = encoder_->Encode(live.get());
    if (core.ok()) return Prepared{live, *std::move(core)};
    Refuse(live, core.status());
  } catch (const std::exception&) {
    Refuse(live, CurrentFailure("encoding the prompt"));
  }
  return std::nullopt;
}

void FrontEnd::Refuse(const std::shared_ptr<LiveRequest>& live, Status status) {
  if (live->EndInFrontEnd()) refused_(live, std::move(status));
}

void FrontEnd::RefuseOverdue() {
  const TimePoint now = clock_->Now();
  while (true) {
    std::shared_ptr<LiveRequest> live;
    {
      const std::lock_guard lock(mu_);
      if (deadlines_.empty() || deadlines_.begin()->first > now) return;
      live = deadlines_.begin()->second->live;
      deadlines_.erase(deadlines_.begin());
    }
    Refuse(live, RequestTimeout());
  }
}

void FrontEnd::Complete(Place* place, std::optional<Prepared> prepared) {
  const std::lock_guard lock(mu_);
  place->prepared = std::move(prepared);
  place->done = true;
  while (!places_.empty() && places_.front().done) {
    Place& head = places_.front();
    // A cancel or a deadline that came while it waited for its turn has ended it.
    if (head.prepared && head.live->HandOver()) ready_(*std::move(head.prepared));
    deadlines_.erase({head.live->deadline, &head});
    places_.pop_front();
  }
}

}  // namespace ropeway
