// The requests under way: one object per accepted request, shared by the engine's threads.
#ifndef ROPEWAY_ENGINE_LIVE_REQUEST_H_
#define ROPEWAY_ENGINE_LIVE_REQUEST_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "core/sequence.h"
#include "ropeway/request.h"
#include "service/front_desk.h"
#include "store/session.h"
#include "store/session_store.h"

namespace ropeway::engine {

class RequestOutput;

// A session's turn, as a part of its LiveRequest.
struct LiveTurn {
  store::SessionTurn turn;  // Set before the request is shared; any thread may abandon it.

  // The prompt pool's while the request is kEncoding, then the output thread's.
  store::SessionState next;  // The session with this turn's prompt, and with what is generated.
  size_t prompt_ids = 0;     // Of next.ids, those before what is generated.
  int32_t session_ids = 0;   // Of the prompt's, those that the session had before.
  std::string answer;        // The text that was shown of what is generated.
};

// One accepted request. The states and every legal move:
//
// | state     | the request is with                     | exit                                   |
// | --------- | --------------------------------------- | -------------------------------------- |
// | encoding  | the prompt pool                         | waiting; ended (rejected or cancelled) |
// | waiting   | the engine thread, not yet started      | running; ended                         |
// | running   | the engine thread                       | preempted; ended                       |
// | preempted | the engine thread, without a token      | running; ended                         |
// |           | since it was preempted                  |                                        |
// | ended     | the output thread, which tells the sink |                                        |
//
// Of a cancel and the hand-over to the engine thread exactly one leaves kEncoding. From then on the
// engine thread moves the request between waiting, running and preempted, and the output thread
// ends it. Each field says which thread may use it.
struct LiveRequest final : core::RequestContext {
  enum class State : uint8_t { kEncoding, kWaiting, kRunning, kPreempted, kEnded };

  // Moves the request; false, and nothing is changed, if it is not in `from`.
  bool Move(State from, State to);
  // Moves the request to kEnded; false if it is there.
  bool End();
  State state() const { return state_.load(); }

  const std::string& tenant() const { return request.tenant; }
  Priority priority() const { return request.priority; }

  // Set before the request is shared, read by all.
  RequestId id = 0;
  uint64_t seed = 0;
  base::TimePoint arrival{};
  base::TimePoint deadline =
      base::TimePoint::max();      // The request fails with kDeadlineExceeded then.
  std::unique_ptr<LiveTurn> turn;  // Of the session that the request names; null: none.
  std::shared_ptr<core::AdmissionGroup> group;  // Of the request that it is a part of; or null.
  std::atomic<int>* queued = nullptr;           // Counts the requests that are encoding or waiting.
  // One of the places in the queue; the move out of these two states gives it back.
  base::SharedBudget::Hold place;

  // Constant, except for the prompt, which the prompt pool takes out.
  Request request;
  int32_t lowered_max_tokens = 0;  // See Finish::max_tokens. Set by the prompt pool.
  base::SharedBudget::Hold bytes;  // What `request` takes of LlmEngineConfig::max_request_bytes.
  std::shared_ptr<Sink> sink;      // The output thread's; null: it was told the end.
  // The output thread's; null: not admitted, or ended. A shared_ptr frees it without its type,
  // which stands above this one.
  std::shared_ptr<RequestOutput> output;
  // The engine thread's until the request started, then constant; see ropeway::Finish.
  base::TimePoint started{};
  core::StartedBatch batch;

  std::atomic<bool> cancel_asked{false};
  // Its sink is told the end, or was: nothing is left to cancel.
  std::atomic<bool> told{false};

 private:
  void Count(State from, State to);

  std::atomic<State> state_{State::kEncoding};
};

// All requests that were accepted and whose sinks have not been told the end.
//
// Thread rule: every method from any thread.
class LiveRequests {
 public:
  // Adds a request in state kEncoding, which counts as queued from now on. Throws std::bad_alloc
  // with nothing changed.
  void Add(const std::shared_ptr<LiveRequest>& live);
  void Erase(RequestId id);

  // Null: there is no such request.
  std::shared_ptr<LiveRequest> Find(RequestId id) const;
  // Any one of them; null: there is none.
  std::shared_ptr<LiveRequest> Any() const;
  // All of them, in no order; waits until there is memory for the list. For what may wait for
  // another thread that calls this class.
  std::vector<std::shared_ptr<LiveRequest>> All() const;
  // Calls `fn` for each one, in no order, under the lock: it must neither wait for a thread that
  // calls this class nor for memory, which such a thread may free.
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    const std::lock_guard lock(mu_);
    for (const auto& [id, live] : requests_) fn(live);
  }

  size_t size() const;
  // Those that are encoding or waiting.
  int queued() const { return queued_.load(); }
  // Waits until there are none, for at most `timeout`; whether there are none.
  bool WaitEmpty(std::chrono::nanoseconds timeout) const;

 private:
  std::atomic<int> queued_{0};
  mutable std::mutex mu_;
  mutable std::condition_variable empty_;
  std::unordered_map<RequestId, std::shared_ptr<LiveRequest>> requests_;  // Guarded by mu_.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_LIVE_REQUEST_H_
