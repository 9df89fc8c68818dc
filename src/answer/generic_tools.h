// Tools for models whose chat template does not know any.
#ifndef ROPEWAY_ANSWER_GENERIC_TOOLS_H_
#define ROPEWAY_ANSWER_GENERIC_TOOLS_H_

#include "ropeway/request.h"

namespace ropeway::answer {

// `chat` as messages alone: a system message shows the tools and says how to call them, in the form
// "hermes"; calls stand in the assistant's text, and what tools say in messages of the user.
// `system`: the template shows system messages; else the user's first message shows the tools.
// Arguments and schemas are not read: what is no JSON stands there as it is.
Chat WithoutTools(Chat chat, bool system);

// Whether the chat has anything of tools.
bool MentionsTools(const Chat& chat);

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_GENERIC_TOOLS_H_
