#include "server/answer_records.h"

#include <fmt/format.h>

#include <iterator>
#include <limits>
#include <utility>

#include "server/delta_merge.h"
#include "server/stored_record.h"

namespace ropeway::server {
namespace {

using api::AnswerState;
using store::ObjectKind;

// Bounds on what a request goes on from.
constexpr size_t kMostAncestors = 1000;
constexpr size_t kMostHistoryBytes = size_t{64} << 20;

size_t BytesOf(const Items& items) {
  size_t bytes = 0;
  for (const std::string& item : items) bytes += item.size();
  return bytes;
}

api::ChoiceOutput OutputOfChoice(const StoredChoice& choice) {
  return OutputOf(choice.pieces, choice.finish.value_or(Finish()));
}

}  // namespace

Status About(const Status& status, const char* field) {
  if (status.ok()) return status;
  Status about(status.code(), status.message(), field);
  about.set_api_code(status.api_code());
  about.set_retry_after_seconds(status.retry_after_seconds());
  return about;
}

Status AboutHistory(Status status, const std::string& previous, const std::string& conversation) {
  if (status.api_code() != std::string_view("context_length_exceeded")) return status;
  const bool in_conversation = !conversation.empty();
  const char* const field = in_conversation ? kConversation : kPrevious;
  if ((previous.empty() && !in_conversation) || status.field() == field) return status;
  const char* const helps =
      in_conversation ? "the conversation's items count, too: delete some, or begin a new one"
                      : "what the response goes on from counts, too: go on from an earlier one, or "
                        "begin anew";
  std::string message = status.message();
  if (message.ends_with('.')) message.pop_back();
  Status about(status.code(), fmt::format("{}; {}", message, helps), field);
  about.set_api_code(status.api_code());
  return about;
}

const char* FieldThatStores(const StoredRequest& request) {
  if (request.background) return "background";
  return request.conversation.empty() ? "store" : kConversation;
}

Status NoSuchAnswer(const std::string& id, const char* field) {
  return {StatusCode::kNotFound, fmt::format("There is no answer with the id '{}'.", id), field};
}

store::ObjectName Response(const std::string& tenant, const std::string& id) {
  return {ObjectKind::kResponse, tenant, id};
}

bool HasOutput(AnswerState state) {
  return state == AnswerState::kCompleted || state == AnswerState::kIncomplete;
}

AnswerRecords::AnswerRecords(StoredAnswersOptions options, store::ObjectStore* store)
    : dialects_(std::move(options.dialects)),
      limits_(options.body),
      sampling_(options.sampling),
      store_(store) {
  // What was accepted once stays accepted.
  limits_.reject_unknown = false;
  limits_.max_choices = std::numeric_limits<int>::max();
}

StatusOr<Items> AnswerRecords::Before(const std::string& tenant, const std::string& previous,
                                      const std::string& conversation_id, bool holds) const {
  if (!previous.empty()) return Ancestors(tenant, previous, holds);
  if (conversation_id.empty()) return Items();
  StatusOr<store::Conversation> conversation = ReadConversation(tenant, conversation_id);
  if (!conversation.ok()) return conversation.status();
  if (conversation->items.size() >= kMostConversationItems ||
      BytesOf(conversation->items) > kMostHistoryBytes) {
    return InvalidArgument(
        fmt::format("The conversation '{}' is full: it may have {} items, of {} MiB together.",
                    conversation_id, kMostConversationItems, kMostHistoryBytes >> 20),
        kConversation);
  }
  return std::move(conversation->items);
}

StatusOr<store::Conversation> AnswerRecords::ReadConversation(const std::string& tenant,
                                                              const std::string& id) const {
  StatusOr<store::Object> object = store_->Read({ObjectKind::kConversation, tenant, id});
  if (object.status().code() == StatusCode::kNotFound) {
    return Status(StatusCode::kNotFound,
                  fmt::format("There is no conversation with the id '{}'.", id), kConversation);
  }
  if (!object.ok()) return About(object.status(), kConversation);
  return store::UnpackConversation(object->state);
}

StatusOr<Items> AnswerRecords::Ancestors(const std::string& tenant, const std::string& previous,
                                         bool hidden_too) const {
  std::vector<Items> turns;  // The last one first.
  size_t bytes = 0;
  for (std::string id = previous; !id.empty();) {
    StatusOr<StoredAnswer> answer = Read(tenant, id, hidden_too || !turns.empty());
    if (!answer.ok()) return About(answer.status(), kPrevious);
    const StoredRequest& request = *answer->request;
    if (!HasOutput(answer->state)) {
      return InvalidArgument(fmt::format("The answer '{}' is {}; only a completed or an incomplete "
                                         "one can be gone on from.",
                                         id, api::AnswerStateName(answer->state)),
                             kPrevious);
    }
    if (!request.conversation.empty()) {
      return InvalidArgument(fmt::format("The answer '{}' is a turn of the conversation '{}': name "
                                         "that in 'conversation' instead.",
                                         id, request.conversation),
                             kPrevious);
    }
    StatusOr<std::unique_ptr<api::ApiFormat>> format = Reopen(request);
    if (!format.ok()) return About(format.status(), kPrevious);
    const auto* items = dynamic_cast<const api::ItemFormat*>(format->get());
    if (items == nullptr) {
      return InvalidArgument(fmt::format("'{}' is not the id of a response.", id), kPrevious);
    }
    Items& turn = turns.emplace_back(items->InputItems());
    for (std::string& item : items->OutputItems(OutputOfChoice(answer->choices.front()))) {
      turn.push_back(std::move(item));
    }
    bytes += BytesOf(turn) + request.body.size();
    if (turns.size() > kMostAncestors || bytes > kMostHistoryBytes) {
      return InvalidArgument(fmt::format("The answers before this one are too many: at most {}, of "
                                         "{} MiB together, are read.",
                                         kMostAncestors, kMostHistoryBytes >> 20),
                             kPrevious);
    }
    id = request.previous;
  }
  Items all;
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    all.insert(all.end(), std::make_move_iterator(turn->begin()),
               std::make_move_iterator(turn->end()));
  }
  return all;
}

