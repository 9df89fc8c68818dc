// What must hold for every run of the gateway's world, seen from outside the dispatcher: from its
// answers and decisions, and from what the backends and the clients had.
#ifndef ROPEWAY_SIM_GATEWAY_CHECKS_H_
#define ROPEWAY_SIM_GATEWAY_CHECKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gateway/dispatcher.h"
#include "gateway_backend_double.h"
#include "gateway_setup.h"
#include "ropeway/status.h"

namespace ropeway::sim {

// How an accepted request ended.
enum class GatewayEnd { kNone, kComplete, kCancelled, kFailed };

// One accepted request as the outside saw it.
struct GatewayRecord {
  GatewayRequest made;
  int user = 0;
  base::TimePoint accepted{};
  base::TimePoint deadline = base::TimePoint::max();
  GatewayEnd end = GatewayEnd::kNone;
  int backend = -1;  // Where its attempt is; -1: none is under way.
  uint32_t attempt = 0;
  base::TimePoint queued{};  // Since when it has no attempt.
  bool resumes = false;      // Then it is to be resumed.
  uint64_t batch = 0;        // Whose member its attempt is; 0: of none.
  int sends = 0;
  int resumptions = 0;
  int model = -1;  // Of its first token.
  std::vector<uint32_t> text;
  base::TimePoint idle_since = base::TimePoint::max();  // It waits beside a free place.
};

// The checks, by the name under which a violation is reported:
//   integrity        the dispatcher's own bookkeeping
//   no_end           an accepted request never ended
//   two_ends         a request ended twice, or something of it happened after its end
//   stale            an attempt that was over was heard
//   places           a replica has other requests than the dispatcher says, or more than its
//   places;
//                    requests of class high at a replica that preempts do not count
//   retry_budget     more requests were sent again than the budget allows, or one too often
//   after_byte       a request was sent again from the start though its client had some of it
//   resumptions      a request was resumed too often, or where that is not possible
//   same_text        an answer is not what one backend alone would have given
//   dead_replica     a replica got requests though it has long been down
//   held             a request waited for a replica that is alive for longer than hold_timeout, or
//                    one that was to be resumed, longer than resume_wait
//   idle_place       a request waits though a replica has had a free place all the time and, where
//                    requests go out in batches or one by one, the next one was to begin
//   group            of the members of a group some were accepted, and others were not
//   deadline         a request lived on after its deadline, or ended of it before
//   end_fields       an end's status is wrong
//   waited_too_long  a request of a steady load waited for too long
//   shares           a class with more to do than its share did not have it
//   tenant_share     a tenant with more to do than its share did not have it
//   shut_out         a tenant without running requests was rejected, or had to wait for another
//                    one's end though a place is kept for it
//   same_trace       one seed, two traces
class GatewayChecks {
 public:
  explicit GatewayChecks(const GatewaySetup& setup) : setup_(setup) {}

  // The dispatcher was given `asked` requests of one client, has `there` of them now, and said
  // `status`.
  void OnAdded(size_t asked, size_t there, const Status& status);
  void OnAccepted(RequestId id, GatewayRequest made, int user, base::TimePoint now);
  void OnRejected(const Status& status, bool any_alive, int user);
  // `view`: of the replica; `reported`: places that it said it has, the last time; 0: it says none.
  void OnSent(const gateway::Decision& decision, const SimBackend& backend, int reported,
              bool draining, base::TimePoint now);
  // Its attempt is over, and it is not.
  void OnRequeued(RequestId id, bool resumes, base::TimePoint now);
  void OnTokens(RequestId id, int model, int32_t tokens);
  // An attempt that is over was passed to the dispatcher, which heard it or not.
  void OnStale(RequestId id, bool heard);
  void OnEnd(RequestId id, GatewayEnd end, const Status& status, base::TimePoint now);
  // The dispatcher has said what is to be done, and it is done.
  void AfterRun(const gateway::Dispatcher& dispatcher, base::TimePoint now);
  void AtEnd();

  void Violate(const std::string& check, const std::string& message) {
    violations_.emplace(check, message);
  }
  // Null: it was not accepted.
  GatewayRecord* Find(RequestId id);
  const std::map<RequestId, GatewayRecord>& records() const { return records_; }
  // Whether no other request of its tenant is at any backend.
  bool IsAlone(const GatewayRecord& record) const;
  // Those that have not ended.
  const std::map<RequestId, GatewayRecord*>& open() const { return open_; }
  const std::map<std::string, std::string>& violations() const { return violations_; }

 private:
  void CheckBudget(const gateway::Decision& decision, GatewayRecord* record, base::TimePoint now);
  void CheckWaits(const gateway::Dispatcher& dispatcher, base::TimePoint now);
  // Whether another request or batch may begin, if there is a place for it.
  bool MayBegin() const;
  void CheckPlaces(const gateway::Dispatcher& dispatcher, base::TimePoint now);

  const GatewaySetup& setup_;
  std::map<RequestId, GatewayRecord> records_;
  std::map<RequestId, GatewayRecord*> open_;
  uint64_t first_sends_ = 0;
  uint64_t retries_ = 0;
  base::TimePoint down_since_ = base::TimePoint::max();
  // Of steady loads, in the time that counts: tokens by user.
  std::array<double, 3> work_{};
  base::TimePoint now_{};
  std::map<std::string, std::string> violations_;
};

}  // namespace ropeway::sim

#endif  // ROPEWAY_SIM_GATEWAY_CHECKS_H_
