// One stored answer: what it is made of, and its output, which any number of connections may watch
// while it comes.
#ifndef ROPEWAY_SERVER_STORED_RUN_H_
#define ROPEWAY_SERVER_STORED_RUN_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "base/shared_budget.h"
#include "ropeway/backend.h"
#include "server/answer_source.h"
#include "server/choice_charge.h"
#include "server/piece_log.h"
#include "server/run_inbox.h"
#include "server/stored_answer.h"

namespace ropeway::server {

// An answer under way, or one that was read from the store. The backend's sinks record its pieces;
// a thread writes them to the store (Due, Pack, Written); connections read them. A connection sees
// nothing of an answer whose record is to be written first (StoredRequest::background, stream), and
// no end before it is settled: in the store, or given up.
//
// Thread rule: every method from any thread, except where it says another.
class StoredRun : public std::enable_shared_from_this<StoredRun> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Called under the run's lock: must neither block nor call back.
  using WakeFn = std::function<void()>;
  using DoneFn = std::function<void(const Status&)>;

  struct Parts {
    std::shared_ptr<RunInbox> inbox;
    Backend* backend = nullptr;                   // Outlives its sinks.
    std::shared_ptr<base::SharedBudget> answers;  // What the output may take in memory; null: all.
    bool keep_tokens = false;                     // The answer reports them.
    size_t per_prompt = 1;                        // The choices of one prompt.
    std::shared_ptr<void> conversation;  // The right to change it; released when it is settled.
    bool recorded = false;               // The store has it, from an earlier process.
    // What the bodies of answers may take that wait for a backend with room; null: all.
    std::shared_ptr<base::SharedBudget> waiting;
  };

  // An answer under way.
  StoredRun(std::shared_ptr<const StoredRequest> request, size_t choices, Parts parts);
  // One that has ended. `hold`: for its memory.
  StoredRun(StoredAnswer answer, base::SharedBudget::Hold hold);

  const StoredRequest& request() const { return *request_; }
  size_t size() const { return choices_.size(); }

  // --- The backend's side.

  // Goes on from what an earlier process has recorded. Call before any sink is made.
  void Prime(std::vector<StoredChoice> choices);
  // The choices that are to be generated, and behind which ids.
  std::vector<size_t> Unfinished() const;
  std::vector<TokenId> ids(size_t choice) const;
  // One for each that is to be generated.
  std::shared_ptr<Sink> MakeSink(size_t choice, ChoiceCharge charge);
  // What a choice costs that the backend has not taken yet; nothing where that is not known.
  ChoiceCharge TakeCharge(size_t choice);
  // Between BeginSubmit and SetIds or EndSubmit a thread hands it to the backend: what comes of
  // that meanwhile is looked at (TakeLost) only then.
  void BeginSubmit();
  // The backend did not take it: what its choices cost is kept for the next try. Returns whether it
  // waits.
  bool EndSubmit();
  // What the backend, which has them now, calls these choices.
  void SetIds(const std::vector<size_t>& choices, const std::vector<RequestId>& ids);
  // It could not be handed to the backend, or not be recorded as it must: it fails.
  void Fail(Status status);

  // --- What clients ask.

  // Ends it as cancelled, unless it has ended by itself. `done` is called once it is settled, with
  // what the store said.
  void Cancel(DoneFn done);
  // Its client closed the connection, which ends it as cancelled, unless it is in the background.
  void Leave();
  // It is removed from the store: nothing more is written. Returns whether it may be in the store.
  bool Drop();
  // Cancels it at the backend and leaves its record as it is. Without effect on one without a
  // record.
  void Park();
  // Writes the record also if it is not admitted yet.
  void RecordNow();
  // Where it is, until it is settled; then nothing.
  std::optional<api::AnswerState> pending() const;
  // The body that tells that it is there, once SetBody was called for it; else null.
  std::shared_ptr<const std::string> body() const;
  void SetBody(api::AnswerState pending, std::shared_ptr<const std::string> body);
  bool settled() const;
  // Whether it is neither settled nor removed. What is removed stays until its backend ends it, but
  // is not shown any more.
  bool under_way() const;
  bool recorded() const;
  // Whether an earlier process began it: then no client has its connection.
  bool resumed() const { return parts_.recorded; }
  // Whether it waits for a backend that has no room: no client waits for its beginning.
  bool patient() const { return request_->background || resumed(); }
  TimePoint made() const { return made_; }
  // Whether it is still to be generated.
  bool wanted() const;
  // Whether it is in no backend's hands.
  bool waits() const;
  // Whether the backend has it and has not said whether it takes it.
  bool undecided() const;
  // The right to change its conversation, where it did not have it at once.
  void SetConversation(std::shared_ptr<void> hold);

  // --- The writer's side; one thread, but Written.

