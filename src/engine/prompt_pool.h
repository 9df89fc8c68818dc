// The threads that encode prompts, between Submit and the engine thread.
#ifndef ROPEWAY_ENGINE_PROMPT_POOL_H_
#define ROPEWAY_ENGINE_PROMPT_POOL_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "core/sequence.h"
#include "engine/live_request.h"
#include "engine/prompt_encoder.h"

namespace ropeway::engine {

// Requests leave in the order in which they came, however many threads there are and however long
// one of them takes: with the policy fcfs the engine serves requests in the order of Submit.
class PromptPool {
 public:
  // Both are called from the pool's threads and must not wait. A request that is ready is kWaiting,
  // and the context of its CoreRequest; they come in order of TryAdd. Rejected ones are kEnded, and
  // come in any order.
  using ReadyFn = std::function<void(core::CoreRequest)>;
  using RejectedFn = std::function<void(std::shared_ptr<LiveRequest>, Status)>;

  // `encoder` and `clock` must outlive it. At most `capacity` requests wait for a thread.
  PromptPool(const PromptEncoder* encoder, const base::Clock* clock, int threads, size_t capacity,
             ReadyFn ready, RejectedFn rejected);

  // Appends `live`. False if the queue is full or after Stop; throws std::bad_alloc; either with
  // nothing changed. A request past its deadline is rejected with kDeadlineExceeded, at the latest
  // when the prompt that is being encoded then is done.
  // Thread rule: one thread at a time.
  bool TryAdd(const std::shared_ptr<LiveRequest>& live);

  // Ends the threads. Requests that are still queued are dropped without a call: the caller cancels
  // them first.
  void Stop();

 private:
  // A request's slot in the order. Allocated by TryAdd, so that memory that is short later loses
  // none.
  struct Slot {
    std::shared_ptr<LiveRequest> live;
    std::optional<core::CoreRequest> encoded;  // None: the request ended here.
    bool done = false;
  };

  void Prepare(Slot* slot);
  std::optional<core::CoreRequest> Encode(const std::shared_ptr<LiveRequest>& live);
  void Reject(const std::shared_ptr<LiveRequest>& live, Status status);
  // Rejects all that are past their deadlines.
  void RejectOverdue();
  // `slot` is done; hands over all requests that are now at the head.
  void Complete(Slot* slot, std::optional<core::CoreRequest> encoded);

  const PromptEncoder* const encoder_;
  const base::Clock* const clock_;
  const ReadyFn ready_;
  const RejectedFn rejected_;
  std::mutex mu_;
  std::list<Slot> slots_;  // Guarded by mu_: in order of TryAdd.
  std::set<std::pair<base::TimePoint, Slot*>>
      deadlines_;          // Guarded by mu_: of those that have one.
  base::ThreadPool pool_;  // Last: its threads use all of the above.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_PROMPT_POOL_H_
