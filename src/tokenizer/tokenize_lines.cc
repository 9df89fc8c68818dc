#include "tokenizer/tokenize_lines.h"

#include <openssl/evp.h>

#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace ropeway::tokenizer {
namespace {

using Json = nlohmann::json;

const unsigned char* Unsigned(const char* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* Unsigned(char* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

std::string ToBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  EVP_EncodeBlock(Unsigned(text.data()), Unsigned(bytes.data()), static_cast<int>(bytes.size()));
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size =
      EVP_DecodeBlock(Unsigned(bytes.data()), Unsigned(text.data()), static_cast<int>(text.size()));
  // The library takes '=' anywhere, and spaces at the ends.
  if (text.size() % 4 != 0 || size < 0 || static_cast<size_t>(size) != bytes.size() ||
      text.find('=') < text.size() - padding) {
    return std::nullopt;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

struct Line {
  std::string text;
  EncodeOptions options;
};

// nullopt if `text` is not a line of the form that TokenizeLines reads.
std::optional<Line> ParseLine(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  Line line;
  line.options.without_row = true;
  bool has_text = false;
  for (const auto& [key, value] : json.items()) {
    if (key == "text" && value.is_string() && !has_text) {
      line.text = value.get<std::string>();
      has_text = true;
    } else if (key == "base64" && value.is_string() && !has_text) {
      std::optional<std::string> bytes = FromBase64(value.get_ref<const std::string&>());
      if (!bytes) return std::nullopt;
      line.text = *std::move(bytes);
      has_text = true;
    } else if (key == "add_special" && value.is_boolean()) {
      line.options.add_special = value.get<bool>();
    } else if (key == "parse_special" && value.is_boolean()) {
      line.options.parse_special = value.get<bool>();
    } else {
      return std::nullopt;
    }
  }
  if (!has_text) return std::nullopt;
  return line;
}

}  // namespace

Status TokenizeLines(const Tokenizer& tokenizer, std::istream& in, std::ostream& out) {
  std::string text;
  for (size_t number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    const std::optional<Line> line = ParseLine(text);
    if (!line) {
      return InvalidArgument("line " + std::to_string(number) +
                             R"(: expected {"text": "..."} or {"base64": "..."})");
    }
    const std::vector<TokenId> ids = tokenizer.Encode(line->text, line->options);
    std::string bytes;
    for (const TokenId id : ids) bytes += tokenizer.Bytes(id, /*with_special=*/true);
    out << Json{{"ids", ids}, {"text_base64", ToBase64(bytes)}}.dump() << '\n';
  }
  out.flush();
  return {};
}

}  // namespace ropeway::tokenizer
