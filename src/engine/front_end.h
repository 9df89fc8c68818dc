// The threads that encode prompts, between Submit and the engine thread.
#ifndef ROPEWAY_ENGINE_FRONT_END_H_
#define ROPEWAY_ENGINE_FRONT_END_H_

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
#include "engine/engine_core.h"
#include "engine/live_request.h"
#include "engine/prompt_encoder.h"

namespace ropeway {

// Requests leave in the order in which they came, however many threads there are and however long
// one of them takes: the engine serves first come, first served by the order of Submit.
class FrontEnd {
 public:
  struct Prepared {
    std::shared_ptr<LiveRequest> live;  // In stage kEngine.
    CoreRequest core;
  };
  // Both are called from the front end's threads and must not wait.
  using ReadyFn = std::function<void(Prepared)>;  // In order of TryAdd.
  using RefusedFn = std::function<void(std::shared_ptr<LiveRequest>, Status)>;  // In any order.

  // `encoder` and `clock` must outlive it. At most `capacity` requests wait for a thread.
  FrontEnd(const PromptEncoder* encoder, const Clock* clock, int threads, size_t capacity,
           ReadyFn ready, RefusedFn refused);

  // Takes the next place for `live`. False where the queue is full or after Stop; throws
  // std::bad_alloc; either with nothing changed. A request whose deadline is over is refused with
  // kDeadlineExceeded at the latest when the prompt that is being encoded then is done.
  // Thread rule: one thread at a time.
  bool TryAdd(const std::shared_ptr<LiveRequest>& live);

  // Ends the threads. What waits is dropped without a call: whoever stops cancels it first.
  void Stop();

 private:
  // A request's place in line. Made when it comes: none is lost later for want of memory.
  struct Place {
    std::shared_ptr<LiveRequest> live;
    std::optional<Prepared> prepared;  // None: it ended here.
    bool done = false;
  };

  void Prepare(Place* place);
  std::optional<Prepared> Encode(const std::shared_ptr<LiveRequest>& live);
  void Refuse(const std::shared_ptr<LiveRequest>& live, Status status);
  // Refuses all whose deadline is over.
  void RefuseOverdue();
  // `place` is done; hands over all that now stand at the head.
  void Complete(Place* place, std::optional<Prepared> prepared);

  const PromptEncoder* const encoder_;
  const Clock* const clock_;
  const ReadyFn ready_;
  const RefusedFn refused_;
  std::mutex mu_;
  std::list<Place> places_;                           // Guarded by mu_: in order of TryAdd.
  std::set<std::pair<TimePoint, Place*>> deadlines_;  // Guarded by mu_: of those that have one.
  ThreadPool pool_;                                   // Last: its threads use all of the above.
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_FRONT_END_H_
