// How the fields of a tokenizer.json are read.
#ifndef ROPEWAY_TOKENIZER_HF_FIELDS_H_
#define ROPEWAY_TOKENIZER_HF_FIELDS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "ropeway/status.h"

namespace ropeway::tokenizer {

// As an error shows it.
inline std::string Quoted(std::string_view text) {
  return "\"" + base::PrintableText(text.substr(0, 64)) + "\"";
}

// The member, or null where `object` has none (or is none).
inline const nlohmann::json& Member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json null;
  if (!object.is_object()) return null;
  const auto at = object.find(key);
  return at == object.end() ? null : *at;
}

// "" if it is no text.
inline std::string TextOf(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

// The error of a field of tokenizer.json that is no valid one, or that asks for what there is not.
inline Status BrokenField(const std::string& field, const std::string& what) {
  const std::string where = "tokenizer.json \"" + field + "\"";
  return {StatusCode::kDataLoss, where + ": " + what, where};
}
inline Status LacksField(const std::string& field, const std::string& what) {
  const std::string where = "tokenizer.json \"" + field + "\"";
  return {StatusCode::kUnimplemented, where + ": " + what + " is not supported", where};
}

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_HF_FIELDS_H_
