// A chat as the values that its template reads. What the client said in it is quoted (jinja::Str).
#ifndef ROPEWAY_TOKENIZER_CHAT_VALUES_H_
#define ROPEWAY_TOKENIZER_CHAT_VALUES_H_

#include <cstddef>
#include <functional>
#include <string_view>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/template_traits.h"

namespace ropeway::tokenizer {

struct ChatValues {
  jinja::Globals globals;
  size_t bytes = 0;  // Of memory, about.
};

// The variables of a template with these traits. kInvalidArgument, with the field, for JSON that is
// not an object or nests too deeply, and for template arguments that may not be set. Asks `stopped`
// as ChatTemplate::Render does. REQUIRES: no rendering runs on this thread.
StatusOr<ChatValues> MakeChatValues(const Chat& chat, const TemplateTraits& traits,
                                    std::string_view bos_token, std::string_view eos_token,
                                    const std::function<bool(size_t held)>& stopped);

// The text that ends the message's content, as the template is given it: the last part, or all.
std::string_view LastTextOf(const ChatMessage& message, const TemplateTraits& traits);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_CHAT_VALUES_H_
