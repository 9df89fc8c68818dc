// Answers that are stored: computed whether or not a client waits, and found again by their ids.
#ifndef ROPEWAY_SERVER_STORED_ANSWERS_H_
#define ROPEWAY_SERVER_STORED_ANSWERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "ropeway/backend.h"
#include "service/front_desk.h"
#include "store/object_store.h"

namespace ropeway::server {

// What a stored answer is made of, apart from its output: all that a restart needs to go on.
struct StoredRequest {
  std::string tenant;
  std::string id;        // With its dialect's prefix, by which the dialect is found.
  std::string body;      // As the client sent it.
  api::AnswerHead head;  // `id` without the prefix.
  uint64_t seed = 0;     // Drawn, where the body gives none.
  bool background = false;
  double weight = 1.0;
  std::string cache_scope;
  std::string previous;      // Keeping::previous.
  std::string conversation;  // Keeping::conversation.
  // Of a turn of a conversation: the items that it had before. They stay as they were, whatever
  // becomes of the conversation.
  std::vector<std::string> items;
};

// One choice of it so far.
struct StoredChoice {
  std::vector<Delta> pieces;  // What was said, as it came. Tokens only where they are reported.
  std::vector<TokenId> ids;   // Generated so far; empty where the backend does not tell them.
  std::optional<Finish> finish;
};

// A stored answer as it is now.
struct StoredAnswer {
  std::shared_ptr<const StoredRequest> request;
  api::AnswerState state = api::AnswerState::kQueued;
  std::optional<api::ApiError> error;  // With kFailed.
  std::vector<StoredChoice> choices;   // Empty while it is under way.
};

// Thread rule: every method from any thread; those that read the disk say so.
class StoredAnswers {
 public:
  using DoneFn = store::ObjectStore::DoneFn;

  // Both must outlive it.
  StoredAnswers(store::ObjectStore* store, service::FrontDesk* backend);
  // Parks what runs in the background.
  ~StoredAnswers();

  // Goes on with what was under way when the last process ended.
  void Resume();
  // Takes no more; notes how far each answer in the background is, and cancels it at the backend:
  // the next process goes on with it. The others are left to their connections.
  void Park();

  // The body that tells of an answer under way, made once for each of its states; null: it is not
  // under way. Takes no lock of the engine and reads no disk.
  std::shared_ptr<const std::string> Pending(const std::string& tenant,
                                             const std::string& id) const;
  // kNotFound: the tenant has none of this id. kDataLoss: damaged. Reads the disk.
  StatusOr<StoredAnswer> Find(const std::string& tenant, const std::string& id) const;
  // Gives the sinks, one for each choice, all of the answer from its beginning on, and the end, as
  // the backend would. A sink that wants no more is dropped, and the answer goes on.
  Status Watch(const std::string& tenant, const std::string& id,
               const std::vector<std::shared_ptr<Sink>>& sinks);
  // Ends an answer in the background as cancelled; one that has ended stays as it is.
  // kInvalidArgument: it is not in the background.
  Status Cancel(const std::string& tenant, const std::string& id);
  // Ends it if it is under way, and removes it; `done` is called when that is in the log.
  Status Delete(const std::string& tenant, const std::string& id, DoneFn done);

  // The items before the input of a request that goes on from `previous`: those of all its
  // ancestors, the first one's first. kInvalidArgument (field previous_response_id), also where one
  // of them has failed or is under way. Reads the disk.
  StatusOr<std::vector<std::string>> History(const std::string& tenant,
                                             const std::string& previous) const;

  // The exclusive right to change a conversation; released by the destructor.
  using ConversationHold = std::shared_ptr<void>;
  // kInvalidArgument with api_code "conversation_busy": a turn of it runs, or it is being changed.
  StatusOr<ConversationHold> HoldConversation(const std::string& tenant, const std::string& id);
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_STORED_ANSWERS_H_
