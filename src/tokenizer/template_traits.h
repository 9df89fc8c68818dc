// What a chat template takes, where templates differ (template_trials.h finds it out).
#ifndef ROPEWAY_TOKENIZER_TEMPLATE_TRAITS_H_
#define ROPEWAY_TOKENIZER_TEMPLATE_TRAITS_H_

#include <cstdint>
#include <string_view>

namespace ropeway::tokenizer {

// How a template takes the content of messages.
enum class ContentForm : uint8_t {
  kText,         // As a string alone.
  kTextOrParts,  // Or as a list of {"type": "text", "text": ...}.
  kParts,        // As such a list alone.
};

// The defaults are for a template that does not show what is asked about.
struct TemplateTraits {
  // Whether it shows system messages.
  bool reads_system = false;
  // Whether it shows the tools of a chat.
  bool reads_tools = false;
  // Whether it shows the calls in the assistant's messages.
  bool reads_tool_calls = false;
  // It takes the arguments of calls as a dictionary; else as JSON text.
  bool object_arguments = true;
  // It shows the calls of a message without text only where its content is none; else it is "".
  bool none_content = false;
  // It fails for a tool without a description or parameters; then they are "" and an object's
  // schema without properties.
  bool whole_tools = false;
  // The key under which it looks for reasoning_content.
  std::string_view reasoning_key = "reasoning_content";
  // By role. A developer's message is as the system's, and any other as the user's.
  ContentForm user = ContentForm::kText;
  ContentForm system = ContentForm::kText;
  ContentForm assistant = ContentForm::kText;
  ContentForm tool = ContentForm::kText;

  ContentForm FormOf(std::string_view role) const {
    if (role == "system" || role == "developer") return system;
    if (role == "assistant") return assistant;
    return role == "tool" ? tool : user;
  }

  friend bool operator==(const TemplateTraits&, const TemplateTraits&) = default;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEMPLATE_TRAITS_H_