  enum class Write { kNothing, kFirst, kCheckpoint, kFinal };
  // What is to be written now. After other than kNothing, Written or Retry is to follow.
  Write Due(TimePoint now);
  // The part of the record that changes, for that write. `state`: what it says. Sinks do not wait
  // while it is written.
  std::string Pack(Write write, api::AnswerState* state);
  void Written(Write write, const Status& status);
  // The write could not be made for want of memory: it is due again.
  void Retry();
  // What became of it, for the log.
  struct Report {
    std::string state;
    int64_t prompt_tokens = 0;
    int64_t generated = 0;
    std::chrono::duration<double, std::milli> total{};  // In this process.
    std::string error;
  };
  Report report() const;
  // Whether it is in the background and its backend was lost, or had no room for it: then it waits
  // from now on, to be generated anew, or behind the ids of `had`, what there was of it.
  bool TakeLost(std::vector<StoredChoice>* had);
  // All output of a choice. REQUIRES: kFinal is due.
  api::ChoiceOutput Collected(size_t choice) const;

  // --- Readers.

  uint64_t Watch(WakeFn wake);
  // The function is not called once this has returned.
  void Unwatch(uint64_t watcher);

  AnswerSource::Progress Look(size_t choice) const;
  // The output behind the first `*pieces` pieces, to which it adds what it returns: all as a
  // whole, or at most `most` pieces. `*more`: there are more by now.
  AnswerSource::Output Read(size_t choice, bool as_one, size_t most, size_t* pieces,
                            bool* more) const;
  AnswerFacts facts(size_t choice) const;
  std::optional<int32_t> queue_position() const;

 private:
  // Output is written at the latest after so many tokens, or so long.
  static constexpr int64_t kCheckpointTokens = 64;
  static constexpr std::chrono::seconds kCheckpointPause{1};

  class RecordingSink;
  struct Choice {
    // As in StoredChoice.
    PieceLog pieces;
    std::vector<TokenId> ids;
    std::optional<Finish> finish;
    size_t with_ids = 0;  // The pieces that `ids` accounts for.
    bool ids_known = true;
    RequestId id = 0;  // 0: the backend does not have it, or its id is not known yet.
    bool admitted = false;
    bool taken = false;  // By the backend that has it now.
    bool ended = false;
    std::optional<ChoiceCharge> charge;  // While it waits.
    std::weak_ptr<RecordingSink> sink;   // The last one.
    AnswerFacts facts;
  };

  // The sink's calls.
  void OnAdmitted(size_t choice, const Admission& admission, Status within);
  // Keeps a choice in the background that the backend had no room for, and what it costs.
  bool WaitsForRoom(size_t choice, const Status& status, ChoiceCharge* charge);
  bool OnDelta(size_t choice, Delta delta);
  void OnEnd(size_t choice, Outcome end);

  // All of these under the lock.
  bool stopped() const {
    return cancelled_ || dropped_ || !failure_.ok() || (parked_ && request_->background);
  }
  bool records_first() const { return request_->background || request_->stream; }
  bool AllAdmitted() const;
  bool AllEnded() const;
  bool Charge(size_t bytes);
  api::AnswerState State() const;
  std::optional<api::AnswerState> PendingState() const;
  void Keep(Delta delta, Choice* choice);
  static void SetKept(StoredChoice kept, Choice* choice);
  void Settle(const Status& status = {});
  // Whether a choice that ended so is to be generated elsewhere.
  bool MayGoOnElsewhere(const Status& status, TimePoint now) const;
  Outcome EndOf(const Choice& choice) const;
  static api::ChoiceOutput WholeOf(const Choice& choice);
  void Wake();
  // The choices to be cancelled at the backend, once the lock is released.
  std::vector<RequestId> Running() const;
  void CancelAll(const std::vector<RequestId>& ids) const;

  const std::shared_ptr<const StoredRequest> request_;
  Parts parts_;  // Its `conversation` changes under the lock.
  const TimePoint made_ = std::chrono::steady_clock::now();

  mutable std::mutex mutex_;
  std::vector<Choice> choices_;
  // What tells of it while it is under way, for the clients that polls it.
  std::shared_ptr<const std::string> queued_body_;
  std::shared_ptr<const std::string> in_progress_body_;
  std::optional<api::ApiError> error_;  // Of one that was read and has failed.
  Status failure_;
  bool cancelled_ = false;
  bool parked_ = false;
  bool dropped_ = false;
  bool interrupted_ = false;  // A choice ended because it is parked.
  bool lost_ = false;         // A choice ended because its backend was lost, or full.
  bool waits_;                // See waits().
  bool submitting_ = false;
  std::optional<TimePoint> lost_since_;  // Without output since.
  bool record_now_ = false;
  bool recorded_ = false;
  bool writing_ = false;
  bool settled_ = false;
  bool news_ = false;                // There is output that no record has.
  int64_t unsaved_ = 0;              // Tokens of it.
  TimePoint saved_at_{};             // The last checkpoint.
  std::vector<DoneFn> settled_fns_;  // Those of Cancel.
  std::optional<int32_t> queue_position_;
  size_t bytes_ = 0;
  base::SharedBudget::Hold held_;
  base::SharedBudget::Hold waiting_;  // Once it has waited for room.
  std::map<uint64_t, WakeFn> watchers_;
  uint64_t next_watcher_ = 1;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_STORED_RUN_H_
