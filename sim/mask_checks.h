// Checks of the masks of each step, by what they took and by what the executor gets.
#ifndef ROPEWAY_SIM_MASK_CHECKS_H_
#define ROPEWAY_SIM_MASK_CHECKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "core/batch.h"
#include "engine/engine_core.h"
#include "masks.h"

namespace ropeway::sim {

// The checks, by the name under which a violation is reported:
//   mask_time   a step began another mask, or accepted another id again, when these had taken
//               MaskFiller::kMostTime, or did not count what it took
//   mask_turn   a request had to wait for its mask for more than twice as many steps as requests
//               may run at once
//   mask_order  a request that had cheap masks alone was put off behind one whose last mask was
//               dear, and that had not waited for as many steps as requests may run
class MaskChecks {
 public:
  using ViolateFn = std::function<void(const std::string& check, const std::string& message)>;

  // `max_num_seqs`: that run at once.
  MaskChecks(int max_num_seqs, ViolateFn violate)
      : max_num_seqs_(max_num_seqs), violate_(std::move(violate)) {}

  // The executor has computed the batch.
  void OnComputed(const core::Batch& batch);
  void OnEvent(const engine::CoreEvent& event);
  void OnKill();
  // `work`: of the step, in order.
  void AfterStep(const engine::CoreStats& stats, std::span<const MaskWork> work);

  // Turns that ended before all ids were accepted again.
  uint64_t cut_turns() const { return cut_turns_; }

 private:
  // A request that asked for a mask since it runs.
  struct Turn {
    int64_t waited = 0;      // Computed steps in a row in which nothing was done for it.
    uint64_t asked = 0;      // The step in which it was first put off; 0: it was not.
    bool known = false;      // It had a turn.
    bool is_cheap = true;    // So was each of its turns.
    bool last_dear = false;  // So was the last one.
  };

  void CheckTimes(const engine::CoreStats& stats, std::span<const MaskWork> work);
  void CheckOrder(uint64_t step, const std::map<RequestId, base::Duration>& turns);

  const int max_num_seqs_;
  const ViolateFn violate_;
  std::map<RequestId, Turn> turns_;
  bool computed_ = false;           // This step.
  std::vector<RequestId> put_off_;  // In this step.
  base::Duration time_{};           // CoreStats::mask_time.
  uint64_t cut_turns_ = 0;
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_MASK_CHECKS_H_
