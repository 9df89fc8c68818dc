// A chat as kinds of servers take it.
#ifndef ROPEWAY_API_WIRE_CHAT_H_
#define ROPEWAY_API_WIRE_CHAT_H_

#include <nlohmann/json_fwd.hpp>

#include "core/parameters.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api::wire {

// Puts the chat into the body of a request to such a server. Fails as WireFormat::Write does, also
// where a JSON text of the chat is none.
//
// Ollama's own API has no way to show the model tools and to have it call none: there they are left
// out. What a kind cannot be told of calls is kUnimplemented, by the field's name.
Status WriteChat(const Chat& chat, core::ServerKind kind, nlohmann::ordered_json* body);

}  // namespace ropeway::api::wire

#endif  // ROPEWAY_API_WIRE_CHAT_H_
