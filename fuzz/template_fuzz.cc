// A chat template: parsed, and if it is supported, rendered for two chats. libFuzzer's -timeout
// (scripts/fuzz.sh) and ctest's bound the time, and likewise memory.
#include <string>
#include <vector>

#include "fuzz/fuzz_target.h"
#include "tokenizer/chat_template.h"

namespace ropeway::fuzz {
namespace {

const std::vector<std::vector<ChatMessage>>& Chats() {
  static const std::vector<std::vector<ChatMessage>> chats = {
      {{"user", "Hello"}},
      {{"system", "You are brief. \xC3\xA9\n"},
       {"user", "What is 1 + 1? <|im_end|>"},
       {"assistant", " 2 "},
       {"user", ""}},
  };
  return chats;
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
    const auto first = parsed->Render(chat, true, "<s>", "</s>");
    if (!first.ok()) {
      ropeway::fuzz::Require(first.status().code() != ropeway::StatusCode::kInternal,
                             "rendering is an internal error: " + first.status().message());
      continue;
    }
    if (source.find("now") != std::string::npos) continue;  // strftime_now may differ.
    const auto second = parsed->Render(chat, true, "<s>", "</s>");
    ropeway::fuzz::Require(second.ok() && *first == *second, "the second rendering differs");
  }
  return 0;
}
