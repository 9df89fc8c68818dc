// The items of a response's input: read, shown again, and made into the messages of a chat.
#ifndef ROPEWAY_API_RESPONSES_ITEMS_H_
#define ROPEWAY_API_RESPONSES_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

struct InputItem {
  enum class Kind : uint8_t { kMessage, kThought, kCall, kCallOutput };
  Kind kind = Kind::kMessage;
  std::string at;       // What errors call it: "input[3]".
  std::string id;       // As the client gave it; "": it gave none.
  ChatMessage message;  // What it says, as a message by itself.
  std::string members;  // Its JSON as it is shown, without its id: all behind that.
};

// Reads an input, which is a text or a list of items: messages, thoughts, calls of functions and
// their outputs. What is wrong in an item goes to the report; a list may be empty.
Status ReadInputItems(const nlohmann::json& value, const std::string& field, FieldReport* report,
                      std::vector<InputItem>* items);

// Reads an item that was shown before. A fault names `field`, by which the client asked for it.
StatusOr<InputItem> ReadShownItem(const std::string& text, const std::string& field);

// What an id of an item of this kind begins with: "msg_".
std::string_view ItemPrefix(InputItem::Kind kind);

// The item as JSON text.
std::string ShowItem(const std::string& id, const InputItem& item);

// Makes messages of items, in order. What the assistant thought, said and called one after the
// other is one message, as chats have it.
class ItemMessages {
 public:
  // A fault, with nothing added, where the output of a call has no call before it.
  Status Add(const InputItem& item);
  // Call once.
  std::vector<ChatMessage> Take();

 private:
  // The message of the assistant that goes on; begins one where what the last one has already
  // comes behind what is to follow.
  ChatMessage* Assistant(bool goes_on);

  std::vector<ChatMessage> messages_;
  std::set<std::string, std::less<>> calls_;  // The ids of all so far.
};

}  // namespace ropeway::api

#endif  // ROPEWAY_API_RESPONSES_ITEMS_H_
