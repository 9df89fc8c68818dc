// Which tools a body allows the model to call, as OpenAI's dialects write it.
#ifndef ROPEWAY_API_TOOL_CHOICE_H_
#define ROPEWAY_API_TOOL_CHOICE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/fields.h"
#include "api/openai_format.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

// The reader of `tool_choice`. Tools are named in the form that the body's tools have.
Status ReadToolChoice(const nlohmann::json& value, const std::string& field, OpenAiBody* body);

// Puts what the body says about calls into its chat, and leaves the chat only the tools that the
// model may call. What the fields have wrong together goes to `report`.
void SetToolChoice(const OpenAiBody& body, Chat* chat, FieldReport* report);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_TOOL_CHOICE_H_
