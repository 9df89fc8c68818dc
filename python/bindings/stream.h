// The output of one request on its way from the engine's threads to Python's.
#ifndef ROPEWAY_PYTHON_BINDINGS_STREAM_H_
#define ROPEWAY_PYTHON_BINDINGS_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::python {

class Stream;

// Streams with new output, for an event loop that watches a file descriptor: the engine's threads
// never need Python's lock. Thread-safe.
//
// Shared from this: else nanobind would give its pointers a deleter that takes Python's lock, on
// whatever thread drops the last one.
class ReadyQueue : public std::enable_shared_from_this<ReadyQueue> {
 public:
  ReadyQueue();
  ~ReadyQueue();
  ReadyQueue(const ReadyQueue&) = delete;
  ReadyQueue& operator=(const ReadyQueue&) = delete;

  // Readable while there are any; -1 where none could be made.
  int fd() const { return fd_; }
  // The keys of those that became ready since the last call. `*all`: some were lost for want of
  // memory, and any may be ready.
  std::vector<uint64_t> Take(bool* all);

 private:
  friend class Stream;
  void Add(uint64_t key) noexcept;

  int fd_ = -1;
  std::mutex mu_;
  std::vector<uint64_t> keys_;  // GUARDED_BY(mu_)
  bool all_ = false;            // GUARDED_BY(mu_)
};

// What an engine says of one request. Collects the whole; what was not taken yet is kept apart once
// Take, WaitForOutput or Notify has been called, before which it is the whole.
// Thread-safe; outlives its engine, whose last call is OnEnd.
class Stream final : public Sink {
 public:
  bool OnDelta(RequestId id, Delta delta) override;
  void OnEnd(RequestId id, const Outcome& outcome) override;

  // Output that was not taken, as one delta; nullopt: there is none. `*ended`: nothing more comes
  // behind it.
  std::optional<Delta> Take(bool* ended);
  // Waits for output that was not taken, or for the end; false: not until `limit`.
  bool WaitForOutput(std::chrono::nanoseconds limit);
  bool WaitForEnd(std::chrono::nanoseconds limit);
  bool ended() const;
  // Once it has ended.
  Result result() const;

  // From now on `queue` is told of new output under `key`, or of the end alone; at once if there is
  // some. Until Forget.
  void Notify(std::shared_ptr<ReadyQueue> queue, uint64_t key, bool only_end);
  void Forget(const ReadyQueue* queue, uint64_t key);
  // The next delta is the last: its request is to be cancelled.
  void Stop();

 private:
  struct Watcher {
    std::shared_ptr<ReadyQueue> queue;
    uint64_t key = 0;
    bool only_end = false;
    bool told = false;  // Since the last Take.
  };

  bool HasOutput() const { return fresh_.has_value() || ended_; }  // REQUIRES: mu_ is held.
  void Tell();                                                     // REQUIRES: mu_ is held.
  void Tell(Watcher* watcher) const;                               // REQUIRES: mu_ is held.
  void BeginToStream();                                            // REQUIRES: mu_ is held.

  mutable std::mutex mu_;
  std::condition_variable output_;  // Whoever waits for the end alone is not woken by output.
  std::condition_variable end_;
  Result whole_;                   // GUARDED_BY(mu_)
  std::optional<Delta> fresh_;     // GUARDED_BY(mu_)
  bool streams_ = false;           // GUARDED_BY(mu_). Whether fresh_ is filled.
  bool ended_ = false;             // GUARDED_BY(mu_)
  bool stopped_ = false;           // GUARDED_BY(mu_)
  std::vector<Watcher> watchers_;  // GUARDED_BY(mu_)
};

}  // namespace ropeway::python

#endif  // ROPEWAY_PYTHON_BINDINGS_STREAM_H_
