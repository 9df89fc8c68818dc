// A model's chat template: what turns a chat into a prompt.
#ifndef ROPEWAY_TOKENIZER_CHAT_TEMPLATE_H_
#define ROPEWAY_TOKENIZER_CHAT_TEMPLATE_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

// Renders as Hugging Face's apply_chat_template does: Jinja in its sandbox,
// with trim_blocks, lstrip_blocks, break and continue, {% generation %}, tojson
// without HTML's escapes, raise_exception and strftime_now. Not supported, and
// refused: include, import, extends, block, do, recursive loops, the filters,
// tests, methods and functions that are not in jinja/. Bounded in steps,
// output, memory and recursion. Const and thread-safe after construction.
class ChatTemplate {
 public:
  // Fails where the template has what is not supported, naming the line: a chat
  // is never rendered differently from what the model was trained with.
  static StatusOr<ChatTemplate> Parse(const std::string& source);

  // The prompt. Fails where the template refuses the messages (raise_exception:
  // the message is its own), uses what is not there, or does not end within a
  // bounded number of steps and bytes. `bos_token` and `eos_token` are the
  // tokens' texts, "" where there is none. `now`, in UTC so that every machine
  // renders the same, is what strftime_now tells.
  StatusOr<std::string> Render(
      const std::vector<ChatMessage>& messages, bool add_generation_prompt,
      std::string_view bos_token, std::string_view eos_token,
      std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) const;

 private:
  struct Program;
  explicit ChatTemplate(std::shared_ptr<const Program> program);

  std::shared_ptr<const Program> program_;
};

}  // namespace ropeway

#endif  // ROPEWAY_TOKENIZER_CHAT_TEMPLATE_H_
