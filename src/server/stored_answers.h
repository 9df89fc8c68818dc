// Answers that are stored: computed whether or not a client waits, and found again by their ids.
#ifndef ROPEWAY_SERVER_STORED_ANSWERS_H_
#define ROPEWAY_SERVER_STORED_ANSWERS_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "api/api_format.h"
#include "server/answer_queue.h"
#include "server/answer_records.h"
#include "server/key_limits.h"
#include "server/stored_metrics.h"
#include "server/stored_run.h"
#include "service/front_desk.h"
#include "store/object_store.h"

namespace ropeway::server {

class ConversationHolds;

// Every stored answer, under way or complete, by its tenant and its id. Another tenant's ids are
// unknown: kNotFound, in whose message the id stands.
//
// Thread rule: every method from any thread; those that read the disk, and may take milliseconds
// per megabyte, say so.
class StoredAnswers {
 public:
  using DoneFn = store::ObjectStore::DoneFn;

  // Both pointers must outlive it.
  StoredAnswers(StoredAnswersOptions options, store::ObjectStore* store,
                service::FrontDesk* backend);
  // Parks what is under way.
  ~StoredAnswers();
  StoredAnswers(const StoredAnswers&) = delete;
  StoredAnswers& operator=(const StoredAnswers&) = delete;

  // Goes on with what was under way when the last process ended. Call once, before clients can ask
  // for anything.
  void Resume();
  // Takes no more; notes how far each recorded answer is, and cancels it at the backend: the next
  // process goes on with it. What is not recorded is left to its connection.
  void Park();

  // The exclusive right to change a conversation; released with the last copy.
  using ConversationHold = std::shared_ptr<void>;
  // kInvalidArgument with the api_code "conversation_busy": a turn of it runs, or it is being
  // changed.
  StatusOr<ConversationHold> HoldConversation(const std::string& tenant, const std::string& id);

  // What comes before the input of a request that goes on from `keeping`'s answer or conversation.
  // kNotFound and kInvalidArgument name the field; the latter also where an ancestor has failed, or
  // is under way, or is a turn of a conversation. Reads the disk.
  StatusOr<Items> History(const std::string& tenant, const api::Keeping& keeping) const;

  // Hands a request to the backend and records its answer. `format` has parsed the body and been
  // started; the prompts are moved out of its request. `tickets`: one for each choice; none: no key
  // is charged. `hold`: of request.conversation. Fails as Backend::SubmitAll, and as
  // ObjectStore::CheckRoom. An answer in the background that the backend has no room for waits here
  // until it has.
  StatusOr<std::shared_ptr<StoredRun>> Begin(StoredRequest request, api::ApiFormat* format,
                                             std::vector<KeyTicket> tickets, ConversationHold hold);

  // The body that tells of an answer under way, once Show has made it for the state in which that
  // is; else null, also if none of this id is under way. Takes microseconds.
  std::shared_ptr<const std::string> Pending(const std::string& tenant,
                                             const std::string& id) const;
  // The body that shows an answer, under way or complete. kDataLoss: it is damaged. Reads the disk.
  StatusOr<std::string> Show(const std::string& tenant, const std::string& id) const;
  // The items of an answer's own input, in order. kInvalidArgument where its dialect has none.
  // Reads the disk.
  StatusOr<Items> InputItems(const std::string& tenant, const std::string& id) const;
  // An answer to be watched from its beginning on, and a format that has parsed its body and been
  // started, to write it. Reads the disk.
  struct Watched {
    std::shared_ptr<StoredRun> run;
    std::unique_ptr<api::ApiFormat> format;
    base::SharedBudget::Hold hold;  // Memory of the request, and of a format's copy.
  };
  StatusOr<Watched> Watch(const std::string& tenant, const std::string& id);
  // Ends an answer in the background as cancelled, and calls `done` when that is in the log, or
  // with the reason why not; at once where it has ended, which changes nothing. kInvalidArgument:
  // it is not in the background, and its client is there; kUnavailable: the server stops. On these,
  // `done` is not called. Reads the disk.
  Status Cancel(const std::string& tenant, const std::string& id, DoneFn done);
  // Ends it if it is under way, and removes it; `done` is called when that is in the log, or with
  // the reason why not. kNotFound, without a call of `done`.
  Status Delete(const std::string& tenant, const std::string& id, DoneFn done);

  // In the Prometheus text format.
  std::string MetricsText() const;

  // The store of all this, for conversations and lists.
  store::ObjectStore* store() const { return store_; }

 private:
  using Key = std::pair<std::string, std::string>;  // Tenant and id.

  // Null where it is not under way.
  std::shared_ptr<StoredRun> Live(const std::string& tenant, const std::string& id) const;
  // Resumes, if that is still to be done, once the store has read what it has: where its disk was
  // full at the start, that is later.
  void ResumeWhenRead();
  void ResumeOne(const store::ObjectInfo& info);
  // What decides the bits of a model's output; "": not known.
  std::string BasisOf(const std::string& name) const;
  // For requests that find this one's conversation busy: which answer it is that changes it.
  void NameTurn(const StoredRequest& request) const;
  StoredRun::Parts PartsOf(const api::ApiRequest& api) const;
  // Hands a run's choices to the backend, or has them wait for room there. On failure what they
  // cost is kept for the next try.
  Status Submit(const std::shared_ptr<StoredRun>& run, const std::vector<size_t>& choices,
                std::vector<SinkRequest> requests);
  // --- The thread's.

  void Loop();
  void SubmitWaiting();
  // Of what waits: it waits on, or is left to the next process. REQUIRES: mutex_ is held.
  void PutBack(WaitingAnswer waiting);
  // False: to be tried again.
  bool SubmitOne(WaitingAnswer* waiting);
  Status Prepare(WaitingAnswer* waiting) const;
  Status HandOver(WaitingAnswer* waiting);
  // Writes what is due of the run.
  void Save(const std::shared_ptr<StoredRun>& run);
  // `write` is set once it is due.
  void TrySave(const std::shared_ptr<StoredRun>& run, StoredRun::Write* write);
  // Returns whether it was known.
  bool Forget(const StoredRun& run);

  const std::shared_ptr<base::SharedBudget> answers_;  // Null: no bound.
  const std::shared_ptr<base::SharedBudget> waiting_bytes_;
  const AnswerRecords records_;
  const StoredMetrics metrics_;
  store::ObjectStore* const store_;
  service::FrontDesk* const backend_;
  const std::shared_ptr<RunInbox> inbox_;
  const std::shared_ptr<ConversationHolds> holds_;

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<StoredRun>> live_;  // GUARDED_BY(mutex_)
  AnswerQueue waiting_;                             // GUARDED_BY(mutex_)
  bool parked_ = false;                             // GUARDED_BY(mutex_)
  std::atomic<bool> resume_{false};                 // It was asked to, and has not yet.
  std::thread thread_;
};

// An id that no other has: `prefix`, such as "conv_", and 32 hex digits.
std::string DrawId(std::string_view prefix);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_STORED_ANSWERS_H_
