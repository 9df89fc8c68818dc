// A model's chat template, which renders a chat as a prompt.
#ifndef ROPEWAY_TOKENIZER_CHAT_TEMPLATE_H_
#define ROPEWAY_TOKENIZER_CHAT_TEMPLATE_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/spans.h"
#include "tokenizer/template_traits.h"

namespace ropeway::tokenizer {

// A chat as a prompt.
struct RenderedChat {
  std::string text;
  // What the client said of it: all texts of messages but roles that are plain names, tools with
  // their parameters, template arguments. A control token with a byte in these was written by the
  // client, not by the template: EncodeOptions::quoted.
  Spans quoted = {};
};

// Renders like Hugging Face's apply_chat_template, with messages in the form that the template
// takes (TemplateTraits): Jinja in its sandbox, with trim_blocks,
// lstrip_blocks, break and continue, {% generation %}, tojson without HTML escapes, raise_exception
// and strftime_now. Not supported, and rejected: include, import, extends, block, do, recursive
// loops, and filters, tests, methods and functions that are not in jinja/. Steps, output, memory
// and recursion are bounded: by the chat, and absolutely. Const and thread-safe after construction.
class ChatTemplate {
 public:
  // Fails, naming the line, for anything unsupported: a chat is never rendered differently from the
  // model's training. `name`: of the source, in messages.
  static StatusOr<ChatTemplate> Parse(const std::string& source,
                                      const std::string& name = "tokenizer.chat_template");

  // The prompt. Fails if the template rejects the messages (raise_exception, with its own message),
  // uses undefined values, or exceeds the bounds on steps and bytes; if JSON in the chat is no
  // object; and if a final message that is to be continued is not in the text. `bos_token` and
  // `eos_token` are the tokens' texts, "" for none. `now` is the time for strftime_now, in UTC so
  // that every machine renders the same. A long rendering asks `stopped` once in a millisecond,
  // with the bytes that it holds by then, and fails with kCancelled when it says so. `stopped` may
  // return on another thread, and other chats may be rendered on this one meanwhile.
  StatusOr<RenderedChat> Render(
      const Chat& chat, std::string_view bos_token, std::string_view eos_token,
      std::chrono::system_clock::time_point now = std::chrono::system_clock::now(),
      const std::function<bool(size_t held)>& stopped = nullptr) const;

  const TemplateTraits& traits() const;

 private:
  struct Program;
  explicit ChatTemplate(std::shared_ptr<const Program> program);

  std::shared_ptr<const Program> program_;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_CHAT_TEMPLATE_H_
