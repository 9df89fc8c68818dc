// The gateway's world: the real Dispatcher in virtual time, with seeded backends that die, hang,
// lie, refuse and return, and clients that cancel.
#ifndef ROPEWAY_SIM_GATEWAY_WORLD_H_
#define ROPEWAY_SIM_GATEWAY_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "core/sequence_state.h"
#include "gateway/dispatcher.h"
#include "gateway_backend_double.h"
#include "gateway_checks.h"
#include "gateway_setup.h"

namespace ropeway::sim {

struct GatewayReport {
  std::map<std::string, std::string> violations;  // Check -> what was seen first.
  uint64_t digest = 0;                            // Of everything that happened, in order.
  // By what was counted. A name is there, with 0, also if it never happened.
  std::map<std::string_view, uint64_t> counts;
};

// Runs the seed twice and compares. The report is the first run's with all violations.
GatewayReport RunGatewaySeed(uint64_t seed, GatewayPlant plant, bool verbose);

class GatewayWorld final : private SimBackendEvents {
 public:
  GatewayWorld(const GatewaySetup& setup, bool verbose);

  GatewayReport Run();

 private:
  struct Input {
    enum class Kind { kArrival, kCancel, kProbe, kTrouble, kLate };
    Kind kind = Kind::kArrival;
    int index = 0;         // kArrival: of the request; kProbe, kTrouble: of the backend.
    int user = 0;          // kArrival.
    int tries = 0;         // kArrival: that were rejected.
    RequestId id = 0;      // kCancel, kLate.
    uint32_t attempt = 0;  // kLate: that was cancelled.
    uint64_t probe = 0;    // kProbe.
    int model = 0;         // kProbe: that answers.
    StatusOr<BackendFacts> facts = BackendFacts();  // kProbe.
  };

  // SimBackendEvents.
  void OnTokens(int backend, const SimAttempt& attempt, int32_t tokens) override;
  void OnDone(int backend, const SimAttempt& attempt) override;
  void OnFailed(int backend, const SimAttempt& attempt, Outcome failure) override;

  void At(base::Duration after, Input input) { inbox_.emplace(now_ + after, std::move(input)); }
  base::TimePoint NextTime() const;
  void Deliver(Input input);
  void Arrive(const Input& input);
  // Adds a client's requests. `accepted`: how many of the first ones the dispatcher has then.
  Status AddAll(const std::vector<GatewayRequest>& made, size_t* accepted);
  void Accept(GatewayRequest made, int user);
  void Cancel(RequestId id);
  void Change(int backend);
  void Stale(RequestId id, uint32_t attempt);
  // Calls the dispatcher's Run and does what it says.
  void RunDispatcher();
  void Do(const gateway::Decision& decision);
  void Send(const gateway::Decision& decision);
  void Probe(const gateway::Decision& decision);
  // The attempt is cancelled at its backend; perhaps it answers all the same.
  void CancelAttempt(RequestId id, int backend, uint32_t attempt);
  void End(RequestId id, GatewayEnd end, const Status& status);
  bool IsAtBackend(const SimAttempt& attempt, int backend);
  bool IsPlanted(GatewayPlant plant) const { return setup_.plant == plant; }
  void Count(std::string_view what, uint64_t n = 1) { counts_[what] += n; }
  void CountAll();
  void Trace(uint64_t value) { digest_ = base::Mix64(digest_, value); }
  void Say(const std::string& what) const;

  const GatewaySetup setup_;
  const bool verbose_;
  base::SeededRandom random_;
  base::TimePoint now_{};
  gateway::Dispatcher dispatcher_;
  std::vector<std::unique_ptr<SimBackend>> backends_;
  std::vector<int> reported_;                    // Places, by backend.
  std::vector<bool> draining_;                   // By backend.
  std::multimap<base::TimePoint, Input> inbox_;  // Equal times keep their order.
  GatewayChecks checks_;
  bool changed_ = true;  // Run is to be called.
  int next_request_ = 0;
  int arrivals_ = 0;  // In the inbox.
  base::TimePoint last_arrival_{};
  RequestId last_id_ = 0;
  uint64_t digest_ = 0;
  std::map<std::string_view, uint64_t> counts_;
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_GATEWAY_WORLD_H_
