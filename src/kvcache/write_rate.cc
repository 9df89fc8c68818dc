#include "kvcache/write_rate.h"

#include <algorithm>
#include <cmath>

namespace ropeway {
namespace {

constexpr double kFirstBytes = 4 << 20;  // The weight of the first guess.
constexpr double kWindowBytes = 64 << 20;

}  // namespace

WriteRate::WriteRate(const Clock* clock, int64_t bytes_per_second, int cores)
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
  const TimePoint now = clock_->Now();
  const double rate = bytes_per_second();
  tokens_ = std::min(rate * kBucketSeconds, tokens_ + rate * ToSeconds(now - refilled_));
  refilled_ = now;
}

Duration WriteRate::Wait() {
  Refill();
  if (tokens_ >= 0) return Duration(0);
  // Rounded up, so that after this wait the answer is 0.
  const double seconds = std::min(-tokens_ / bytes_per_second(), 3600.0);
  return Duration(static_cast<int64_t>(std::ceil(seconds * 1e9)) + 1);
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

}  // namespace ropeway
