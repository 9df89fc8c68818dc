// What replicas do with the requests that a dispatcher has sent them.
#ifndef ROPEWAY_GATEWAY_DISPATCH_ATTEMPTS_H_
#define ROPEWAY_GATEWAY_DISPATCH_ATTEMPTS_H_

#include <cstdint>

#include "base/clock.h"
#include "core/sequence_state.h"
#include "gateway/dispatch_entries.h"
#include "gateway/dispatch_load.h"
#include "gateway/dispatch_options.h"
#include "gateway/dispatch_order.h"
#include "gateway/replicas.h"
#include "ropeway/backend.h"
#include "ropeway/status.h"

namespace ropeway::gateway {

// Later than `from` by `by`, also where that has no end.
inline base::TimePoint EndOf(base::TimePoint from, base::Duration by) {
  return by >= base::TimePoint::max() - from ? base::TimePoint::max() : from + by;
}

// Part of an answer.
struct AttemptOutput {
  int32_t tokens = 0;  // Generated since the last output; estimated where the backend does not say.
  bool ids_known = true;  // The ids of all of them are known, so the request can go on from them.
};

// Keeps an entry's account of its attempt, and its replica's; charges what is computed; and says
// how long an attempt may take, and what follows when it fails. The rules stand at Dispatcher.
// Thread rule: the dispatcher's.
class DispatchAttempts {
 public:
  // The parts of the dispatcher, which must outlive it.
  struct Sources {
    const DispatchOptions& options;
    Replicas& replicas;
    DispatchEntries& entries;
    DispatchOrder& order;
    DispatchLoad& load;
    core::SequenceMover& mover;
  };
  explicit DispatchAttempts(const Sources& sources) : from_(sources) {}

  // All that happens, happens now.
  void set_now(base::TimePoint now) { now_ = now; }

  // The entry, which has left the queue, is sent. Does not throw.
  void Begin(DispatchEntry* entry, const Route& route);
  // Its replica gave output. True: the first; it may take another time from now on (DueOf).
  bool OnOutput(DispatchEntry* entry, const AttemptOutput& output);
  void OnAlive(DispatchEntry* entry) const { entry->last_output = now_; }
  // Its answer is complete, and its attempt over.
  void OnEnd(DispatchEntry* entry, const Finish& end);
  // Its client has enough; `completed`: as if the answer were complete.
  void OnCancel(DispatchEntry* entry, bool completed);
  // Its attempt is over.
  void Leave(DispatchEntry* entry);

  // What follows a failed attempt.
  enum class Next {
    kRetry,   // It is sent again, from the start.
    kResume,  // It is resumed.
    kEnd,     // It ends with a status.
  };
  // Its attempt failed, and is over. Sets `status`, with Retry-After where others may help later.
  Next OnFailure(DispatchEntry* entry, const Outcome& failure, Status* status);
  // Whether another replica can go on with what was given.
  bool MayResume(const DispatchEntry& entry) const;

  // How long its replica may give nothing; 0: for ever. REQUIRES: an attempt is under way.
  base::Duration PatienceFor(const DispatchEntry& entry) const;
  // When the entry is due: its deadline, or the end of its patience, or of its wait for a replica
  // that can go on with it.
  base::TimePoint DueOf(const DispatchEntry& entry) const;

 private:
  // False: it was not the first byte.
  bool OnFirstByte(DispatchEntry* entry);
  void AddTokens(DispatchEntry* entry, int64_t reported);
  void Charge(DispatchEntry* entry, int32_t prompt, int32_t output);
  void OnReplicaFailed(int replica, FailureKind kind, int retry_after_seconds);

  const Sources from_;
  base::TimePoint now_{};
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_DISPATCH_ATTEMPTS_H_
