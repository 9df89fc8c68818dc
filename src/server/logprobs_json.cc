#include "server/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

namespace ropeway {
namespace {

using Json = nlohmann::ordered_json;

// The length of the valid UTF-8 character at the start of `s`, or 0: no overlong forms, surrogates
// or numbers above U+10FFFF. REQUIRES: !s.empty().
size_t CharacterLength(std::string_view s) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || s.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

Json Bytes(std::string_view bytes) {
  Json list = Json::array();
  for (char c : bytes) list.push_back(static_cast<uint8_t>(c));
  return list;
}

Json ChatToken(std::string_view bytes, float logprob) {
  return {{"token", ReplaceInvalidUtf8(bytes)},
          {"logprob", FiniteLogprob(logprob)},
          {"bytes", Bytes(bytes)}};
}

size_t TopCount(const OutputToken& token) {
  return std::min(token.top_logprobs.size(), token.top_bytes.size());
}

}  // namespace

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t length = CharacterLength(bytes);
    out.append(length == 0 ? "\xEF\xBF\xBD" : bytes.substr(0, length));
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string TokenKey(std::string_view bytes) {
  for (std::string_view rest = bytes; !rest.empty();) {
    const size_t length = CharacterLength(rest);
    if (length == 0) {
      std::string out = "bytes:";
      for (char c : bytes) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(c));
      }
      return out;
    }
    rest.remove_prefix(length);
  }
  return std::string(bytes);
}

double FiniteLogprob(float logprob) {
  constexpr double kLowest = -9999.0;
  return std::isfinite(logprob) ? std::max(static_cast<double>(logprob), kLowest) : kLowest;
}

Json CompletionTop(const OutputToken& token) {
  Json top = Json::object();
  // Control tokens have no bytes and would share one key: the more probable one keeps it.
  for (size_t i = 0; i < TopCount(token); ++i) {
    top.emplace(TokenKey(token.top_bytes[i]), FiniteLogprob(token.top_logprobs[i].logprob));
  }
  top.emplace(TokenKey(token.bytes), FiniteLogprob(token.logprob));
  return top;
}

Json ChatLogprobs(const std::vector<OutputToken>& tokens) {
  Json content = Json::array();
  for (const OutputToken& token : tokens) {
    Json entry = ChatToken(token.bytes, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (size_t i = 0; i < TopCount(token); ++i) {
      entry["top_logprobs"].push_back(ChatToken(token.top_bytes[i], token.top_logprobs[i].logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

}  // namespace ropeway
