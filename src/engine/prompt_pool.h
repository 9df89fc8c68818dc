// The threads that encode prompts, between Submit and the engine thread.
#ifndef ROPEWAY_ENGINE_PROMPT_POOL_H_
#define ROPEWAY_ENGINE_PROMPT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/fair_pool.h"
#include "base/shared_budget.h"
#include "core/sequence.h"
#include "engine/grammar_pool.h"
#include "engine/live_request.h"
#include "engine/prompt_encoder.h"

namespace ropeway::engine {

// Chats are rendered and prompts encoded in pieces, in fair shares of the time between tenants and
// classes (base::FairPool): however many and however long the prompts of one tenant are, another's
// is encoded at once. Requests leave as they are ready, but keep the order in which Submit took
// them (core::JobRequest::order). A chat whose template takes long gives way to others of its flow.
// A request with a grammar comes in once that is compiled.
class PromptPool {
 public:
  // Both are called from the pool's threads and must not wait. A request that is ready is kWaiting,
  // and the context of its CoreRequest; a rejected one is kEnded.
  using ReadyFn = std::function<void(core::CoreRequest)>;
  using RejectedFn = std::function<void(std::shared_ptr<LiveRequest>, Status)>;

  // The memory that encoding takes is charged to the request's tenant while it lasts, except for so
  // much of one text for each thread.
  static constexpr int64_t kFreeBytes = int64_t{1} << 20;

  // `encoder`, `grammars`, `clock` and `bytes` must outlive it; encoding takes its memory from
  // `bytes`. A tenant alone may have `capacity` requests in it, several tenants twice as many
  // together. `grammars` must be stopped first.
  PromptPool(const PromptEncoder* encoder, GrammarPool* grammars, const base::Clock* clock,
             base::SharedBudget* bytes, int threads, size_t capacity, ReadyFn ready,
             RejectedFn rejected);

  // Adds `live`. False if there is no place for it or after Stop; throws std::bad_alloc; either
  // with nothing changed. A request past its deadline is rejected with kDeadlineExceeded, at the
  // latest when the piece that is being encoded, or the grammar that is being compiled, then is
  // done. Thread rule: one thread at a time.
  bool TryAdd(const std::shared_ptr<LiveRequest>& live);

  // Ends the threads after the pieces that run. Requests that are not ready by then are dropped
  // without a call: the caller cancels them first.
  void Stop();

 private:
  struct Job {
    Job(PromptPool* pool, const std::shared_ptr<LiveRequest>& its_live)
        : live(its_live), encoding(pool->encoder_, live.get()) {}
    const std::shared_ptr<LiveRequest> live;
    PromptEncoder::Job encoding;
    base::SharedBudget::Hold bytes;  // For what `encoding` takes, except what `free` covers.
    base::SharedBudget::Hold free;  // Taken from free_: the job then has kFreeBytes free of charge.
  };
  using Deadline = std::pair<base::TimePoint, RequestId>;

  // Queues it to be encoded; false: there is no place. Throws std::bad_alloc.
  bool TryEncode(const std::shared_ptr<LiveRequest>& live);
  // Compiles its grammar first.
  bool TryCompile(const std::shared_ptr<LiveRequest>& live);
  void OnCompiled(const std::shared_ptr<LiveRequest>& live, const GrammarPool::Compiled& compiled);
  // Does a piece of it.
  base::PieceEnd Run(Job* job);
  // Whether it is done.
  bool Encode(Job* job);
  // Charges what rendering or encoding takes by now; false: that is too much.
  bool Charge(Job* job);
  void Reject(const std::shared_ptr<LiveRequest>& live, Status status);
  // Rejects all that are past their deadlines.
  void RejectOverdue();
  void ForgetDeadline(const LiveRequest& live);

  const PromptEncoder* const encoder_;
  GrammarPool* const grammars_;
  const base::Clock* const clock_;
  base::SharedBudget* const bytes_;
  base::SharedBudget free_;  // Texts that have kFreeBytes.
  const ReadyFn ready_;
  const RejectedFn rejected_;
  std::mutex mu_;
  // The requests in the pool that have a deadline. GUARDED_BY(mu_)
  std::map<Deadline, std::shared_ptr<LiveRequest>> deadlines_;
  base::FairPool pool_;  // Last: its threads use all of the above.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_PROMPT_POOL_H_
