#include "store/session_metrics.h"

namespace ropeway::store {

SessionMetrics::SessionMetrics(base::Metrics* metrics)
    : sessions_(metrics->AddGauge("ropeway_sessions", "Sessions that are kept.")),
      bytes_(metrics->AddGauge("ropeway_session_store_bytes", "Bytes of the sessions' records.")),
      unwritten_(metrics->AddGauge(
          "ropeway_sessions_unwritten",
          "Sessions whose last turn could not be written yet, and would not survive a restart.")),
      expired_(metrics->AddCounter("ropeway_sessions_expired_total",
                                   "Sessions removed because they were unused for long.")),
      lost_(metrics->AddCounter("ropeway_sessions_lost_total",
                                "Sessions whose record was found damaged.")),
      failed_writes_(metrics->AddCounter("ropeway_session_write_errors_total",
                                         "Turns that could not be written when they ended.")) {}

void SessionMetrics::Follow(const SessionStoreStats& stats) {
  sessions_->Set(static_cast<double>(stats.sessions));
  bytes_->Set(static_cast<double>(stats.bytes));
  unwritten_->Set(static_cast<double>(stats.unwritten));
  base::RaiseTo(expired_, static_cast<double>(stats.expired));
  base::RaiseTo(lost_, static_cast<double>(stats.lost));
  base::RaiseTo(failed_writes_, static_cast<double>(stats.failed_writes));
}

}  // namespace ropeway::store
