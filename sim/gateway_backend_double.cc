#include "gateway_backend_double.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ropeway::sim {
namespace {

constexpr int32_t kMostTokensAtOnce = 4;
constexpr int64_t kSlower = 20;  // Trouble::kSlow.

}  // namespace

Outcome SimBackend::Failure(FailureKind kind, const char* why) {
  const bool rejects = kind == FailureKind::kRejected;
  return Outcome::Failed(kind,
                         {rejects ? StatusCode::kInvalidArgument : StatusCode::kUnavailable, why});
}

base::Duration SimBackend::TimeFor(int64_t tokens, int64_t token_us) const {
  const int64_t slower = trouble_ == Trouble::kSlow ? kSlower : 1;
  return std::chrono::microseconds(std::max<int64_t>(1, tokens) * token_us * slower);
}

void SimBackend::Refuse(const SimAttempt& attempt, Outcome failure, base::TimePoint now) {
  refused_.push_back({attempt, std::move(failure), now + std::chrono::milliseconds(1)});
}

void SimBackend::Send(SimAttempt attempt, base::TimePoint now) {
  using Kind = FailureKind;
  int room = setup_.slots + setup_.line;
  if (setup_.preempts) room += (setup_.slots + 1) / 2;
  if (random_.Chance(setup_.breaks) || trouble_ == Trouble::kBroken) {
    attempt.breaks_at = random_.Chance(0.5)
                            ? attempt.done
                            : static_cast<int32_t>(random_.Between(attempt.done, attempt.length));
  }
  if (trouble_ == Trouble::kDie) {
    Refuse(attempt, Failure(Kind::kUnreachable, "connection refused"), now);
  } else if (told_ >= 0 && told_ != model_) {
    Refuse(attempt, Failure(Kind::kUnreachable, "it is another model now"), now);
  } else if (attempt.bad) {
    Refuse(attempt, Failure(Kind::kRejected, "it makes no sense"), now);
  } else if (trouble_ == Trouble::kBusy || trouble_ == Trouble::kUnready ||
             static_cast<int>(slots_.size() + line_.size()) >= room) {
    Outcome busy = Failure(Kind::kBusy, "too many requests");
    busy.status.set_retry_after_seconds(static_cast<int>(random_.Below(3)));
    Refuse(attempt, std::move(busy), now);
  } else if (setup_.preempts && attempt.urgent && static_cast<int>(slots_.size()) >= setup_.slots) {
    MakeRoomFor(attempt, now);
  } else {
    line_.push_back(attempt);
    FillSlots(now);
  }
}

void SimBackend::MakeRoomFor(const SimAttempt& attempt, base::TimePoint now) {
  const auto victim = std::find_if(slots_.begin(), slots_.end(),
                                   [](const Slot& slot) { return !slot.attempt.urgent; });
  if (victim == slots_.end()) {
    line_.push_back(attempt);
    return;
  }
  line_.push_front(victim->attempt);
  slots_.erase(victim);
  Begin(attempt, now);
}

void SimBackend::Cancel(RequestId id, uint32_t attempt, base::TimePoint now) {
  const auto is = [&](const SimAttempt& one) { return one.id == id && one.attempt == attempt; };
  std::erase_if(slots_, [&](const Slot& slot) { return is(slot.attempt); });
  std::erase_if(line_, is);
  std::erase_if(refused_, [&](const Refused& refused) { return is(refused.attempt); });
  FillSlots(now);
}

void SimBackend::Begin(const SimAttempt& attempt, base::TimePoint now) {
  slots_.push_back({attempt, now + TimeFor(attempt.prompt, setup_.prompt_us)});
}

void SimBackend::FillSlots(base::TimePoint now) {
  while (static_cast<int>(slots_.size()) < setup_.slots && !line_.empty()) {
    Begin(line_.front(), now);
    line_.pop_front();
  }
}

base::TimePoint SimBackend::next_step() const {
  base::TimePoint next = base::TimePoint::max();
  for (const Refused& refused : refused_) next = std::min(next, refused.at);
  if (trouble_ == Trouble::kHang) return next;
  for (const Slot& slot : slots_) next = std::min(next, slot.next);
  return next;
}