StatusOr<StoredAnswer> AnswerRecords::Read(const std::string& tenant, const std::string& id,
                                           bool hidden_too) const {
  StatusOr<store::Object> object = store_->Read(Response(tenant, id), hidden_too);
  if (object.status().code() == StatusCode::kNotFound) return NoSuchAnswer(id, "");
  if (!object.ok()) return object.status();
  StatusOr<StoredRequest> request = UnpackRequest(object->fixed);
  if (!request.ok()) return request.status();
  StatusOr<StoredAnswer> answer = UnpackAnswer(object->state);
  if (!answer.ok()) return answer.status();
  // An older process may have written it for other choices.
  if (answer->choices.empty()) answer->choices.emplace_back();
  answer->request = std::make_shared<const StoredRequest>(*std::move(request));
  return answer;
}

StatusOr<std::unique_ptr<api::ApiFormat>> AnswerRecords::Reopen(
    const StoredRequest& request) const {
  for (const api::ApiFormatMaker make : dialects_) {
    std::unique_ptr<api::ApiFormat> format = make();
    if (!request.id.starts_with(format->id_prefix())) continue;
    format->request()->request.sampling = sampling_;
    Status status = format->Parse(request.body, limits_);
    if (!status.ok()) return status;
    format->Start(request.head);
    return format;
  }
  return Status(StatusCode::kDataLoss, fmt::format("No dialect has ids such as '{}'.", request.id));
}

StatusOr<AnswerRecords::TurnChange> AnswerRecords::Turn(const StoredRequest& request,
                                                        const api::ChoiceOutput& output) const {
  StatusOr<store::Conversation> conversation =
      ReadConversation(request.tenant, request.conversation);
  if (!conversation.ok()) return conversation.status();
  StatusOr<std::unique_ptr<api::ApiFormat>> format = Reopen(request);
  if (!format.ok()) return format.status();
  auto* const items = dynamic_cast<api::ItemFormat*>(format->get());
  if (items == nullptr) return Status(StatusCode::kInternal, "The dialect has no items.");
  TurnChange change;
  change.with.name = {ObjectKind::kConversation, request.tenant, request.conversation};
  change.without = change.with;
  change.without.state = store::PackConversation(*conversation);
  // The ids that it has already are not given again.
  if (Status continued = items->Continue(conversation->items); !continued.ok()) return continued;
  for (Items more : {items->InputItems(), items->OutputItems(output)}) {
    conversation->items.insert(conversation->items.end(), std::make_move_iterator(more.begin()),
                               std::make_move_iterator(more.end()));
  }
  change.with.state = store::PackConversation(*conversation);
  return change;
}

std::string AnswerRecords::Show(const StoredAnswer& answer, const api::ApiFormat& format) const {
  if (!HasOutput(answer.state)) {
    return format.Pending(answer.state, answer.error ? &*answer.error : nullptr);
  }
  std::vector<api::ChoiceOutput> outputs;
  for (const StoredChoice& choice : answer.choices) outputs.push_back(OutputOfChoice(choice));
  return format.Whole(outputs);
}

}  // namespace ropeway::server
