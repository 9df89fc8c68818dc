#include "tokenizer/tokenize_lines.h"

#include <array>
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

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string ToBase64(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8U | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) {
      const bool padding = i + j > bytes.size();
      text.push_back(padding ? '=' : kAlphabet[(group >> (18 - 6 * j)) & 63U]);
    }
  }
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && !text.empty() && text.back() == '='; ++i) text.remove_suffix(1);
  std::string bytes;
  uint32_t group = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == kAlphabet.npos) return std::nullopt;
    group = (group << 6U | static_cast<uint32_t>(value)) & 0xFFFFFU;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push_back(static_cast<char>(group >> bits));
    }
  }
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