void SimBackend::Step(base::TimePoint now) {
  for (size_t i = 0; i < refused_.size(); ++i) {
    if (refused_[i].at > now) continue;
    const Refused refused = refused_[i];
    refused_.erase(refused_.begin() + static_cast<std::ptrdiff_t>(i));
    events_->OnFailed(index_, refused.attempt, refused.failure);
    return;  // What follows from it comes first.
  }
  if (trouble_ == Trouble::kHang) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].next > now) continue;
    StepSlot(i, now);
    return;
  }
}

void SimBackend::StepSlot(size_t index, base::TimePoint now) {
  SimAttempt& attempt = slots_[index].attempt;
  const SimAttempt before = attempt;
  const auto leave = [&] {
    slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(index));
    FillSlots(now);
  };
  if (attempt.breaks_at >= 0 && attempt.done >= attempt.breaks_at) {
    leave();
    events_->OnFailed(index_, before, Failure(FailureKind::kBroken, "the stream was cut"));
    return;
  }
  if (attempt.done >= attempt.length && attempt.breaks_at < 0) {  // Only its end was missing.
    leave();
    events_->OnDone(index_, before);
    return;
  }
  const int32_t most = std::min(kMostTokensAtOnce, attempt.length - attempt.done);
  auto tokens = static_cast<int32_t>(random_.Between(1, std::max(1, most)));
  tokens = std::min(tokens, attempt.length - attempt.done);
  if (attempt.breaks_at >= 0) tokens = std::min(tokens, attempt.breaks_at - attempt.done);
  attempt.done += tokens;
  slots_[index].next = now + TimeFor(tokens, setup_.output_us);
  const SimAttempt after = attempt;
  const bool done = after.done >= after.length && after.breaks_at < 0;
  if (done) leave();
  events_->OnTokens(index_, before, tokens);
  if (done) events_->OnDone(index_, after);
}

void SimBackend::SetTrouble(Trouble trouble, base::TimePoint now) {
  const bool dies = trouble == Trouble::kDie;
  const bool hung = trouble_ == Trouble::kHang;
  trouble_ = trouble;
  trouble_since_ = now;
  answers_probes_ = random_.Chance(0.3);
  if (hung) {
    for (Slot& slot : slots_) slot.next = std::max(slot.next, now);
  }
  if (!dies) return;
  for (const Slot& slot : slots_) {
    Refuse(slot.attempt, Failure(FailureKind::kBroken, "connection reset"), now);
  }
  for (const SimAttempt& attempt : line_) {
    Refuse(attempt, Failure(FailureKind::kUnreachable, "connection reset"), now);
  }
  slots_.clear();
  line_.clear();
  // What comes back may be another one.
  if (random_.Chance(0.2)) model_ = 1 - model_;
}

std::optional<StatusOr<BackendFacts>> SimBackend::Probe() {
  if (trouble_ == Trouble::kDie) {
    return StatusOr<BackendFacts>(Status(StatusCode::kUnavailable, "connection refused"));
  }
  if (trouble_ == Trouble::kHang && !answers_probes_) return std::nullopt;
  BackendFacts facts;
  facts.ready = trouble_ != Trouble::kUnready;
  if (!facts.ready) facts.reason = "it loads its model";
  // As of a backend that cannot resume, which GatewayBackend takes to be of no known model.
  if (setup_.resumes) facts.model_digest = model_ == 0 ? "digest 0" : "digest 1";
  facts.numerics = "3";
  facts.limits = "2048";
  if (setup_.reports) {
    facts.preempts = setup_.preempts;
    facts.shares_tenants = setup_.shares;
    facts.places = setup_.slots;
    facts.running = static_cast<int>(slots_.size());
    facts.waiting = static_cast<int>(line_.size());
    facts.free_memory = static_cast<double>(random_.Below(100)) / 100.0;
  }
  if (trouble_ == Trouble::kLiar) {
    facts.places = static_cast<int>(random_.Between(-5, 1'000'000));
    facts.running = static_cast<int>(random_.Between(-5, 1'000'000));
    facts.waiting = static_cast<int>(random_.Between(-5, 2'000'000'000));
    facts.free_memory = 7.0;
  }
  return StatusOr<BackendFacts>(facts);
}

}  // namespace ropeway::sim
