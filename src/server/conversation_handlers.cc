// /v1/conversations and all below it.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "api/json.h"
#include "server/conversation_body.h"
#include "server/item_list.h"
#include "server/stored_call.h"
#include "server/stored_handlers.h"

namespace ropeway::server {
namespace {

store::ObjectName NameOf(const StoredCall& call) {
  return {store::ObjectKind::kConversation, call.tenant, call.arguments.front()};
}

Status NoSuchConversation(const StoredCall& call) {
  return {StatusCode::kNotFound, fmt::format("There is no conversation with the id '{}'.",
                                             api::ShownName(call.arguments.front()))};
}

Status NoSuchItem(const StoredCall& call) {
  return {StatusCode::kNotFound,
          fmt::format("The conversation '{}' has no item with the id '{}'.",
                      api::ShownName(call.arguments.front()), api::ShownName(call.arguments[1])),
          "item"};
}

struct KeptConversation {
  store::Conversation conversation;
  int64_t created_ms = 0;
  size_t packed_bytes = 0;  // Of its record as it is stored.
};

StatusOr<KeptConversation> Read(const StoredCall& call) {
  const StatusOr<store::Object> object = call.store().Read(NameOf(call));
  if (object.status().code() == StatusCode::kNotFound) return NoSuchConversation(call);
  if (!object.ok()) return object.status();
  StatusOr<store::Conversation> conversation = store::UnpackConversation(object->state);
  if (!conversation.ok()) return conversation.status();
  return KeptConversation{*std::move(conversation), object->created_ms, object->state.size()};
}

// Changes a conversation, alone, and answers with what `change` returns. `field`: of the body, that
// makes it grow.
template <typename Change>
StatusOr<std::string> ChangeKept(StoredCall* call, const char* field, Change change) {
  StatusOr<StoredAnswers::ConversationHold> hold =
      call->answers().HoldConversation(call->tenant, call->arguments.front());
  if (!hold.ok()) return hold.status();
  StatusOr<KeptConversation> kept = Read(*call);
  if (!kept.ok()) return kept.status();
  StatusOr<std::string> answer = change(&*kept);
  if (!answer.ok()) return answer;
  store::ObjectChange write;
  write.name = NameOf(*call);
  write.state = store::PackConversation(kept->conversation);
  // Changes of what is stored are always taken; what grows is to have room.
  if (write.state.size() > kept->packed_bytes) {
    Status room = call->store().CheckRoom(call->tenant, write.state.size() - kept->packed_bytes);
    if (!room.ok()) return About(room, field);
  }
  if (Status status = call->Write({std::move(write)}, *std::move(hold)); !status.ok()) {
    return status.code() == StatusCode::kNotFound ? NoSuchConversation(*call) : status;
  }
  return answer;
}

}  // namespace

StatusOr<std::string> CreateConversation(StoredCall* call, api::ApiFormatMaker responses) {
  const api::BodyLimits& limits = call->context->limits().body;
  StatusOr<ConversationBody> body =
      ReadConversationBody(call->body, limits, {.metadata = true, .items = true}, &call->ignored);
  if (!body.ok()) return body.status();
  StatusOr<Items> items = NormalItems(*body, nullptr, limits, responses);
  if (!items.ok()) return items.status();
  store::Conversation conversation;
  if (body->metadata) conversation.metadata = *std::move(body->metadata);
  if (Status status = AddItems(*std::move(items), &conversation); !status.ok()) return status;
  const std::string id = DrawId("conv_");
  store::ObjectChange write;
  write.name = {store::ObjectKind::kConversation, call->tenant, id};
  write.fixed = "";
  write.state = store::PackConversation(conversation);
  if (Status status = call->Write({std::move(write)}); !status.ok()) return status;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return ConversationJson(id, std::chrono::duration_cast<std::chrono::milliseconds>(now).count(),
                          conversation);
}

StatusOr<std::string> ShowConversation(StoredCall* call, api::ApiFormatMaker /*responses*/) {
  const StatusOr<KeptConversation> kept = Read(*call);
  if (!kept.ok()) return kept.status();
  return ConversationJson(call->arguments.front(), kept->created_ms, kept->conversation);
}

StatusOr<std::string> UpdateConversation(StoredCall* call, api::ApiFormatMaker responses) {
  const api::BodyLimits& limits = call->context->limits().body;
  const StatusOr<ConversationBody> body = ReadConversationBody(
      call->body, limits, {.metadata = true, .required = "metadata"}, &call->ignored);
  if (!body.ok()) return body.status();
  const StatusOr<Items> none = NormalItems(*body, nullptr, limits, responses);
  if (!none.ok()) return none.status();
  return ChangeKept(call, "metadata", [&](KeptConversation* kept) -> StatusOr<std::string> {
    kept->conversation.metadata = *body->metadata;
    return ConversationJson(call->arguments.front(), kept->created_ms, kept->conversation);
  });
}

StatusOr<std::string> DeleteConversation(StoredCall* call, api::ApiFormatMaker /*responses*/) {
  StatusOr<StoredAnswers::ConversationHold> hold =
      call->answers().HoldConversation(call->tenant, call->arguments.front());
  if (!hold.ok()) return hold.status();
  const Status status = call->store().Delete(NameOf(*call), call->write.Done(*std::move(hold)));
  if (status.code() == StatusCode::kNotFound) return NoSuchConversation(*call);
  if (!status.ok()) return status;
  call->write.set_taken();
  return DeletedJson(call->arguments.front(), "conversation.deleted");
}

StatusOr<std::string> ListConversationItems(StoredCall* call, api::ApiFormatMaker responses) {
  const StatusOr<PageOptions> page = ReadPage(call, responses);
  if (!page.ok()) return page.status();
  const StatusOr<KeptConversation> kept = Read(*call);
  if (!kept.ok()) return kept.status();
  return PageJson(kept->conversation.items, *page);
}

StatusOr<std::string> AddConversationItems(StoredCall* call, api::ApiFormatMaker responses) {
  if (Status status = ReadInclude(call, responses); !status.ok()) return status;
  const api::BodyLimits& limits = call->context->limits().body;
  const StatusOr<ConversationBody> body = ReadConversationBody(
      call->body, limits, {.items = true, .required = "items"}, &call->ignored);
  if (!body.ok()) return body.status();
  return ChangeKept(call, "items", [&](KeptConversation* kept) -> StatusOr<std::string> {
    const Items& before = kept->conversation.items;
    StatusOr<Items> items = NormalItems(*body, &before, limits, responses);
    if (!items.ok()) return items.status();
    StatusOr<std::string> answer = PageJson(*items, {.limit = kMostItemsAtOnce, .ascending = true});
    if (Status status = AddItems(*std::move(items), &kept->conversation); !status.ok()) {
      return status;
    }
    return answer;
  });
}

StatusOr<std::string> ShowConversationItem(StoredCall* call, api::ApiFormatMaker responses) {
  if (Status status = ReadInclude(call, responses); !status.ok()) return status;
  StatusOr<KeptConversation> kept = Read(*call);
  if (!kept.ok()) return kept.status();
  Items& items = kept->conversation.items;
  const std::optional<size_t> at = FindItem(items, call->arguments[1]);
  if (!at) return NoSuchItem(*call);
  return std::move(items[*at]);
}

StatusOr<std::string> DeleteConversationItem(StoredCall* call, api::ApiFormatMaker /*responses*/) {
  return ChangeKept(call, "", [&](KeptConversation* kept) -> StatusOr<std::string> {
    Items& items = kept->conversation.items;
    const std::optional<size_t> at = FindItem(items, call->arguments[1]);
    if (!at) return NoSuchItem(*call);
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(*at));
    return ConversationJson(call->arguments.front(), kept->created_ms, kept->conversation);
  });
}

}  // namespace ropeway::server
