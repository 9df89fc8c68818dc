// The messages of Anthropic's API, read as those of a chat.
#ifndef ROPEWAY_API_ANTHROPIC_MESSAGES_H_
#define ROPEWAY_API_ANTHROPIC_MESSAGES_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/fields.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api::anthropic {

// Reads a list of at least one message of the role user, assistant or system, whose content is a
// text or a list of blocks. What one role says in messages that follow each other is one message of
// the chat; results of tools are messages of their own. What is wrong in a message goes to the
// report; then what is returned is of no use.
StatusOr<std::vector<ChatMessage>> ReadMessages(const nlohmann::json& value,
                                                const std::string& field, const BodySource& source);

// Reads "system", a text or a list of text blocks, as a message.
Status ReadSystem(const nlohmann::json& value, const std::string& field, FieldReport* report,
                  ChatMessage* message);

}  // namespace ropeway::api::anthropic

#endif  // ROPEWAY_API_ANTHROPIC_MESSAGES_H_
