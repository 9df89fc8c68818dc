// The metrics of a store of sessions, whoever keeps it: an engine or a gateway.
#ifndef ROPEWAY_STORE_SESSION_METRICS_H_
#define ROPEWAY_STORE_SESSION_METRICS_H_

#include "base/metrics.h"
#include "store/session_store.h"

namespace ropeway::store {

// Thread rule: one thread at a time.
class SessionMetrics {
 public:
  // `metrics` must outlive it.
  explicit SessionMetrics(base::Metrics* metrics);

  // Brings them up to `stats`, which are newer than those before.
  void Follow(const SessionStoreStats& stats);

 private:
  base::Gauge* const sessions_;
  base::Gauge* const bytes_;
  base::Gauge* const unwritten_;
  base::Counter* const expired_;
  base::Counter* const lost_;
  base::Counter* const failed_writes_;
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_SESSION_METRICS_H_
