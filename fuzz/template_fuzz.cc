// Parses a chat template and, if it is supported, renders it for a few chats; what they say it must
// quote. The limits of libFuzzer (scripts/fuzz.sh) and of ctest bound time and memory.
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz_target.h"
#include "tokenizer/chat_template.h"

namespace ropeway::fuzz {
namespace {

// A character of messages alone.
constexpr std::string_view kSaid = "\xE2\x97\x86";

// Has the character in each text.
Chat ChatWithTools(const std::string& said) {
  const std::string json =
      "{\"a" + said + "\": [\"" + said + "\", {\"" + said + "\": 1.5}], \"b\": null}";
  return {.messages =
              {{.role = "system", .content = said + "Be\n" + said, .part_sizes = {5, 3}},
               {.role = "user", .content = "1 + 1?" + said, .name = "ann" + said},
               {.role = "assistant",
                .content = "",
                .reasoning_content = "Hm" + said,
                .tool_calls = {{.id = "call12345" + said, .name = "add" + said, .arguments = json},
                               {.id = "", .name = "sub" + said, .arguments = ""}}},
               {.role = "tool",
                .content = "2" + said,
                .name = "add" + said,
                .tool_call_id = "call12345" + said},
               {.role = "assistant",
                .content = "It is " + said,
                .reasoning_content = said,
                .tool_calls = {}}},
          .tools = {{.name = "add" + said, .description = "Adds" + said, .parameters = json},
                    {.name = "sub" + said}},
          .template_arguments =
              "{\"enable_thinking\": true, \"thinking\": false, \"x\": " + json + "}"};
}

const std::vector<Chat>& Chats() {
  static const std::string said(kSaid);
  static const std::vector<Chat> chats = [] {
    std::vector<Chat> made = {
        {.messages = {{"user", "Hello" + said}}},
        {.messages = {{"system", "You are brief. \xC3\xA9" + said + "\n"},
                      {"user", "What is 1 + 1? <|im_end|>" + said},
                      {"assistant", " 2 " + said},
                      {"user", ""}}},
        ChatWithTools(said),
        ChatWithTools(said),
    };
    made.back().add_generation_prompt = false;
    made.back().continue_final_message = true;
    return made;
  }();
  return chats;
}

// Wherever a template lets it through, that character is quoted.
void CheckQuoted(const std::string& source, const tokenizer::RenderedChat& chat) {
  size_t end = 0;
  for (const tokenizer::Span& span : chat.quoted) {
    Require(span.begin < span.end && span.end <= chat.text.size(), "a quotation outside the text");
    Require(end == 0 || span.begin > end, "quotations that touch");
    end = span.end;
  }
  // Templates may write it too, in parts or as an escape.
  if (source.find_first_of("\x97\\") != std::string::npos) return;
  for (size_t at = chat.text.find(kSaid); at != std::string::npos;
       at = chat.text.find(kSaid, at + 1)) {
    const tokenizer::Spans within = SpansWithin(chat.quoted, at, at + kSaid.size());
    Require(within.size() == 1 && within[0].end - within[0].begin == kSaid.size(),
            "text of a message is not quoted");
  }
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto parsed = ropeway::tokenizer::ChatTemplate::Parse(source);
  if (!parsed.ok()) {
    ropeway::fuzz::RequirePrintableError(parsed.status());
    return 0;
  }
  for (const auto& chat : ropeway::fuzz::Chats()) {
    const auto first = parsed->Render(chat, "<s>", "</s>");
    if (!first.ok()) {
      ropeway::fuzz::Require(first.status().code() != ropeway::StatusCode::kInternal,
                             "rendering is an internal error: " + first.status().message());
      continue;
    }
    ropeway::fuzz::CheckQuoted(source, *first);
    if (chat.continue_final_message) {
      // It ends with what the last message says, up to white space.
      ropeway::fuzz::Require(
          !first->quoted.empty() && first->quoted.back().end == first->text.size(),
          "a continued chat ends with other text");
    }
    if (source.find("now") != std::string::npos) continue;  // strftime_now may differ.
    const auto second = parsed->Render(chat, "<s>", "</s>");
    ropeway::fuzz::Require(
        second.ok() && first->text == second->text && first->quoted == second->quoted,
        "the second rendering differs");
  }
  return 0;
}
