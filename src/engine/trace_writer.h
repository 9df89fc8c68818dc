// Writes the steps and requests of an engine as a trace for Perfetto or chrome://tracing.
#ifndef ROPEWAY_ENGINE_TRACE_WRITER_H_
#define ROPEWAY_ENGINE_TRACE_WRITER_H_

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "core/batch.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::engine {

using core::StepTrace;

// The trace is an array of events in Chrome's JSON format, which viewers load even if it is cut
// off. A slice per step on the track "steps"; a slice per request, from its arrival to its end, and
// within it its phases: queued, fetching, prefill, decode, preempted. It holds ids, tenants, times
// and numbers of tokens, never a text or a token.
//
// A thread of its own writes. The calls below never wait: events beyond its queue are dropped and
// counted; a request with dropped events may show a wrong phase. Thread rule: the
// calls from one thread at a time, the engine's; Stop and dropped() from any.
class TraceWriter {
 public:
  static constexpr uint64_t kMaxFileBytes = uint64_t{512} << 20;
  static constexpr size_t kMaxQueued = 8192;

  // Truncates the file. Fails with the field trace_file if it cannot be written. A file of
  // `max_bytes` takes no more events; the log and the trace's last event say so.
  static StatusOr<std::unique_ptr<TraceWriter>> Open(const std::string& path,
                                                     uint64_t max_bytes = kMaxFileBytes,
                                                     size_t max_queued = kMaxQueued);
  // As Stop.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void Arrived(RequestId request, const std::string& tenant, base::TimePoint at) noexcept;
  void Step(StepTrace step) noexcept;
  // `reason` is a string literal.
  void Ended(RequestId request, const char* reason, base::TimePoint at) noexcept;

  // Writes the queued events, ends the open slices and the array, and closes the file.
  void Stop();

  uint64_t dropped() const { return dropped_.load(); }

 private:
  struct Arrival {
    RequestId request;
    std::string tenant;
    base::TimePoint at;
  };
  struct End {
    RequestId request;
    const char* reason;
    base::TimePoint at;
  };
  using Message = std::variant<Arrival, StepTrace, End>;

  TraceWriter(std::FILE* file, uint64_t max_bytes, size_t max_queued);

  // Calls `fn`; an event for which there is no memory is dropped.
  template <typename Fn>
  void OrDrop(const Fn& fn) noexcept;
  void Push(Message message);
  void Loop();
  void Handle(const Arrival& arrival);
  void Handle(const StepTrace& step);
  void Handle(const End& end);
  void SetPhase(RequestId request, const char* phase, base::TimePoint at);
  void Close();
  // `event`: a JSON object.
  void Write(const std::string& event);

  const uint64_t max_bytes_;
  base::BoundedQueue<Message> queue_;
  std::atomic<uint64_t> dropped_{0};

  // The writing thread's.
  std::FILE* file_;
  uint64_t bytes_ = 0;
  bool full_ = false;
  base::TimePoint last_{};  // The newest time so far.
  // The phases of the requests that have not ended; null: between two. At most kMaxRequests, for an
  // end may have been dropped.
  std::map<RequestId, const char*> phases_;
  std::thread thread_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_TRACE_WRITER_H_
