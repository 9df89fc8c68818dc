#include "kvcache/read_cost.h"

#include <algorithm>

namespace ropeway {
namespace {

// Weight of the newest measurement.
constexpr double kWeight = 0.2;
// Assumed until measured: a slow disk.
constexpr double kAssumedSecondsPerByte = 1.0 / 100e6;
constexpr double kMostSeconds = 20;

void Learn(double value, double* mean) {
  *mean = *mean == 0 ? value : *mean + kWeight * (value - *mean);
}

}  // namespace

void ReadCost::OnRead(int64_t bytes, Duration took) {
  if (bytes <= 0) return;
  // A clock too coarse to see the read must not look like "not measured".
  const double seconds = std::max(ToSeconds(took), 1e-9);
  Learn(seconds / static_cast<double>(bytes), &seconds_per_byte_);
}

void ReadCost::OnPrefill(int32_t tokens, Duration took) {
  if (tokens <= 0 || took <= Duration{}) return;
  Learn(ToSeconds(took) / tokens, &seconds_per_token_);
}

bool ReadCost::ReadIsCheaper(int64_t bytes, int32_t tokens) {
  const bool known = seconds_per_byte_ > 0 && seconds_per_token_ > 0;
  if (!known || static_cast<double>(bytes) * seconds_per_byte_ < tokens * seconds_per_token_) {
    refused_ = 0;
    return true;
  }
  if (++refused_ <= kProbeAfter) return false;
  refused_ = 0;
  return true;
}

Duration ReadCost::ReadLimit(int64_t bytes) const {
  const double each = seconds_per_byte_ > 0 ? seconds_per_byte_ : kAssumedSecondsPerByte;
  const double seconds = std::min(kMostSeconds, 10 * each * static_cast<double>(bytes));
  const auto limit = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return std::max(kLeastLimit, limit);
}

}  // namespace ropeway
