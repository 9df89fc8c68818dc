// What an engine or a gateway has done of late, for watchers of a server.
#ifndef ROPEWAY_SERVICE_ACTIVITY_H_
#define ROPEWAY_SERVICE_ACTIVITY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/recent_times.h"
#include "core/batch.h"
#include "core/class_metrics.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::service {

// A request that has ended. It holds no text of its prompt, its answer or its error.
struct EndedRequest {
  uint64_t number = 0;  // Counted from 1 in the order of their ends.
  RequestId id = 0;
  std::string tenant;
  Priority priority = Priority::kMedium;
  StatusCode code = StatusCode::kOk;  // Not kOk: it failed, or was cancelled.
  FinishReason reason = FinishReason::kStop;
  Usage usage;
  int32_t preemptions = 0;
  PhaseTimes times;
  double ended_at = 0;  // Unix seconds.
};

// The last requests that ended. Thread-safe.
class EndedRequests {
 public:
  static constexpr size_t kMost = 256;
  static constexpr size_t kMostBytes = size_t{128} << 10;

  // Numbers it, and drops the oldest ones beyond the bounds. Without memory it is not kept.
  void Add(EndedRequest ended) noexcept;
  // Those with a number above `number`, the oldest first.
  std::vector<EndedRequest> After(uint64_t number) const;

 private:
  static size_t BytesOf(const EndedRequest& ended) { return sizeof(ended) + ended.tenant.size(); }

  mutable std::mutex mutex_;
  uint64_t last_ = 0;               // GUARDED_BY(mutex_)
  size_t bytes_ = 0;                // GUARDED_BY(mutex_)
  std::deque<EndedRequest> ended_;  // GUARDED_BY(mutex_)
};

// The last steps of an engine, while they are watched. Thread-safe.
class StepLog {
 public:
  static constexpr size_t kMostSteps = 128;
  static constexpr size_t kMostItems = 8192;  // Sequences of all these steps together.

  // Whether steps are to be added.
  bool watched() const { return watched_.load(std::memory_order_relaxed); }
  // Without a watcher it is empty.
  void set_watched(bool watched);
  // Drops the oldest ones beyond the bounds. Throws std::bad_alloc with nothing changed.
  void Add(core::StepTrace step);
  // Those with a number above `step`, the oldest first.
  std::vector<core::StepTrace> After(uint64_t step) const;

 private:
  std::atomic<bool> watched_{false};
  mutable std::mutex mutex_;
  size_t items_ = 0;                   // GUARDED_BY(mutex_)
  std::deque<core::StepTrace> steps_;  // GUARDED_BY(mutex_)
};

// Percentiles of a minute and of an hour.
struct RecentSummary {
  base::RecentTimes::Summary minute;
  base::RecentTimes::Summary hour;
};
inline RecentSummary SummaryOf(const base::RecentTimes& times, base::TimePoint now) {
  return {times.LastMinute(now), times.LastHour(now)};
}

// What there was since the last look.
struct Activity {
  std::vector<core::StepTrace> steps;
  std::vector<EndedRequest> ended;
  base::TimePoint now{};  // By the clock of `steps`.
  RecentSummary ttft;
  RecentSummary inter_token;
  RecentSummary e2e;
  RecentSummary step;
  RecentSummary late;  // Its counts: first tokens and ends beyond the limit of their class.
  uint64_t disk_blocks = 0;
};

// Where a look ended.
struct ActivityCursor {
  uint64_t step = 0;
  uint64_t ended = 0;
};

// Fills what `recent` says, by base::RealClock.
void AddRecent(const core::RecentLatencies& recent, Activity* activity);

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_ACTIVITY_H_
