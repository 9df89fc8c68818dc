#include "server/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/utf8.h"

namespace ropeway {
namespace {

using Json = nlohmann::ordered_json;

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

std::string TokenKey(std::string_view bytes) {
  if (IsValidUtf8(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  for (char c : bytes) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(c));
  }
  return out;
}

double FiniteLogprob(float logprob) {
  constexpr double kLowest = -9999.0;
  return std::isfinite(logprob) ? std::max(static_cast<double>(logprob), kLowest) : kLowest;
}

Json EmptyCompletionLogprobs() {
  return {{"text_offset", Json::array()},
          {"token_logprobs", Json::array()},
          {"tokens", Json::array()},
          {"top_logprobs", Json::array()}};
}

Json CompletionLogprob(const OutputToken& token) {
  return std::isnan(token.logprob) ? Json(nullptr) : Json(FiniteLogprob(token.logprob));
}

Json CompletionTop(const OutputToken& token) {
  if (std::isnan(token.logprob)) return nullptr;
  Json top = Json::object();
  // Control tokens have no bytes and would share one key: the more probable one keeps it.
  for (size_t i = 0; i < TopCount(token); ++i) {
    top.emplace(TokenKey(token.top_bytes[i]), FiniteLogprob(token.top_logprobs[i].logprob));
  }
  top.emplace(TokenKey(token.bytes), FiniteLogprob(token.logprob));
  return top;
}

Json PromptLogprobs(const std::vector<OutputToken>& tokens) {
  const auto entry = [](float logprob, Json rank, const std::string& bytes) -> Json {
    return {{"logprob", FiniteLogprob(logprob)},
            {"rank", std::move(rank)},
            {"decoded_token", ReplaceInvalidUtf8(bytes)}};
  };
  Json list = Json::array();
  for (const OutputToken& token : tokens) {
    if (std::isnan(token.logprob)) {
      list.push_back(nullptr);
      continue;
    }
    Json by_id = Json::object();
    for (size_t i = 0; i < TopCount(token); ++i) {
      by_id.emplace(std::to_string(token.top_logprobs[i].id),
                    entry(token.top_logprobs[i].logprob, i + 1, token.top_bytes[i]));
    }
    by_id.emplace(std::to_string(token.id), entry(token.logprob, nullptr, token.bytes));
    list.push_back(std::move(by_id));
  }
  return list;
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
