// The messages of a chat as Ollama's API writes them.
#ifndef ROPEWAY_API_OLLAMA_MESSAGES_H_
#define ROPEWAY_API_OLLAMA_MESSAGES_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/fields.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

// Messages with a role of system, user, assistant or tool, in upper or lower case, and a content of
// one string; none: "". A tool's message answers the call of its `tool_call_id`; without one, the
// first call of its `tool_name` that no message has answered; without that as well, the first
// such call of any tool. Calls without an id get one. What is wrong in a message goes to the
// report; then what is returned is of no use.
StatusOr<std::vector<ChatMessage>> ReadOllamaMessages(const nlohmann::json& value,
                                                      const std::string& field,
                                                      const BodySource& source);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_OLLAMA_MESSAGES_H_
