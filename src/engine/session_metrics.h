// What an engine counts of its sessions.
#ifndef ROPEWAY_ENGINE_SESSION_METRICS_H_
#define ROPEWAY_ENGINE_SESSION_METRICS_H_

#include <mutex>

#include "base/metrics.h"
#include "store/session_store.h"

namespace ropeway {

// Thread-safe.
class SessionMetrics {
 public:
  // `metrics` must outlive it.
  explicit SessionMetrics(Metrics* metrics);

  // Turns that were encoded: the first ones of sessions, those that go on from the session's ids,
  Counter* const begun;
  Counter* const continued;
  Counter* const reencoded;  // and those whose chat had to be encoded anew as a whole.

  void Set(const SessionStoreStats& stats);

 private:
  Gauge* const sessions_;
  Gauge* const bytes_;
  Gauge* const unwritten_;
  Counter* const expired_;
  Counter* const lost_;
  Counter* const failed_writes_;
  std::mutex mu_;
  SessionStoreStats last_;  // Guarded by mu_.
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_SESSION_METRICS_H_
