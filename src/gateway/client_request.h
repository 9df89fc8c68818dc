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
#include "base/fair_pool.h"
#include "core/sequence.h"
#include "gateway/answer_length.h"
#include "gateway/dispatcher.h"
#include "gateway/replay.h"
#include "ropeway/backend.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "service/active_request.h"
#include "store/session.h"

namespace ropeway::gateway {

// A prompt's tokens, as far as they can be told without its tokenizer: bytes / 4, and a few for
// each message of a chat. At least 1.
int32_t EstimatedPromptTokens(const Request& request);

// A request in a gateway. It is kEncoding while a session's history is read, and kWaiting once its
// dispatcher has it; the dispatcher knows more about it.
//
// Thread rule: once the request is queued, the gateway's thread alone, except where a comment says
// "any thread".
class ClientRequest final : public service::ActiveRequest {
 public:
  explicit ClientRequest(SinkRequest asked);

  // Constant once its dispatcher has it; any thread. Once a session's history was read,
  // `request.prompt` is all of it; `request.timeout` is what was left when it was last sent.
  size_t model = 0;            // Index of its model.
  int32_t queue_position = 0;  // As it came.
  // The requests that are one to their client (OpenAI's n) have ids that follow each other.
  RequestId first_of_group = 0;
  RequestId group_size = 1;

  int32_t prompt_estimate = 1;
  // When the sink of a turn whose history was read is told that it is queued, if no backend has
  // answered by then.
  base::TimePoint admit_at{};

  // The number of the attempt at a backend that is under way, from 1; 0: none is, and output of
  // other attempts is not for the client. Any thread may read it.
  std::atomic<uint32_t> attempt{0};
  int replica = -1;            // The last one that it was sent to.
  Backend* backend = nullptr;  // That has it as `id_there`; null: none has.
  RequestId id_there = 0;
  std::string last_failure;  // Why its last attempt failed, with the backend's name; "": none has.

  // Puts the session's history before the prompt. kInvalidArgument if that cannot be. REQUIRES: it
  // is a turn, and not queued yet.
  Status GoOn(store::SessionState before);
  // Whether the session keeps the turn: its sink has all of its answer.
  bool keeps_turn() const { return turn != nullptr && !gone(); }
  // What the session's next turn goes on from. REQUIRES: it is a turn.
  store::SessionState NextState(const Finish& end) const;

  // Tells the sink that the request is queued; false: it was told, or the request has ended.
  bool TellAdmitted();

  // Begins another attempt, in `batch`, and returns what to send. With `resumes` it goes on from
  // what the sink has; else it begins anew, and passes over what the sink has.
  Request Begin(bool resumes, const core::StartedBatch& batch, base::TimePoint now);

  // What the dispatcher is to know of `delta`. `reports_ids`: the backend it came from can go on
  // with others' output, and so reports ids.
  AttemptOutput Measure(const Delta& delta, bool reports_ids) const;
  // What time has passed at a delta.
  struct OutputTimes {
    bool generated = false;    // The delta has output, not only of the prompt.
    bool first_token = false;  // It is the first such delta.
    base::Duration since{};    // The arrival, or else the last output.
  };
  enum class Given {
    kMore,      // It goes on.
    kComplete,  // It has all of the answer that it asked for: the backend sent more.
    kGone,      // The sink wants no more.
    kDiffers,   // The answer does not go on from what the sink has, or does not begin so.
  };
  // Passes new output on, without what the sink had from an attempt before, and without what is
  // more than the request asked for.
  Given PassOn(Delta delta, base::TimePoint now, OutputTimes* times);

  // The flow that long work for this request is charged to.
  base::Flow flow() const {
    return {
        .tenant = tenant(), .cls = static_cast<int>(priority()), .weight = request.tenant_weight};
  }

  // Whether the answer is computed anew and has not yet reached the end of what the sink has.
  bool replays() const { return replay_ && !replay_->done(); }

  // What its backend says of the end, as far as it can be true. Call before using what it says.
  Finish Believe(const Finish& said);
  // How the request ends as its backend says.
  Finish FinishOf(const Finish& end, base::TimePoint now) const;
  // Tells the sink that it was cancelled. REQUIRES: !ended().
  void TellCancelled(base::TimePoint now);

 private:
  uint64_t PromptCharacters() const;
  Usage UsageOf(const Usage& said) const;
  // Whether the sink can take these: each goes on with a call that it has, or begins the next one.
  bool TakeCalls(const std::vector<ToolCallDelta>& calls);

  // What the sink was given.
  std::vector<TokenId> ids_;  // The tokens' ids, where the backend reports them.
  AnswerLength length_;
  GivenOutput given_;         // Where the backend reports ids.
  int32_t calls_ = 0;         // Calls of tools that began.
  size_t prompt_tokens_ = 0;  // Tokens of the prompt that were given, with their log-probs.
  // The length of what came behind all tokens (replay.h): what a stop string, a half character or
  // the beginning of a mark had held back until the end. No id accounts for it.
  uint64_t rest_length_ = 0;

  // How much of the present attempt's output the sink had before.
  size_t skip_prompt_ = 0;
  uint64_t skip_said_ = 0;
  std::optional<Replay> replay_;

  bool misreported_ = false;  // Its backend said of its usage what cannot be.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_CLIENT_REQUEST_H_
