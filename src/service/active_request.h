// A request under way, as an engine and a gateway both keep it.
#ifndef ROPEWAY_SERVICE_ACTIVE_REQUEST_H_
#define ROPEWAY_SERVICE_ACTIVE_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "core/sequence.h"
#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "service/activity.h"
#include "service/front_desk.h"
#include "store/session.h"
#include "store/session_store.h"

namespace ropeway::service {

// A session's turn, as a part of its request.
struct Turn {
  store::SessionTurn turn;     // Set before the request is shared; any thread may abandon it.
  store::SessionState next;    // What the session's next turn goes on from, once this one ended.
  int32_t session_tokens = 0;  // Tokens of the prompt that the session had before.
  ChatMessage answer{"assistant", ""};  // What the sink was given.
  bool continues = false;  // It goes on with the last message (Chat::continue_final_message).
  // How the request ends once `next` is stored. Nothing: that is not under way yet.
  std::optional<Finish> end;
};

// One request from SubmitAll until its sink was told the end. The states and every legal move:
//
// | state     | the request                                       | exit                |
// | --------- | ------------------------------------------------- | ------------------- |
// | encoding  | is read: its prompt is encoded, or a turn's       | waiting; ended      |
// |           | history loaded                                    |                     |
// | waiting   | is in the queue, not yet started                  | running; ended      |
// | running   | is computed                                       | preempted; ended    |
// | preempted | gave way, or lost its backend, and waits again    | running; ended      |
// | ended     | has its end, which the sink is told               |                     |
//
// The sink is told OnAdmitted once, then deltas, then one end. A sink that throws is treated like
// one whose reader is gone, and still gets its end.
//
// Thread rule: each field says when it is constant; Move, End and state from any thread; all that
// calls the sink from one thread at a time.
class ActiveRequest {
 public:
  using State = RequestState;

  explicit ActiveRequest(SinkRequest request = {})
      : request(std::move(request.request)), sink_(std::move(request.sink)) {}
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  // Moves the request; false, and nothing is changed, if it is not in `from`.
  bool Move(State from, State to);
  // Moves the request to kEnded; false if it is there.
  bool End();
  State state() const { return state_.load(); }

  const std::string& tenant() const { return request.tenant; }
  Priority priority() const { return request.priority; }

  // Set before the request is shared, then constant.
  RequestId id = 0;
  uint64_t seed = 0;
  base::TimePoint arrival{};
  base::TimePoint deadline = base::TimePoint::max();  // It fails with kDeadlineExceeded then.

  Request request;  // Constant, except for the prompt, which the thread that reads it takes out.
  std::unique_ptr<Turn> turn;  // The turn of the session that the request names; null: none.

  // What it holds of what tenants share. The place is given back when it leaves the queue, the rest
  // by its end.
  base::SharedBudget::Hold place;  // In the queue.
  base::SharedBudget::Hold bytes;  // What `request` takes.

  // When it started, in which batch, and when its first and its last token came; 0: not yet. If the
  // request wants no token and was computed, first_token and last_token are its end. The engine or
  // the gateway sets them.
  base::TimePoint started{};
  core::StartedBatch batch;
  base::TimePoint first_token{};
  base::TimePoint last_token{};
  // Without `output`, which its end adds.
  PhaseTimes Times() const;

  // The tokens of its prompt; 0: not known yet. Any thread.
  std::atomic<int32_t> prompt_tokens{0};

  // It was cancelled; the thread that ends it may not know yet. Any thread.
  std::atomic<bool> cancel_asked{false};
  // Its sink is told the end, or was: nothing is left to cancel.
  bool told() const { return told_.load(); }

  // The rest is for the thread that calls the sink.

  // Tells the sink that the request is queued, once. False if the sink wants no more.
  bool Admit(const Admission& admission);
  bool admitted() const { return admitted_; }
  // Hands on new output. False if the sink wants no more.
  bool Give(Delta delta);
  void TellAlive();
  // The sink threw, or wants no more.
  bool gone() const { return gone_; }
  // What its sink was told of its end, without texts. REQUIRES: told(); the thread that told it.
  EndedRequest ended_as() const;
  // Whether the sink was told the end.
  bool ended() const { return sink_ == nullptr; }
  // Its answer is complete, and its end waits for the store.
  bool being_kept() const { return turn != nullptr && turn->end.has_value(); }
  // Tells the sink the end, and drops the sink. Before that it frees the request's place, session
  // and memory, so the sender may submit the next one at once. If the request ended while it was
  // encoding, its prompt may still be used: then the destructor gives back its bytes. REQUIRES:
  // !ended().
  void Tell(const Outcome& outcome);
  void Fail(const Status& status);

 private:
  template <typename T>
  friend class Registry;

  void Count(State from, State to);

  std::atomic<State> state_{State::kEncoding};
  std::atomic<int>* queued_ = nullptr;  // Counts the requests that are encoding or waiting.
  std::atomic<bool> told_{false};
  std::shared_ptr<Sink> sink_;  // Null: it was told the end.
  bool admitted_ = false;
  bool gone_ = false;
  StatusCode end_code_ = StatusCode::kOk;  // Of the Outcome that it told.
  Finish finish_;
};

}  // namespace ropeway::service

#endif  // ROPEWAY_SERVICE_ACTIVE_REQUEST_H_
