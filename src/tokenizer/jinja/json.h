// Values as JSON, and back.
#ifndef ROPEWAY_TOKENIZER_JINJA_JSON_H_
#define ROPEWAY_TOKENIZER_JINJA_JSON_H_

#include <optional>
#include <string>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace ropeway::jinja {

// As Python's json.dumps writes it.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // One level's.
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// Throws std::invalid_argument for what JSON has not.
std::string ToJson(const Value& value, const JsonStyle& style, Context& context);

// The value that `text` is. Throws std::invalid_argument where it is no JSON.
Value FromJson(const std::string& text, Context& context);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_JSON_H_
