#include "tokenizer/template_trials.h"

#include <array>
#include <ctime>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ropeway/request.h"
#include "tokenizer/chat_values.h"

namespace ropeway::tokenizer {
namespace {

// The largest of llama.cpp's templates takes a few thousand steps for such a chat.
#ifdef ROPEWAY_FUZZ
constexpr jinja::Bounds kTrialBounds = {.steps = 20'000, .made = 1 << 19, .held = 1 << 19};
#else
constexpr jinja::Bounds kTrialBounds = {.steps = 100'000, .made = 1 << 22, .held = 1 << 22};
#endif

// Texts that no template writes by itself. Names of nine letters and digits, which Mistral's
// templates want as the ids of calls.
constexpr const char* kAsked = "asked1q7x";
constexpr const char* kSaid = "said2q7xw";
constexpr const char* kSaidToo = "more3q7xw";
constexpr const char* kThought = "thou4q7xw";
constexpr const char* kToolName = "tool5q7xw";
constexpr const char* kKey = "keyy6q7xw";
constexpr const char* kProperty = "prop9q7xw";
constexpr const char* kArgument = "valu7q7xw";
constexpr const char* kCallId = "call8q7xw";

bool Shows(const std::optional<std::string>& text, std::string_view needle) {
  return text && text->find(needle) != std::string::npos;
}

ChatMessage UserMessage() { return {.role = "user", .content = kAsked}; }

Tool WholeTool() {
  return {.name = kToolName,
          .description = "Does it.",
          .parameters = R"({"type": "object", "properties": {")" + std::string(kProperty) +
                        R"(": {"type": "string", "description": "A text."}}, "required": [")" +
                        kProperty + R"("]})"};
}

ChatMessage CallingMessage() {
  return {.role = "assistant",
          .content = "",
          .tool_calls = {{.id = kCallId,
                          .name = kToolName,
                          .arguments = "{\"" + std::string(kKey) + "\": \"" + kArgument + "\"}"}}};
}

ChatMessage ToolMessage(const char* content) {
  return {.role = "tool", .content = content, .name = kToolName, .tool_call_id = kCallId};
}

class Trials {
 public:
  Trials(const jinja::Body& body, std::string_view source) : body_(body), source_(source) {}

  TemplateTraits Run() {
    // The others have a user's message too.
    FindForm(&TemplateTraits::user, {}, "user");
    FindForm(&TemplateTraits::system, {}, "system");
    FindForm(&TemplateTraits::assistant, {UserMessage()}, "assistant");
    if (Mentions("tools")) FindTools();
    if (Mentions("tool_calls")) FindCalls();
    FindForm(&TemplateTraits::tool, {UserMessage(), CallingMessage()}, "tool");
    FindReasoningKey();
    return traits_;
  }

 private:
  bool Mentions(std::string_view name) const { return source_.find(name) != source_.npos; }

