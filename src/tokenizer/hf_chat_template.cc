#include "tokenizer/hf_chat_template.h"

#include <nlohmann/json.hpp>

#include "tokenizer/hf_fields.h"

namespace ropeway::tokenizer {
namespace {

using nlohmann::json;

// Of a list of {"name", "template"} the default one, or else the first.
const json& DefaultOf(const json& templates) {
  static const json none;
  const json* first = &none;
  for (const json& named : templates) {
    const json& text = Member(named, "template");
    if (!text.is_string()) continue;
    if (Member(named, "name") == "default") return text;
    if (first->is_null()) first = &text;
  }
  return *first;
}

}  // namespace

std::string ReadHfChatTemplate(const json& tokenizer_config, const json& processor,
                               std::vector<std::string>* warnings) {
  const json& own = Member(tokenizer_config, "chat_template");
  const json& text = own.is_array() ? DefaultOf(own) : own;
  if (text.is_string()) return text.get<std::string>();
  if (!own.is_null()) {
    warnings->push_back(
        "has a chat_template in its tokenizer_config.json that is neither a text nor a list of "
        "{\"name\", \"template\"}, and is not used");
    return "";
  }
  const json& of_processor = Member(processor, "chat_template");
  if (!of_processor.is_string() && !of_processor.is_null()) {
    warnings->push_back(
        "has a chat_template in its chat_template.json that is no text, and is not used");
  }
  return TextOf(of_processor);
}

}  // namespace ropeway::tokenizer
