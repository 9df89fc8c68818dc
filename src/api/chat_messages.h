// The messages of a chat as OpenAI's API writes them.
#ifndef ROPEWAY_API_CHAT_MESSAGES_H_
#define ROPEWAY_API_CHAT_MESSAGES_H_

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

// At least one message with a role of system, developer (taken as system: the models' templates
// know no other), user, assistant, tool or function (which needs a name), and a content of one
// string or of text parts (joined by newlines); an assistant's may be null. A tool's message
// answers a tool call of an earlier one. What is wrong in a message goes to the report; then what
// is returned is of no use.
StatusOr<std::vector<ChatMessage>> ReadChatMessages(const nlohmann::json& value,
                                                    const std::string& field,
                                                    const BodySource& source);

// Leaves the fields of an object that are not `used` to the report. `parent`: see AddOther.
void ReportOthers(const nlohmann::json& object, std::string_view parent, const std::string& at,
                  std::span<const std::string_view> used, FieldReport* report);

// A text that may be absent. Puts faults into the report.
std::string ReadTextMember(const nlohmann::json& object, const char* name, const std::string& at,
                           FieldReport* report);

// The arguments of a call, as text. Text that is no JSON object is put into one, so that a chat
// template can show it to the model.
StatusOr<std::string> ReadCallArguments(const nlohmann::json& value, const std::string& at);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_CHAT_MESSAGES_H_
