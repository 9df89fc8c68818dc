#include "kvcache/tier_cost.h"

#include <algorithm>
#include <cmath>

namespace ropeway::kvcache {
namespace {

// Weight of the newest measurement.
constexpr double kWeight = 0.2;
// Assumed until measured: a slow disk.
constexpr double kAssumedSecondsPerByte = 1.0 / 100e6;
constexpr double kMostSeconds = 20;

void Learn(double value, double* mean) {
  *mean = *mean == 0 ? value : *mean + kWeight * (value - *mean);
}

constexpr double kFirstBytes = 4 << 20;  // The weight of the first guess.
constexpr double kWindowBytes = 64 << 20;

}  // namespace

void ReadCost::OnRead(int64_t bytes, base::Duration took) {
  if (bytes <= 0) return;
  // A read below the clock's resolution must not look like "not measured".
  const double seconds = std::max(base::ToSeconds(took), 1e-9);
  Learn(seconds / static_cast<double>(bytes), &seconds_per_byte_);
}

void ReadCost::OnPrefill(int32_t tokens, base::Duration took) {
  if (tokens <= 0 || took <= base::Duration{}) return;
  Learn(base::ToSeconds(took) / tokens, &seconds_per_token_);
}

bool ReadCost::ReadIsCheaper(int64_t bytes, int32_t tokens) {
  const bool known = seconds_per_byte_ > 0 && seconds_per_token_ > 0;
  if (!known || static_cast<double>(bytes) * seconds_per_byte_ < tokens * seconds_per_token_) {
    rejected_ = 0;
    return true;
  }
  if (++rejected_ <= kProbeAfter) return false;
  rejected_ = 0;
  return true;
}

base::Duration ReadCost::ReadLimit(int64_t bytes) const {
  const double each = seconds_per_byte_ > 0 ? seconds_per_byte_ : kAssumedSecondsPerByte;
  const double seconds = std::min(kMostSeconds, 10 * each * static_cast<double>(bytes));
  const auto limit =
      std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(seconds));
  return std::max(kLeastLimit, limit);
}

WriteRate::WriteRate(const base::Clock* clock, int64_t bytes_per_second, int cores)
    : clock_(clock),
      fixed_rate_(static_cast<double>(bytes_per_second)),
      cpu_rate_(kCpuShare * cores),
      cost_cpu_(kFirstBytes * kFirstCpuSecondsPerByte),
      cost_bytes_(kFirstBytes),
      tokens_(0),
      refilled_(clock->Now()) {
  tokens_ = this->bytes_per_second() * kBucketSeconds;
}

double WriteRate::bytes_per_second() const {
  if (fixed_rate_ > 0) return fixed_rate_;
  return std::max(1.0, cpu_rate_ * cost_bytes_ / cost_cpu_);
}

void WriteRate::Refill() {
  const base::TimePoint now = clock_->Now();
  const double rate = bytes_per_second();
  tokens_ = std::min(rate * kBucketSeconds, tokens_ + rate * base::ToSeconds(now - refilled_));
  refilled_ = now;
}

base::Duration WriteRate::Wait() {
  Refill();
  if (tokens_ >= 0) return base::Duration(0);
  // Rounded up, so that the next answer is 0.
  const double seconds = std::min(-tokens_ / bytes_per_second(), 3600.0);
  return base::Duration(static_cast<int64_t>(std::ceil(seconds * 1e9)) + 1);
}

void WriteRate::Wrote(size_t bytes, double cpu_seconds) {
  Refill();
  tokens_ -= static_cast<double>(bytes);
  cost_bytes_ += static_cast<double>(bytes);
  cost_cpu_ += std::max(0.0, cpu_seconds);
  if (cost_bytes_ > kWindowBytes) {
    const double keep = kWindowBytes / 2 / cost_bytes_;
    cost_bytes_ *= keep;
    cost_cpu_ *= keep;
  }
}

}  // namespace ropeway::kvcache
