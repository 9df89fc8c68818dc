// The metrics of a store of sessions, whoever keeps it: an engine or a gateway.
#ifndef ROPEWAY_STORE_SESSION_METRICS_H_
#define ROPEWAY_STORE_SESSION_METRICS_H_

#include "base/metrics.h"
#include "store/session_store.h"

namespace ropeway::store {

using SessionMetrics = base::SampledMetrics<SessionStoreStats>;

// `metrics` must outlive them.
SessionMetrics MakeSessionMetrics(base::Metrics* metrics);

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_SESSION_METRICS_H_
