// A request of the gateway as its client sees it: the sink, what it was told, and what another
// backend needs to go on where one was lost.
#ifndef ROPEWAY_GATEWAY_CLIENT_REQUEST_H_
#define ROPEWAY_GATEWAY_CLIENT_REQUEST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/shared_budget.h"
#include "core/sequence.h"
#include "gateway/answer_length.h"
#include "gateway/dispatcher.h"
#include "gateway/replay.h"
#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "service/front_desk.h"
#include "store/session.h"
#include "store/session_store.h"

namespace ropeway::gateway {

// A session's turn, as a part of its ClientRequest.
struct ClientTurn {
  store::SessionTurn turn;     // Its history is read on another thread.
  int32_t session_tokens = 0;  // That the session had before, as far as known.
  std::string answer;          // The text that the sink was given.
  // How the request ends once the session's next state is stored, which is under way; nothing: the
  // turn has not come to that.
  std::optional<Finish> end;
};

// A prompt's tokens, as far as they can be told without its tokenizer: bytes / 4, and a few for
// each message of a chat. At least 1.
int32_t EstimatedPromptTokens(const Request& request);

// What its sink is told: OnAdmitted once, deltas, one end. A sink that throws is treated like one
// whose reader is gone, and still gets its end.
//
// Thread rule: the gateway's thread alone, once the request is queued, but for what is said to be
// for any.
class ClientRequest {
 public:
  ClientRequest(Request request_in, std::shared_ptr<Sink> sink);

  // Constant once the request is queued; any thread.
  RequestId id = 0;
  size_t model = 0;  // Index of its model.
  uint64_t seed = 0;
  base::TimePoint arrival{};
  base::TimePoint deadline = base::TimePoint::max();
  int32_t queue_position = 0;  // As it came.
  // The requests that are one to their client (OpenAI's n) have ids that follow each other.
  RequestId first_of_group = 0;
  RequestId group_size = 1;

  int32_t prompt_estimate = 1;
  // `timeout` is what was left when it was last sent. Of a session's turn, the prompt is the whole
  // history once that was read. Any thread may read its tenant and its class.
  Request request;
  base::SharedBudget::Hold bytes;  // What `request` takes; released by the end.

  // Its attempt at a backend. `attempt` counts them from 1; 0: none is under way, and what comes of
  // others is not for the client. Any thread may read it.
  std::atomic<uint32_t> attempt{0};
  int replica = -1;            // The last one that it was sent to.
  Backend* backend = nullptr;  // That has it as `id_there`; null: none has.
  RequestId id_there = 0;
  std::string last_failure;  // Why its last attempt failed, with the backend's name; "": none has.

  // Its sink is being told the end, or was: there is nothing to cancel. Any thread.
  bool told() const { return told_; }
  bool ended() const { return sink_ == nullptr; }

  // The turn of the session that the request is; null: of none, or it has ended.
  std::shared_ptr<ClientTurn> turn;

  // Puts the session's history before the prompt. kInvalidArgument if that cannot be. REQUIRES: it
  // is a turn, and not queued yet.
  Status GoOn(store::SessionState before);
  // The turn is to be kept, for its sink has all of its answer.
  bool keeps_turn() const { return turn != nullptr && !gone_; }
  // What the session's next turn goes on from. REQUIRES: it is a turn.
  store::SessionState NextState(const ropeway::Finish& end) const;
  // Its answer is complete, and its end waits for the store.
  bool being_kept() const { return turn != nullptr && turn->end.has_value(); }

  // Tells the sink that the request is queued; false: it was told, or the request has ended.
  bool Admit();

  // It is sent now, as another attempt, in `batch`: what is to be sent. With `resumes` it goes on
  // from what the sink has; else it begins anew, and what the sink has is passed over.
  Request Begin(bool resumes, const core::StartedBatch& batch, base::TimePoint now);

  // What the dispatcher is to know of `delta`. `reports_ids`: the backend it came from can go on
  // with others' output, and so reports ids.
  AttemptOutput Measure(const Delta& delta, bool reports_ids) const;
  // What time has passed at a delta.
  struct Times {
    bool generated = false;    // It has output, not the prompt's alone; and is
    bool first_token = false;  // the first one.
    base::Duration since{};    // The arrival, or else the last output.
  };
  enum class Given {
    kMore,      // It goes on.
    kComplete,  // It has all of the answer that it asked for: the backend sent more.
    kGone,      // The sink wants no more.
    kDiffers,   // It was computed anew, and is another answer than the sink has the beginning of.
  };
  // Passes new output on, but for what the sink had from an attempt before, and what is more than
  // it asked for.
  Given Give(Delta delta, base::TimePoint now, Times* times);

  // It is computed anew, and has not come to where the sink has it.
  bool replays() const { return replay_ && !replay_->done(); }

  // What its backend says of the end, as far as it can be true; to be called before it is used.
  ropeway::Finish Believe(const ropeway::Finish& said);
  // How the request ends as its backend says.
  ropeway::Finish FinishOf(const ropeway::Finish& end, base::TimePoint now) const;
  // The end, told to the sink, which is dropped then. REQUIRES: it was admitted, and !ended().
  void Finish(const ropeway::Finish& finish);
  // It was cancelled.
  void Cancel(base::TimePoint now);
  void Fail(const Status& status);

 private:
  uint64_t PromptCharacters() const;
  Usage UsageOf(const Usage& said) const;
  PhaseTimes TimesAt(base::TimePoint now) const;
  // Gives back what the request holds: its bytes, and its session's turn unless that is kept.
  void Release();

  std::shared_ptr<Sink> sink_;  // Null: it was told the end.
  std::atomic<bool> told_{false};
  bool admitted_ = false;
  bool gone_ = false;  // The sink threw, or wants no more.

  // What the sink was given.
  std::vector<TokenId> ids_;  // Of the tokens, where the backend reports them.
  AnswerLength length_;
  GivenOutput given_;         // Where the backend reports ids.
  size_t prompt_tokens_ = 0;  // Of the prompt, with their log-probs.
  // Bytes of text that came behind all tokens: what a stop string or a half character had held back
  // until the end. No id accounts for it.
  size_t rest_bytes_ = 0;

  // Of the present attempt's output, what the sink had before.
  size_t skip_prompt_ = 0;
  size_t skip_text_ = 0;
  std::optional<Replay> replay_;

  bool misreported_ = false;  // Its backend said of its usage what cannot be.

  core::StartedBatch batch_;
  base::TimePoint sent_{};  // For the first time; 0: not yet. Likewise the next two.
  base::TimePoint first_token_{};
  base::TimePoint last_token_{};
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_CLIENT_REQUEST_H_
