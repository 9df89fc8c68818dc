// The prompt pool in virtual time: texts are encoded by a thread beside the steps.
#ifndef ROPEWAY_SIM_ENCODER_H_
#define ROPEWAY_SIM_ENCODER_H_

#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/fair_pool.h"
#include "setup.h"
#include "tenant_checks.h"

namespace ropeway::sim {

// In the order of base::FairQueue. What a text takes is EncodingTime.
class SimEncoder {
 public:
  // The text of `made` is encoded at `at`, which may be a moment before or after now.
  using DoneFn = std::function<void(SimRequest made, base::TimePoint at)>;

  // All must outlive it.
  SimEncoder(const Setup& setup, const base::VirtualClock* clock, TenantChecks* checks, DoneFn done)
      : setup_(setup), clock_(clock), checks_(checks), done_(std::move(done)) {}

  void Add(SimRequest made);
  // Does the pieces that begin by now.
  void Run();
  // The end of the piece that runs; max: none does.
  base::TimePoint next() const { return piece_.empty() ? base::TimePoint::max() : end_; }

 private:
  struct Text {
    SimRequest made;
    base::TimePoint came{};
    base::Duration left{};
  };

  // A piece of it, from begin_ on; whether it is the last one.
  bool Encode(Text* text);

  const Setup& setup_;
  const base::VirtualClock* const clock_;
  TenantChecks* const checks_;
  const DoneFn done_;
  base::FairQueue queue_;
  base::FairQueue::Handle piece_;  // The job with a piece that runs; empty: none.
  base::TimePoint begin_{0};       // When that piece began.
  base::TimePoint end_{0};         // When that piece ends.
  base::PieceEnd last_ = false;    // Whether that piece is the last one of its text.
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_ENCODER_H_
