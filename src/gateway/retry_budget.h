// How many requests may be sent a second time.
#ifndef ROPEWAY_GATEWAY_RETRY_BUDGET_H_
#define ROPEWAY_GATEWAY_RETRY_BUDGET_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/clock.h"

namespace ropeway::gateway {

struct RetryBudgetOptions {
  double part = 0.1;        // Retries per request, at most; 0 to 1.
  double per_second = 5.0;  // And so many besides, however few requests there are; above 0.
};

// A token bucket: each new request puts in `part` of a token, each second `per_second`, and a retry
// takes one. It holds what kSeconds bring, at most, and begins full. So over any time T with N new
// requests there are at most
//
//     kSeconds x per_second + part x N + per_second x T
//
// retries (kLeastTokens instead of the first term if that is more): backends that fail get at most
// a tenth more work than without retries, not many times as much.
//
// Thread rule: one thread at a time.
class RetryBudget {
 public:
  static constexpr double kSeconds = 2.0;
  static constexpr double kLeastTokens = 4.0;

  explicit RetryBudget(const RetryBudgetOptions& options)
      : options_(options),
        most_(std::max(kLeastTokens, kSeconds * options.per_second)),
        tokens_(most_) {}

  // A request was sent for the first time.
  void OnRequest(base::TimePoint now) {
    Refill(now);
    tokens_ = std::min(most_, tokens_ + options_.part);
  }

  // Takes a token; false: there is none.
  bool Take(base::TimePoint now) {
    Refill(now);
    if (tokens_ < 1.0) return false;
    tokens_ -= 1.0;
    return true;
  }

  // When time alone will have brought a token; never before `now`.
  base::TimePoint NextToken(base::TimePoint now) {
    Refill(now);
    if (tokens_ >= 1.0) return now;
    const double seconds = (1.0 - tokens_) / options_.per_second;
    // A nanosecond more than what rounding may leave out.
    return now + base::Duration(static_cast<int64_t>(std::ceil(seconds * 1e9)) + 1);
  }

  double tokens() const { return tokens_; }
  double most() const { return most_; }

 private:
  void Refill(base::TimePoint now) {
    if (now <= filled_) return;
    tokens_ = std::min(most_, tokens_ + options_.per_second * base::ToSeconds(now - filled_));
    filled_ = now;
  }

  const RetryBudgetOptions options_;
  const double most_;
  double tokens_;
  base::TimePoint filled_{};
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_RETRY_BUDGET_H_
