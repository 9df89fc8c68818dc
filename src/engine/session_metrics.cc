#include "engine/session_metrics.h"

namespace ropeway {
namespace {

constexpr const char* kTurns = "ropeway_session_turns_total";
constexpr const char* kTurnsHelp =
    "Turns of sessions by how their prompt came about: begun (the session's first), continued "
    "(from "
    "the session's token ids), reencoded (the whole chat, which its template changed).";

}  // namespace

SessionMetrics::SessionMetrics(Metrics* metrics)
    : begun(metrics->AddCounter(kTurns, kTurnsHelp, {{"prompt", "begun"}})),
      continued(metrics->AddCounter(kTurns, kTurnsHelp, {{"prompt", "continued"}})),
      reencoded(metrics->AddCounter(kTurns, kTurnsHelp, {{"prompt", "reencoded"}})),
      sessions_(metrics->AddGauge("ropeway_sessions", "Sessions that are kept.")),
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

void SessionMetrics::Set(const SessionStoreStats& stats) {
  const std::lock_guard lock(mu_);
  sessions_->Set(static_cast<double>(stats.sessions));
  bytes_->Set(static_cast<double>(stats.bytes));
  unwritten_->Set(static_cast<double>(stats.unwritten));
  expired_->Increment(static_cast<double>(stats.expired - last_.expired));
  lost_->Increment(static_cast<double>(stats.lost - last_.lost));
  failed_writes_->Increment(static_cast<double>(stats.failed_writes - last_.failed_writes));
  last_ = stats;
}

}  // namespace ropeway
