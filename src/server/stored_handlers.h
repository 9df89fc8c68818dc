// What the routes of stored answers and conversations do.
#ifndef ROPEWAY_SERVER_STORED_HANDLERS_H_
#define ROPEWAY_SERVER_STORED_HANDLERS_H_

#include <string>
#include <string_view>

#include "api/api_format.h"
#include "http/route.h"
#include "server/item_list.h"
#include "server/stored_call.h"

namespace ropeway::server {

// --- A dialect's stored answers, by the "id" in the path. Another dialect's ids are not there.

// GET: the answer as it is, or with `stream` as events from its beginning on, or from behind
// `starting_after`. What is under way is shown without a helper thread. `context` must outlive it.
http::Route::Handler ShowsAnswer(ServerContext* context, api::ApiFormatMaker dialect);
// DELETE. `object`: what the answer to that calls itself.
http::Route::Handler DeletesAnswer(ServerContext* context, api::ApiFormatMaker dialect,
                                   std::string_view object);
// POST .../cancel.
http::Route::Handler CancelsAnswer(ServerContext* context, api::ApiFormatMaker dialect);
// GET .../input_items.
http::Route::Handler ListsInputItems(ServerContext* context, api::ApiFormatMaker dialect);

// --- Conversations (conversation_handlers.cc). `responses`: the dialect of their items.

using ConversationWork = StatusOr<std::string>(StoredCall* call, api::ApiFormatMaker responses);
ConversationWork CreateConversation, ShowConversation, UpdateConversation, DeleteConversation,
    ListConversationItems, AddConversationItems, ShowConversationItem, DeleteConversationItem;

// GET /admin/stored: what is stored, the newest first.
StatusOr<std::string> ListStored(StoredCall* call);

// --- What these share.

// The query of a list of items: `limit`, `order`, `after` and `include`.
StatusOr<PageOptions> ReadPage(StoredCall* call, api::ApiFormatMaker responses);
// `include`: what the dialect knows changes nothing here.
Status ReadInclude(StoredCall* call, api::ApiFormatMaker responses);
// {"id", "object", "deleted": true}.
std::string DeletedJson(const std::string& id, std::string_view object);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_STORED_HANDLERS_H_
