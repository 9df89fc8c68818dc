#include "api/ordered_messages.h"

#include "base/json.h"

namespace ropeway::api {

StatusOr<const nlohmann::ordered_json*> OrderedMessages::List(size_t message, const char* member) {
  if (!messages_) {
    StatusOr<nlohmann::ordered_json> list =
        base::ReadOrderedMember(source_.text, {field_}, source_.bounds, "the list of messages");
    if (!list.ok()) return InvalidArgument(field_ + ": " + list.status().message(), field_);
    messages_ = *std::move(list);
  }
  if (list_ == nullptr || message_ != message || member_ != member) {
    list_ = &messages_->at(message).at(member);
    message_ = message;
    member_ = member;
  }
  return list_;
}

}  // namespace ropeway::api
