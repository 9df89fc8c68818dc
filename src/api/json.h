// JSON in and out: a body under bounds, its typed fields with errors that name them, and texts for
// answers. The library's large header is included by .cc files alone.
#ifndef ROPEWAY_API_JSON_H_
#define ROPEWAY_API_JSON_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

// base::ReadJson of a request's body.
StatusOr<nlohmann::json> ReadJson(std::string_view text, const base::JsonBounds& bounds);

// --- One value of a named field. A failed status names `field`.

StatusOr<bool> ReadBool(const nlohmann::json& value, const std::string& field);

StatusOr<std::string> ReadString(const nlohmann::json& value, const std::string& field);

// An integer in [low, high], written as one: 3.0 and 1e2 are rejected.
StatusOr<int32_t> ReadInt32(const nlohmann::json& value, const std::string& field, int32_t low,
                            int32_t high);

// A list of token ids: integers of at least 0.
StatusOr<std::vector<TokenId>> ReadTokenIds(const nlohmann::json& list, const std::string& field);

// A finite number in [low, high], or in (low, high] with `above_low`.
StatusOr<double> ReadNumber(const nlohmann::json& value, const std::string& field, double low,
                            double high, bool above_low = false);

// A name from the body as an error message shows it: bounded, and valid UTF-8 where it is cut.
std::string ShownName(const std::string& name);

// kInvalidArgument: "Unknown field '...'."
Status UnknownField(const std::string& path);

// kInvalidArgument: "'field' must be <expected>, but is <the value>."
Status Mismatch(const nlohmann::json& value, const std::string& field, const std::string& expected);

// kUnimplemented: "'field' is not supported<where>."
Status Unsupported(const std::string& field, const std::string& where = "");
// kUnimplemented: "'field' supports only <value>."
Status SupportsOnly(const std::string& field, const std::string& value);

// Stores a value that was read, or returns why it was not.
template <typename T, typename Out>
Status Store(StatusOr<T> read, Out* out) {
  if (!read.ok()) return read.status();
  *out = *std::move(read);
  return {};
}

// --- Tables of fields. A reader stores one field's value, which is never null, in a `Draft`.

template <typename Draft>
using FieldReader =
    std::function<Status(const nlohmann::json& value, const std::string& field, Draft* draft)>;
template <typename Draft>
using FieldTable = std::unordered_map<std::string, FieldReader<Draft>>;

// Reads every field of `document` by its reader. null is the same as an absent field (OpenAI's
// clients send it so); a field without a reader is an error.
template <typename Json, typename Draft>
Status ReadFields(const Json& document, const FieldTable<Draft>& table, Draft* draft) {
  if (!document.is_object()) return InvalidArgument("The body must be a JSON object.");
  for (const auto& [name, value] : document.items()) {
    const auto reader = table.find(name);
    if (reader == table.end()) return UnknownField(ShownName(name));
    if (value.is_null()) continue;
    Status status = reader->second(value, name, draft);
    if (!status.ok()) return status;
  }
  return {};
}

// Where a draft keeps a member. For the members of a part of it, a draft has an overload of this.
template <typename Draft, typename Class, typename T>
requires std::derived_from<Draft, Class> T* Slot(Draft* draft, T Class::*member) {
  return &(draft->*member);
}

// The reader of a field that `read` makes a value of, which is stored in `member`.
template <typename Read, typename Member>
auto FieldOf(Read read, Member member) {
  return [=](const nlohmann::json& value, const std::string& field, auto* draft) -> Status {
    return Store(read(value, field), Slot(draft, member));
  };
}

// Likewise of an integer or a number in [low, high].
template <typename Member>
auto IntField(int32_t low, int32_t high, Member member) {
  const auto read = [=](const nlohmann::json& value, const std::string& field) {
    return ReadInt32(value, field, low, high);
  };
  return FieldOf(read, member);
}
template <typename Member>
auto NumberField(double low, double high, Member member) {
  const auto read = [=](const nlohmann::json& value, const std::string& field) {
    return ReadNumber(value, field, low, high);
  };
  return FieldOf(read, member);
}

// Readers for fields that no draft stores.

// Accepted without effect, but checked.
Status IgnoreString(const nlohmann::json& value, const std::string& field, const void*);
Status IgnoreBool(const nlohmann::json& value, const std::string& field, const void*);
// Rejected whatever the value.
Status Reject(const nlohmann::json& value, const std::string& field, const void*);
// For lists and objects that ask for nothing when empty.
Status RejectUnlessEmpty(const nlohmann::json& value, const std::string& field, const void*);
// For switches with one position that changes nothing.
Status RejectUnlessFalse(const nlohmann::json& value, const std::string& field, const void*);
Status RejectUnlessTrue(const nlohmann::json& value, const std::string& field, const void*);

// --- Writing.

// The JSON text; strings that are not UTF-8 get U+FFFD.
std::string DumpJson(const nlohmann::ordered_json& json);

// Appends `text` as a JSON string; what is not UTF-8 becomes U+FFFD. Much faster than the library.
void AppendJsonString(std::string_view text, std::string* out);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_JSON_H_
