// The messages of a body with the keys of their objects in the order in which they were sent.
#ifndef ROPEWAY_API_ORDERED_MESSAGES_H_
#define ROPEWAY_API_ORDERED_MESSAGES_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api/fields.h"
#include "ropeway/status.h"

namespace ropeway::api {

// Reads the list of messages a second time once that is needed: the arguments of a tool's call are
// shown to the model as they were written.
class OrderedMessages {
 public:
  // `field`: the name of the list. `source` must outlive it.
  OrderedMessages(std::string field, const BodySource& source)
      : field_(std::move(field)), source_(source) {}

  // The member of one message that is a list. REQUIRES: it is there.
  StatusOr<const nlohmann::ordered_json*> List(size_t message, const char* member);

 private:
  const std::string field_;
  const BodySource& source_;
  std::optional<nlohmann::ordered_json> messages_;
  // The last one that was asked for: a list may be long, with many keys before it.
  const nlohmann::ordered_json* list_ = nullptr;
  size_t message_ = 0;
  std::string member_;
};

}  // namespace ropeway::api

#endif  // ROPEWAY_API_ORDERED_MESSAGES_H_
