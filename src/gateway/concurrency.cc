#include "gateway/concurrency.h"

#include <algorithm>

namespace ropeway::gateway {

void LearnedPlaces::set_most(int most, bool start_there) {
  most_ = std::max(1, most);
  limit_ = start_there ? most_ : Bounded(limit_);
}

void LearnedPlaces::OnFirstByte(base::Duration took, int32_t prompt_tokens) {
  const int32_t tokens = std::max(prompt_tokens, kLeastPrompt);
  if (num_samples_ < kMaxSamples) {
    samples_[num_samples_++] = base::ToSeconds(took) / tokens;
    prompt_tokens_ += tokens;
  }
  EndSample();
}

void LearnedPlaces::OnFailure() {
  ++failures_;
  EndSample();
}

void LearnedPlaces::OnBusy(int in_flight, base::TimePoint now) {
  if (now < next_busy_) return;
  next_busy_ = now + kPause;
  Decrease(std::min(limit_, std::max(in_flight, 1)));
}

void LearnedPlaces::Decrease(int from) {
  limit_ = Bounded(static_cast<int>(kDecrease * from));
  full_ = false;
  count_ = failures_ = 0;
  num_samples_ = 0;
  prompt_tokens_ = 0.0;
}

void LearnedPlaces::EndSample() {
  if (++count_ < std::max(kWindow, limit_ / 2)) return;
  const bool grown = HasGrown();  // Notes the median, whatever else decides.
  if (failures_ > kFailures * count_ || (grown && by_latency_)) {
    Decrease(limit_);
    return;
  }
  if (full_) limit_ = std::min(most_, limit_ + kIncrease);
  full_ = false;
  count_ = failures_ = 0;
  num_samples_ = 0;
  prompt_tokens_ = 0.0;
}

bool LearnedPlaces::HasGrown() {
  if (num_samples_ == 0) return false;
  const auto middle = static_cast<std::ptrdiff_t>(num_samples_ / 2);
  const auto end = samples_.begin() + static_cast<std::ptrdiff_t>(num_samples_);
  std::nth_element(samples_.begin(), samples_.begin() + middle, end);
  const double median = samples_[num_samples_ / 2];
  const double mean_prompt = prompt_tokens_ / static_cast<double>(num_samples_);
  const bool grown = least_seconds_ > 0.0 && median > kGrown * least_seconds_ &&
                     (median - least_seconds_) * mean_prompt > kLeastGrowth;
  const double forgotten = least_seconds_ * kForget;
  least_seconds_ = least_seconds_ > 0.0 ? std::min(forgotten, median) : median;
  return grown;
}

}  // namespace ropeway::gateway
