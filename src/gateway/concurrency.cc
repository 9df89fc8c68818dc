#include "gateway/concurrency.h"

#include <algorithm>
#include <utility>

namespace ropeway::gateway {

void LearnedPlaces::set_most(int most, bool start_there) {
  most_ = std::max(1, most);
  limit_ = start_there ? most_ : Bounded(limit_);
}

void LearnedPlaces::OnFirstByte(base::Duration took, int32_t prompt_tokens, base::TimePoint now) {
  if (tries_ == kTries && now - took < fell_) {  // It says nothing of the last try.
    ++earlier_;
    return;
  }
  const int32_t tokens = std::max(prompt_tokens, kLeastPrompt);
  if (num_samples_ < kMaxSamples) {
    samples_[num_samples_++] = base::ToSeconds(took) / tokens;
    prompt_tokens_ += tokens;
  }
  EndSample(now);
}

void LearnedPlaces::OnFailure(base::TimePoint now) {
  ++failures_;
  EndSample(now);
}

void LearnedPlaces::OnBusy(int in_flight, base::TimePoint now) {
  if (now < next_busy_) return;
  next_busy_ = now + kPause;
  tries_ = 0;
  BeginWindow(Fewer(std::min(limit_, std::max(in_flight, 1))), now);
}

void LearnedPlaces::BeginWindow(int limit, base::TimePoint now) {
  const int before = std::exchange(limit_, Bounded(limit));
  if (limit_ < before) fell_ = now;
  full_ = false;
  count_ = failures_ = earlier_ = 0;
  num_samples_ = 0;
  prompt_tokens_ = 0.0;
}

void LearnedPlaces::EndSample(base::TimePoint now) {
  if (++count_ < std::max(kWindow, limit_ / 2)) return;
  const bool grown = HasGrown() && by_latency_;
  if (others_at_ > 0.0 && median_ < kHelped * others_at_) others_at_ = 0.0;  // They are gone.
  const bool failing = failures_ > kFailures * (count_ + earlier_);
  if (failing || !grown) tries_ = 0;
  if (failing) {
    BeginWindow(Fewer(limit_), now);
  } else if (grown) {
    BeginWindow(OthersWait() ? fell_from_ : Fewer(limit_), now);
  } else {
    const int most = others_at_ > 0.0 ? std::max(limit_, fell_from_) : most_;
    BeginWindow(full_ ? std::min(limit_ + kIncrease, most) : limit_, now);
  }
}

bool LearnedPlaces::OthersWait() {
  if (tries_ == kTries && median_ > kHelped * fell_at_) {
    tries_ = 0;
    least_seconds_ = others_at_ = median_;
    return true;
  }
  if (tries_ == 0 || tries_ == kTries) {
    tries_ = 0;
    fell_at_ = median_;
    fell_from_ = limit_;
  }
  ++tries_;
  return false;
}

bool LearnedPlaces::HasGrown() {
  if (num_samples_ == 0) return false;
  const auto middle = static_cast<std::ptrdiff_t>(num_samples_ / 2);
  const auto end = samples_.begin() + static_cast<std::ptrdiff_t>(num_samples_);
  std::nth_element(samples_.begin(), samples_.begin() + middle, end);
  const double median = median_ = samples_[num_samples_ / 2];
  const double mean_prompt = prompt_tokens_ / static_cast<double>(num_samples_);
  const bool grown = least_seconds_ > 0.0 && median > kGrown * least_seconds_ &&
                     (median - least_seconds_) * mean_prompt > kLeastGrowth;
  const double forgotten = least_seconds_ * kForget;
  least_seconds_ = least_seconds_ > 0.0 ? std::min(forgotten, median) : median;
  return grown;
}

}  // namespace ropeway::gateway
