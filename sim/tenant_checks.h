// Checks of what tenants get beside a hostile one, from outside.
#ifndef ROPEWAY_SIM_TENANT_CHECKS_H_
#define ROPEWAY_SIM_TENANT_CHECKS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "engine/engine_core.h"
#include "setup.h"

namespace ropeway::sim {

// In a setup with a hostile tenant (Setup::hostile): kHostile does its worst, kLight sends a short
// request now and then, and kBusy always has more requests than slots. The checks, by the name
// under which a violation is reported:
//   tenant_turn      an honest tenant had a request and no work for more steps in a row than its
//                    turn may take
//   tenant_share     while both always had requests waiting, kBusy had less than kLeastShare of
//                    what kHostile had: of each the largest of its parts of slots, blocks and
//                    time; with Hostile::kPrompts, where both have prompts computed, of time
//   tenant_rejected  a request of kLight was rejected, for another tenant's backlog
//   encoding_turn    a short text of kLight waited for more pieces of others than its turn may take
//   encoding_share   with Hostile::kEncoding, in place of tenant_share: while both always had texts
//                    waiting, kBusy had less than kLeastShare of kHostile's time
class TenantChecks {
 public:
  using ViolateFn = std::function<void(const std::string& check, const std::string& message)>;

  static constexpr double kLeastShare = 0.7;

  // `time_of`: what the device took for this part of a step.
  TenantChecks(const Setup& setup, ViolateFn violate,
               std::function<base::Duration(const core::StepContent::Item&)> time_of)
      : setup_(setup), violate_(std::move(violate)), time_of_(std::move(time_of)) {}

  // A text came to be encoded; a piece of it took so long; it is encoded, `waited` after it came.
  void OnText(RequestId id);
  void OnPiece(RequestId id, base::Duration took);
  void OnEncoded(RequestId id, base::Duration waited);
  void OnAdd(const SimRequest& made, const Status& answer);
  void OnEvent(const engine::CoreEvent& event);
  void AfterStep(const engine::CoreStats& stats, const core::StepContent& content,
                 base::TimePoint end);
  void AtEnd();

  // The steps in a row that a tenant may go without work: kMinRunSteps, a quantum in which another
  // one holds a single slot, and four urgent steps; and again what is computed again.
  static constexpr int kMostSteps = 8 + 64 + 4 + 16;
  // The pieces until a text of one piece is encoded: the one that runs, its own, and two of each
  // other tenant, as the last one of its own tenant counts.
  static constexpr int kMostPieces = 1 + 1 + 2 * (kNumSimTenants - 1);

 private:
  struct Request {
    int tenant = 0;
    bool waits = true;
    int32_t positions = 0;  // Computed; its blocks hold them while it runs.
  };
  struct Usage {
    double slots = 0.0;
    double blocks = 0.0;
    double time = 0.0;
  };

  const Setup& setup_;
  const ViolateFn violate_;
  const std::function<base::Duration(const core::StepContent::Item&)> time_of_;
  std::map<RequestId, Request> requests_;  // Those that have not ended.
  std::array<int, kNumSimTenants> idle_{};
  std::array<Usage, kNumSimTenants> usage_{};
  int64_t measured_ = 0;                                   // Steps.
  std::array<int, kNumSimTenants> texts_{};                // That are not encoded.
  std::array<base::Duration, kNumSimTenants> encoding_{};  // While kHostile and kBusy have some.
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_TENANT_CHECKS_H_
