#include "engine/front_end.h"

#include <exception>
#include <string>
#include <utility>

namespace ropeway {

FrontEnd::FrontEnd(const PromptEncoder* encoder, int threads, size_t capacity, ReadyFn ready,
                   RefusedFn refused)
    : encoder_(encoder),
      ready_(std::move(ready)),
      refused_(std::move(refused)),
      pool_(threads, capacity) {}

bool FrontEnd::TryAdd(std::shared_ptr<LiveRequest> live) {
  const uint64_t place = next_place_;
  if (!pool_.TryAdd([this, place, live = std::move(live)] { Prepare(place, live); })) return false;
  ++next_place_;
  return true;
}

void FrontEnd::Stop() { pool_.Stop(); }

void FrontEnd::Prepare(uint64_t place, const std::shared_ptr<LiveRequest>& live) {
  Complete(place, Encode(live));
}

// What goes wrong in one request (its template, its memory) ends that request alone.
std::optional<FrontEnd::Prepared> FrontEnd::Encode(const std::shared_ptr<LiveRequest>& live) {
  if (live->stage.load() == LiveRequest::Stage::kEnded) return std::nullopt;
  try {
    StatusOr<CoreRequest> core = encoder_->Encode(live.get());
    if (core.ok()) return Prepared{live, *std::move(core)};
    Refuse(live, core.status());
  } catch (const std::bad_alloc&) {
    Refuse(live, {StatusCode::kResourceExhausted, "not enough memory to encode the prompt"});
  } catch (const std::exception& e) {
    Refuse(live, {StatusCode::kInternal, std::string("encoding the prompt failed: ") + e.what()});
  }
  return std::nullopt;
}

void FrontEnd::Refuse(const std::shared_ptr<LiveRequest>& live, Status status) {
  if (live->EndInFrontEnd()) refused_(live, std::move(status));
}

void FrontEnd::Complete(uint64_t place, std::optional<Prepared> prepared) {
  const std::lock_guard lock(mu_);
  waiting_.emplace(place, std::move(prepared));
  for (auto it = waiting_.begin(); it != waiting_.end() && it->first == head_; ++head_) {
    // A cancel that came while it waited for its turn has ended it.
    if (it->second && it->second->live->HandOver()) ready_(*std::move(it->second));
    it = waiting_.erase(it);
  }
}

}  // namespace ropeway