  // nullopt where the template rejects the chat.
  std::optional<std::string> Rendered(const Chat& chat) const {
    try {
      StatusOr<ChatValues> values = MakeChatValues(chat, traits_, "<s>", "</s>", nullptr);
      if (!values.ok()) return std::nullopt;
      std::tm now{};
      now.tm_year = 126;
      now.tm_mday = 1;
      jinja::Context context(kTrialBounds, now);
      return jinja::Render(body_, values->globals, context).text;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  // How the role's content is taken, in a message behind `before`.
  void FindForm(ContentForm TemplateTraits::*form, std::vector<ChatMessage> before,
                const std::string& role) {
    const bool calls = !before.empty() && !before.back().tool_calls.empty();
    ChatMessage message = calls ? ToolMessage(kSaid) : ChatMessage{.role = role, .content = kSaid};
    Chat chat{.messages = std::move(before)};
    if (calls) chat.tools = {WholeTool()};
    chat.messages.push_back(message);
    if (role == "system" || role == "assistant") chat.messages.push_back(UserMessage());
    ChatMessage& said = chat.messages[chat.messages.size() - (role == "user" || calls ? 1 : 2)];

    traits_.*form = ContentForm::kText;
    const std::optional<std::string> text = Rendered(chat);
    const bool takes_text = Shows(text, kSaid);

    traits_.*form = ContentForm::kParts;
    said.content = std::string(kSaid) + "\n" + kSaidToo;
    said.part_sizes = {std::string_view(kSaid).size(), std::string_view(kSaidToo).size()};
    const std::optional<std::string> parts = Rendered(chat);
    const bool takes_parts = TakesParts(text, parts);

    if (role == "system") traits_.reads_system = takes_text || takes_parts;
    traits_.*form = !takes_parts ? ContentForm::kText
                    : takes_text ? ContentForm::kTextOrParts
                                 : ContentForm::kParts;
  }

  // Whether `parts` shows both, and not as JSON or as Python writes a list.
  static bool TakesParts(const std::optional<std::string>& text,
                         const std::optional<std::string>& parts) {
    if (!Shows(parts, kSaid) || !Shows(parts, kSaidToo)) return false;
    if (parts->find(kSaid) > parts->find(kSaidToo)) return false;
    for (const char* key : {"'text'", "\"text\""}) {
      if (Shows(parts, key) && !Shows(text, key)) return false;
    }
    return true;
  }

  void FindTools() {
    const std::vector<std::vector<ChatMessage>> conversations = {
        {UserMessage()}, {{.role = "system", .content = kSaid}, UserMessage()}};
    for (const auto& messages : conversations) {
      if (!Shows(Rendered({.messages = messages, .tools = {WholeTool()}}), kToolName)) continue;
      traits_.reads_tools = true;
      const Chat bare{.messages = messages, .tools = {{.name = kToolName}}};
      if (Shows(Rendered(bare), kToolName)) return;
      traits_.whole_tools = true;
      if (!Shows(Rendered(bare), kToolName)) traits_.whole_tools = false;
      return;
    }
  }

  void FindCalls() {
    const Chat chat{.messages = {UserMessage(), CallingMessage(), ToolMessage(kSaid)},
                    .tools = {WholeTool()}};
    for (const bool objects : {true, false}) {
      for (const bool none : {false, true}) {
        traits_.object_arguments = objects;
        traits_.none_content = none;
        const std::optional<std::string> text = Rendered(chat);
        // A template for strings may write a dictionary as Python does.
        if (!Shows(text, kArgument) || Shows(text, "{'" + std::string(kKey))) continue;
        traits_.reads_tool_calls = true;
        return;
      }
    }
    traits_.object_arguments = true;
    traits_.none_content = false;
  }

  // Some show it only before a call, some only in the last message.
  void FindReasoningKey() {
    ChatMessage thinks = CallingMessage();
    thinks.reasoning_content = kThought;
    ChatMessage answers{.role = "assistant", .content = kSaid};
    answers.reasoning_content = kThought;
    const std::array<Chat, 2> chats = {
        Chat{.messages = {UserMessage(), answers}, .add_generation_prompt = false},
        Chat{.messages = {UserMessage(), thinks, ToolMessage(kSaid)}, .tools = {WholeTool()}}};
    for (const std::string_view key : {"reasoning_content", "reasoning", "thinking"}) {
      if (!Mentions(key)) continue;
      traits_.reasoning_key = key;
      for (const Chat& chat : chats) {
        if (Shows(Rendered(chat), kThought)) return;
      }
    }
    traits_.reasoning_key = TemplateTraits().reasoning_key;
  }

  const jinja::Body& body_;
  const std::string_view source_;
  TemplateTraits traits_;
};

}  // namespace

TemplateTraits FindTraits(const jinja::Body& body, std::string_view source) {
  return Trials(body, source).Run();
}

}  // namespace ropeway::tokenizer
