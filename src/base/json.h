// JSON that others wrote, read under bounds. Only .cc files include the library's large header.
#ifndef ROPEWAY_BASE_JSON_H_
#define ROPEWAY_BASE_JSON_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::base {

// Bounds on one JSON document.
struct JsonBounds {
  int max_depth = 32;
  size_t max_values = 1'000'000;  // Values and keys together.
  // A key may be given twice in one object: the last value holds, as for most readers. Else it is
  // an error.
  bool repeated_keys = false;
};

// Parses `text`, at a cost in stack and memory that `bounds` limit. kInvalidArgument, with the byte
// at fault, if it is not one JSON document in valid UTF-8, has a number outside a double's range,
// has a key twice in one object where `bounds` do not allow it, or exceeds `bounds`. The message
// calls the document `what`.
StatusOr<nlohmann::json> ReadJson(std::string_view text, const JsonBounds& bounds,
                                  std::string_view what);
// The same, with the keys of objects in the order of the text.
StatusOr<nlohmann::ordered_json> ReadOrderedJson(std::string_view text, const JsonBounds& bounds,
                                                 std::string_view what);
// The same of one member of a document: that of the key path[0], in it that of path[1] and so on.
// The rest is only looked through. kInvalidArgument too if there is no such member.
StatusOr<nlohmann::ordered_json> ReadOrderedMember(std::string_view text,
                                                   const std::vector<std::string_view>& path,
                                                   const JsonBounds& bounds, std::string_view what);

// Whether ReadJson would give an object.
bool IsJsonObject(std::string_view text, const JsonBounds& bounds);

// `text` as a JSON string in ASCII, with U+FFFD for what is no UTF-8.
std::string QuoteJson(std::string_view text);

// Member and Text read JSON that is not trusted: a value of another kind counts as absent.

// The member `key`; null where there is none or `json` is no object.
const nlohmann::json& Member(const nlohmann::json& json, const char* key);
// A string's text, "" for anything else; valid while `json` is.
std::string_view Text(const nlohmann::json& json);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_JSON_H_
