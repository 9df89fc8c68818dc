// JSON in and out: a body under bounds, its typed fields with errors that name them, and texts for
// answers. The library's large header is included by .cc files alone.
#ifndef ROPEWAY_API_JSON_H_
#define ROPEWAY_API_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
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

// `fault`, whose message names an entry of a list, as one of the field that holds the list.
Status AtEntry(const Status& fault, const std::string& field);

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

// --- Writing.

// The JSON text; strings that are not UTF-8 get U+FFFD.
std::string DumpJson(const nlohmann::ordered_json& json);

// Appends `text` as a JSON string; what is not UTF-8 becomes U+FFFD. Much faster than the library.
void AppendJsonString(std::string_view text, std::string* out);

}  // namespace ropeway::api

#endif  // ROPEWAY_API_JSON_H_
