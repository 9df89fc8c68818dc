// The "messages" of a chat request.
#ifndef ROPEWAY_SERVER_CHAT_MESSAGES_H_
#define ROPEWAY_SERVER_CHAT_MESSAGES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

// At least one message with a role of system, developer (taken as system: the models' templates
// know no other), user, assistant, tool or function (which needs a name), and a content of one
// string or of text parts (joined by newlines); an assistant's may be null. A failed Status names
// the place, such as "messages[2].content".
StatusOr<std::vector<ChatMessage>> ReadChatMessages(const nlohmann::json& value,
                                                    const std::string& field);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_CHAT_MESSAGES_H_
