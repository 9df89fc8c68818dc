// Checks of the masks of each step, by the times that they took and by what the executor gets.
#ifndef ROPEWAY_SIM_MASK_CHECKS_H_
#define ROPEWAY_SIM_MASK_CHECKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "core/batch.h"
#include "engine/engine_core.h"

namespace ropeway::sim {

// The checks, by the name under which a violation is reported:
//   mask_time  a step began another mask when its masks had taken MaskFiller::kMostTime, or did not
//              count what they took
//   mask_turn  a request had to wait for its mask although no more were before it
class MaskChecks {
 public:
  using ViolateFn = std::function<void(const std::string& check, const std::string& message)>;

  explicit MaskChecks(ViolateFn violate) : violate_(std::move(violate)) {}

  // The executor has computed the batch.
  void OnComputed(const core::Batch& batch);
  void OnEvent(const engine::CoreEvent& event);
  void OnKill();
  // `times`: of the step's masks, in order.
  void AfterStep(const engine::CoreStats& stats, std::span<const base::Duration> times);

 private:
  struct Turn {
    int64_t waited = 0;  // Computed steps in a row that it sat out.
    int64_t before = 0;  // Others that were there when it began to wait.
  };

  const ViolateFn violate_;
  std::map<RequestId, Turn> turns_;  // Of those that asked for a mask since they run.
  base::Duration time_{};            // CoreStats::mask_time.
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_MASK_CHECKS_H_
