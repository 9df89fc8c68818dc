// Conversations as their clients write and see them.
#ifndef ROPEWAY_SERVER_CONVERSATION_BODY_H_
#define ROPEWAY_SERVER_CONVERSATION_BODY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "server/answer_records.h"
#include "store/conversation.h"

namespace ropeway::server {

// A client may add so many items at once.
inline constexpr size_t kMostItemsAtOnce = 20;

// What the body of a request about a conversation says.
struct ConversationBody {
  std::optional<std::string> metadata;  // A JSON object, as text.
  std::string items;                    // A JSON list, as text.
  size_t item_count = 0;
};

// The fields that such a body may have. One that is required may not be left out.
struct ConversationFields {
  bool metadata = false;
  bool items = false;
  std::string required = {};  // "": none.
};

// Reads a body; "" stands for {}, where no field is required. The items and the metadata are not
// looked into. Appends names of unknown fields to `ignored`.
StatusOr<ConversationBody> ReadConversationBody(std::string_view body,
                                                const api::BodyLimits& limits,
                                                const ConversationFields& fields,
                                                std::vector<std::string>* ignored);

// The items as they are kept, each with its id, by the rules of the responses' dialect, to which
// the metadata conforms too. `before`: the items of the conversation so far; null: it is new.
// A failed status names the field of the body that is at fault.
StatusOr<Items> NormalItems(const ConversationBody& body, const Items* before,
                            const api::BodyLimits& limits, api::ApiFormatMaker responses);

// Whether the dialect knows all of these values of the field `include`.
Status CheckInclude(const std::vector<std::string>& include, const api::BodyLimits& limits,
                    api::ApiFormatMaker responses);

// Appends items; kInvalidArgument if there would be too many.
Status AddItems(Items items, store::Conversation* conversation);

std::string ConversationJson(const std::string& id, int64_t created_ms,
                             const store::Conversation& conversation);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_CONVERSATION_BODY_H_
