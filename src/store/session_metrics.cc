#include "store/session_store.h"

namespace ropeway::store {

SessionMetrics MakeSessionMetrics(base::Metrics* metrics) {
  using S = SessionStoreStats;
  SessionMetrics sampled(metrics);
  sampled.Add("ropeway_sessions", "Stored sessions.", [](const S& s) { return s.sessions; });
  sampled.Add("ropeway_session_store_bytes", "Size of the sessions' records, in bytes.",
              [](const S& s) { return s.bytes; });
  sampled.Add("ropeway_sessions_unwritten",
              "Sessions whose last turn is not written yet and would be lost in a restart.",
              [](const S& s) { return s.unwritten; });
  sampled.Add("ropeway_sessions_expired_total",
              "Sessions removed because they were not used for session_ttl.",
              [](const S& s) { return s.expired; });
  sampled.Add("ropeway_sessions_lost_total", "Sessions lost because their record was damaged.",
              [](const S& s) { return s.lost; });
  sampled.Add("ropeway_session_write_errors_total",
              "Session turns that could not be written when they ended.",
              [](const S& s) { return s.failed_writes; });
  return sampled;
}

}  // namespace ropeway::store
