#include "scheduler/prefill_budget.h"

#include <algorithm>

namespace ropeway {
namespace {

// Of a step's budget prefills get so much whatever the decodes cost.
constexpr double kLeastPart = 1.0 / 8;
// A few decodes are bound by memory: so much more costs their step little (docs/scheduling.md).
constexpr double kSpare = 16;
// Of many decodes' cost, what prefills may add: a step takes at most about three times as long.
constexpr double kMixedPart = 2;

}  // namespace

void PrefillBudget::Begin(double decode_cost, bool after_urgent) {
  high_ = std::max(options_.all - decode_cost, kLeastPart * options_.all);
  others_ = high_;
  if (after_urgent) high_ = std::min(high_, std::max(kUrgent, kMixedPart * decode_cost));
  if (options_.mixed > 0 && decode_cost > 0) {
    others_ = std::min(others_, std::max(options_.mixed, kMixedPart * decode_cost));
  }
  long_ = others_;
  if (decode_cost > 0) {
    long_ = std::min(options_.long_ones, std::max(kSpare, kMixedPart * decode_cost));
  }
}

void PrefillBudget::BeginUrgent(double decode_cost, double first_need) {
  Begin(decode_cost, false);
  high_ = std::min(high_, std::max(kUrgent, first_need));
  long_ = high_;  // The first may be the rest of a long one.
  others_ = 0;
}

double PrefillBudget::For(bool high, bool is_long) const {
  const double budget = high ? high_ : others_;
  return is_long ? std::min(budget, long_) : budget;
}

void PrefillBudget::Spend(double cost, bool is_long) {
  high_ -= cost;
  others_ -= cost;
  if (is_long) long_ -= cost;
}

}  // namespace ropeway
