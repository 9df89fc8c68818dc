// Parses a chat template and, if it is supported, renders it for two chats, whose messages it must
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

const std::vector<std::vector<ChatMessage>>& Chats() {
  static const std::string said(kSaid);
  static const std::vector<std::vector<ChatMessage>> chats = {
      {{"user", "Hello" + said}},
      {{"system", "You are brief. \xC3\xA9" + said + "\n"},
       {"user", "What is 1 + 1? <|im_end|>" + said},
       {"assistant", " 2 " + said},
       {"user", ""}},
  };
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
    const auto first = parsed->Render({.messages = chat}, "<s>", "</s>");
    if (!first.ok()) {
      ropeway::fuzz::Require(first.status().code() != ropeway::StatusCode::kInternal,
                             "rendering is an internal error: " + first.status().message());
      continue;
    }
    ropeway::fuzz::CheckQuoted(source, *first);
    if (source.find("now") != std::string::npos) continue;  // strftime_now may differ.
    const auto second = parsed->Render({.messages = chat}, "<s>", "</s>");
    ropeway::fuzz::Require(
        second.ok() && first->text == second->text && first->quoted == second->quoted,
        "the second rendering differs");
  }
  return 0;
}
