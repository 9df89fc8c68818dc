// The threads that encode prompts, between Submit and the engine thread.
#ifndef ROPEWAY_ENGINE_FRONT_END_H_
#define ROPEWAY_ENGINE_FRONT_END_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

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

  // `encoder` must outlive it. At most `capacity` requests wait for a thread.
  FrontEnd(const PromptEncoder* encoder, int threads, size_t capacity, ReadyFn ready,
           RefusedFn refused);

  // Takes the next place for `live`. False where the queue is full or after Stop.
  // Thread rule: one thread at a time.
  bool TryAdd(std::shared_ptr<LiveRequest> live);

  // Ends the threads. What waits is dropped without a call: whoever stops cancels it first.
  void Stop();

 private:
  void Prepare(uint64_t place, const std::shared_ptr<LiveRequest>& live);
  std::optional<Prepared> Encode(const std::shared_ptr<LiveRequest>& live);
  void Refuse(const std::shared_ptr<LiveRequest>& live, Status status);
  // Place `place` is done; hands over all that now stand at the head.
  void Complete(uint64_t place, std::optional<Prepared> prepared);

  const PromptEncoder* const encoder_;
  const ReadyFn ready_;
  const RefusedFn refused_;
  uint64_t next_place_ = 0;  // TryAdd's.
  std::mutex mu_;
  uint64_t head_ = 0;  // Guarded by mu_: the first place not done.
  std::map<uint64_t, std::optional<Prepared>> waiting_;  // Guarded by mu_: done, behind the head.
  ThreadPool pool_;                                      // Last: its threads use all of the above.
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_FRONT_END_H_
