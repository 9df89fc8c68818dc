#include "store/session_store.h"

namespace ropeway::store {

SessionMetrics MakeSessionMetrics(base::Metrics* metrics) {
  using S = SessionStoreStats;
  SessionMetrics sampled(metrics);
  sampled.Add("ropeway_sessions", "Sessions that are kept.", [](const S& s) { return s.sessions; });
  sampled.Add("ropeway_session_store_bytes", "Bytes of the sessions' records.",
              [](const S& s) { return s.bytes; });
  sampled.Add("ropeway_sessions_unwritten",
              "Sessions whose last turn could not be written yet, and would not survive a restart.",
              [](const S& s) { return s.unwritten; });
  sampled.Add("ropeway_sessions_expired_total",
              "Sessions removed because they were unused for long.",
              [](const S& s) { return s.expired; });
  sampled.Add("ropeway_sessions_lost_total", "Sessions whose record was found damaged.",
              [](const S& s) { return s.lost; });
  sampled.Add("ropeway_session_write_errors_total",
              "Turns that could not be written when they ended.",
              [](const S& s) { return s.failed_writes; });
  return sampled;
}

}  // namespace ropeway::store
