// What one seed stands for in the gateway's world: the dispatcher's options, the backends and what
// befalls them, and the load.
#ifndef ROPEWAY_SIM_GATEWAY_SETUP_H_
#define ROPEWAY_SIM_GATEWAY_SETUP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gateway/dispatcher.h"
#include "policy/scheduling_policy.h"

namespace ropeway::sim {

// Planted bugs, in wrappers around the dispatcher: its options, its policy, and what passes between
// it and the world. CMakeLists.txt names the check that must see each.
enum class GatewayPlant {
  kNone,
  kLost,              // A request never ends.
  kDouble,            // A request ends twice.
  kBudgetIgnored,     // Retries have no budget.
  kPlaceLeaked,       // A request whose client is gone keeps its place.
  kOverfull,          // A replica gets more than its places.
  kClassStarved,      // Class low goes last, and does not age.
  kShareIgnored,      // Classes have an order and no shares.
  kTenantUncharged,   // Nothing of the hostile tenant is charged.
  kPlaceNotKept,      // No place is kept for a tenant that runs nothing.
  kRetryAfterByte,    // That the client has some of the answer is forgotten.
  kDeadGetsRequests,  // Probes of dead replicas are said to be good, and their failures others'.
  kHoldForever,       // Held requests are not ended.
  kOtherModel,        // A replica is taken for another model's.
  kDeadlineMissed,    // A deadline is forgotten.
  kGroupSplit,        // The members of a group are added one by one.
  kBatchForever,      // A batch that does not fill is not sent.
};

const char* GatewayPlantName(GatewayPlant plant);
std::string GatewayPlantNames();  // Of all plants, with spaces between.
std::optional<GatewayPlant> ParseGatewayPlant(std::string_view name);

// How a simulated backend is while nothing befalls it.
struct SimBackendSetup {
  int slots = 4;             // Requests that it computes at once.
  int line = 4;              // Requests that wait there before it says that it is busy.
  int64_t prompt_us = 100;   // The time of a token of a prompt.
  int64_t output_us = 8000;  // The time of a token of an answer.
  bool reports = false;      // Its slots and its load.
  int model = 0;             // Equal ones give the same texts, and go on with each other's.
  bool resumes = true;
  bool preempts = false;  // It lets others wait for urgent requests, and says so.
  bool shares = false;    // Also for a tenant's only request, and says so.
  double breaks = 0.0;    // Part of its answers that break off.
  // Mean times between two troubles, and of a trouble; 0: there are none.
  base::Duration well{};
  base::Duration trouble{};
};

// What befalls a backend:
//   die       it refuses connections, and what it had is cut; it may come back as another model
//   hang      it takes requests and gives nothing; its probes are not answered, or they are
//   slow      it takes twenty times as long
//   unready   it says that it is not ready, and refuses requests as busy
//   busy      it refuses all requests as busy, and its probes are good
//   broken    all its answers break off, and its probes are good
//   liar      it reports places and a load that have nothing to do with what it has
//   drain     the operator drains it
enum class Trouble { kNone, kDie, kHang, kSlow, kUnready, kBusy, kBroken, kLiar, kDrain };
inline constexpr int kNumTroubles = 9;
const char* TroubleName(Trouble trouble);

struct GatewaySetup {
  uint64_t seed = 0;
  GatewayPlant plant = GatewayPlant::kNone;
  gateway::DispatchOptions dispatch;  // As it is to be; see PlantedOptions.
  std::vector<SimBackendSetup> backends;
  // kRandom: by the clock, with all troubles. The others have no troubles, and users that send the
  // next request when the last one ended:
  enum class Load {
    kRandom,
    kShares,   // each class has more to do than its share;
    kTenants,  // two tenants have more to do than their shares, one of them many times as much;
    kOverdue,  // class high has all places, and some of class low wait;
    kHostile,  // one tenant has long requests for all places, another one asks now and then.
  };
  Load load = Load::kRandom;
  int num_requests = 0;       // kRandom.
  int64_t mean_gap_us = 0;    // kRandom: between two arrivals.
  base::Duration duration{};  // Of the others.
  int32_t longest_prompt = 0;
  int32_t longest_output = 0;
  double cancel_share = 0.0;
  double deadline_share = 0.0;
  double bad_share = 0.0;    // Requests that every backend rejects.
  double chat_share = 0.0;   // Requests that go on with a conversation.
  double late_share = 0.0;   // Attempts that were cancelled and answer all the same.
  double group_share = 0.0;  // Clients' requests for several answers (OpenAI's n).
};

GatewaySetup MakeGatewaySetup(uint64_t seed, GatewayPlant plant);
std::string Describe(const GatewaySetup& setup);  // One line.

// The options and the policy as the dispatcher gets them: with what the plant does to them.
gateway::DispatchOptions PlantedOptions(const GatewaySetup& setup);
std::unique_ptr<policy::SchedulingPolicy> MakePlantedPolicy(const GatewaySetup& setup);

// A request as the seed has it.
struct GatewayRequest {
  gateway::DispatchRequest request;  // Without its id.
  uint64_t text = 0;                 // Decides its answer.
  int32_t length = 1;                // Tokens of its answer.
  bool bad = false;
  std::optional<base::Duration> cancel_after;
  std::optional<base::Duration> deadline_after;
};

// The hostile tenant of kTenants and kHostile, and the one beside it.
inline constexpr int kHostileUser = 0;
inline constexpr int kHonestUser = 1;

// What one client asks for at once: a request, or a group of several with one prompt and answers of
// their own. `index` counts from 0. `user`: of kShares the class, of kTenants and kHostile the
// tenant, of kOverdue 0: high.
std::vector<GatewayRequest> MakeGatewayRequests(const GatewaySetup& setup, int index, int user);

// The token at a position of an answer of a model.
uint32_t AnswerToken(int model, uint64_t text, int32_t position);

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_GATEWAY_SETUP_H_
