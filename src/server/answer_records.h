// Reads stored answers and conversations back, and makes of them what dialects write.
#ifndef ROPEWAY_SERVER_ANSWER_RECORDS_H_
#define ROPEWAY_SERVER_ANSWER_RECORDS_H_

#include <memory>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "base/shared_budget.h"
#include "server/stored_answer.h"
#include "store/conversation.h"
#include "store/object_store.h"

namespace ropeway::server {

struct StoredAnswersOptions {
  std::vector<api::ApiFormatMaker> dialects;  // A stored answer's is found by its id's prefix.
  api::BodyLimits body;
  SamplingParams sampling = {};                 // For requests that give none.
  std::shared_ptr<base::SharedBudget> answers;  // What their output may take in memory; null: all.
};

// The fields of requests that name what they go on from.
inline constexpr char kPrevious[] = "previous_response_id";
inline constexpr char kConversation[] = "conversation";

// A conversation that has so many takes no more, and no turn.
inline constexpr size_t kMostConversationItems = 10'000;

// Items of conversations and answers, as JSON texts.
using Items = std::vector<std::string>;

// The same status about the field of the request that is at fault.
Status About(const Status& status, const char* field);
// Of a prompt that is too long: the same, but it says that what is before the request's own input
// counts, and what helps. Others, and those of requests that go on from nothing, are left as is.
Status AboutHistory(Status status, const std::string& previous, const std::string& conversation);
// The field for which a request is stored.
const char* FieldThatStores(const StoredRequest& request);

store::ObjectName Response(const std::string& tenant, const std::string& id);
// kNotFound about that field.
Status NoSuchAnswer(const std::string& id, const char* field);
// Whether answers in this state show their output.
bool HasOutput(api::AnswerState state);

// Thread rule: every method from any thread. All but Show read the disk.
class AnswerRecords {
 public:
  // `store` must outlive it.
  AnswerRecords(StoredAnswersOptions options, store::ObjectStore* store);

  // kNotFound; kDataLoss: it is damaged. `hidden_too`: see ObjectStore::Read.
  StatusOr<StoredAnswer> Read(const std::string& tenant, const std::string& id,
                              bool hidden_too = false) const;
  // A format that has parsed the request's body, and been started.
  StatusOr<std::unique_ptr<api::ApiFormat>> Reopen(const StoredRequest& request) const;
  // The body that shows an answer. `format`: as Reopen gives it.
  std::string Show(const StoredAnswer& answer, const api::ApiFormat& format) const;

  // The items before a request's own input: those of its conversation, or of all its ancestors,
  // the first one's first. `holds`: the store has the request, and keeps its ancestors for it, also
  // where they are deleted. Fails as StoredAnswers::History.
  StatusOr<Items> Before(const std::string& tenant, const std::string& previous,
                         const std::string& conversation, bool holds) const;
  StatusOr<store::Conversation> ReadConversation(const std::string& tenant,
                                                 const std::string& id) const;
  // The conversation of a request with one more turn, its input and this output; and without it.
  struct TurnChange {
    store::ObjectChange with;
    store::ObjectChange without;
  };
  StatusOr<TurnChange> Turn(const StoredRequest& request, const api::ChoiceOutput& output) const;

 private:
  StatusOr<Items> Ancestors(const std::string& tenant, const std::string& previous,
                            bool hidden_too) const;

  const std::vector<api::ApiFormatMaker> dialects_;
  api::BodyLimits limits_;
  const SamplingParams sampling_;
  store::ObjectStore* const store_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_ANSWER_RECORDS_H_
