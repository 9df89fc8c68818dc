// The fields of a body that are about its chat: those of chat completions, which /tokenize takes
// too.
#ifndef ROPEWAY_API_CHAT_BODY_H_
#define ROPEWAY_API_CHAT_BODY_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

// How a dialect writes a tool.
enum class ToolForm : uint8_t {
  kNested,  // {"type": "function", "function": {"name", ...}}
  kFlat,    // {"type": "function", "name", ...}
};

struct ChatDraft : BodySource {
  ToolForm tool_form = ToolForm::kNested;
  bool has_messages = false;
  std::vector<ChatMessage> messages;
  std::vector<Tool> tools;
  std::string template_arguments;  // `chat_template_kwargs`, as JSON.
  std::optional<std::string> reasoning_effort;
  std::optional<bool> enable_thinking;
  std::optional<bool> thinking;
  std::optional<bool> add_generation_prompt;
  bool continue_final_message = false;
};

struct ChatField {
  const char* name;
  Status (*read)(const nlohmann::json& value, const std::string& field, ChatDraft* draft);
};

// All of them. What is wrong in a message or a tool goes to the report under its path, such as
// "messages[2].content".
std::span<const ChatField> ChatFieldRows();

// The fields as readers of a draft that is a ChatDraft, and more.
template <typename Draft>
FieldReaders<Draft> ChatReaders() {
  FieldReaders<Draft> readers;
  for (const ChatField& field : ChatFieldRows()) readers.emplace(field.name, field.read);
  return readers;
}

// The chat of a body that has messages. What its fields have wrong together goes to `report`.
Chat TakeChat(ChatDraft* draft, FieldReport* report);

// A fault of a nested tool, as it is called where tools are flat.
Status WithFlatTools(const Status& fault);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_CHAT_BODY_H_
