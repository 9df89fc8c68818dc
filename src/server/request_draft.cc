#include "server/request_draft.h"

#include <fmt/format.h>

namespace ropeway {

using nlohmann::json;

Status Unsupported(const std::string& field, const std::string& but) {
  return {StatusCode::kUnimplemented, fmt::format("'{}' is not supported{}.", field, but), field};
}

Status IgnoreString(const json& value, const std::string& field, Draft*) {
  return value.is_string() ? Status() : Mismatch(value, field, "a string");
}

Status IgnoreBool(const json& value, const std::string& field, Draft*) {
  return value.is_boolean() ? Status() : Mismatch(value, field, "true or false");
}

Status Refuse(const json&, const std::string& field, Draft*) { return Unsupported(field); }

Status RefuseUnlessEmpty(const json& value, const std::string& field, Draft*) {
  const bool empty = (value.is_array() || value.is_object()) && value.empty();
  return empty ? Status() : Unsupported(field);
}

Status RefuseUnlessFalse(const json& value, const std::string& field, Draft*) {
  StatusOr<bool> on = ReadBool(value, field);
  if (!on.ok()) return on.status();
  return *on ? Unsupported(field, " but as false") : Status();
}

Status RefuseUnlessTrue(const json& value, const std::string& field, Draft*) {
  StatusOr<bool> on = ReadBool(value, field);
  if (!on.ok()) return on.status();
  return *on ? Status() : Unsupported(field, " but as true");
}

}  // namespace ropeway
