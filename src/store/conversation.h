// A conversation as the store keeps it (ObjectChange::state).
#ifndef ROPEWAY_STORE_CONVERSATION_H_
#define ROPEWAY_STORE_CONVERSATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::store {

struct Conversation {
  std::string metadata = "{}";     // A JSON object, as text.
  std::vector<std::string> items;  // JSON objects with an "id", as texts; the oldest first.
};

std::string PackConversation(const Conversation& conversation);
// kDataLoss for what PackConversation did not make.
StatusOr<Conversation> UnpackConversation(std::string_view packed);

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_CONVERSATION_H_
