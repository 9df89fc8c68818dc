// Log-probabilities as servers write them; see wire_fields.h.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/wire_fields.h"
#include "base/json.h"

namespace ropeway::api::wire {
namespace {

using Json = nlohmann::json;
using base::Member;

constexpr char kLogprobs[] = "logprobs";
constexpr char kLogprob[] = "logprobs.logprob";
constexpr char kBytes[] = "logprobs.bytes";
constexpr char kToken[] = "logprobs.token";
constexpr char kTop[] = "logprobs.top_logprobs";

// NaN where the server has none.
float Logprob(const Json& json, FieldReader* fields) {
  const std::optional<double> value = fields->Number(json, kLogprob);
  if (!value) return std::numeric_limits<float>::quiet_NaN();
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(*value, -kMost, kMost));
}

// The bytes of a token as completions write it: its text, or "bytes:\xe2\x96" where that is none.
std::string BytesOfKey(std::string_view key) {
  constexpr std::string_view kMark = "bytes:";
  if (!key.starts_with(kMark) || key.size() == kMark.size()) return std::string(key);
  std::string bytes;
  for (std::string_view rest = key.substr(kMark.size()); !rest.empty(); rest.remove_prefix(4)) {
    if (rest.size() < 4 || !rest.starts_with("\\x")) return std::string(key);
    unsigned value = 0;
    const char* const digits = rest.data() + 2;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::string(key);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

// A token as chats write it, with its id where the server tells it.
struct Entry {
  TokenLogprob token;
  std::string bytes;
};

Entry ReadEntry(const Json& json, FieldReader* fields) {
  Entry entry;
  if (!json.is_object()) {
    fields->Wrong(json, kLogprobs);
    return entry;
  }
  entry.token = {fields->Count(Member(json, "id"), "logprobs.id").value_or(-1),
                 Logprob(Member(json, "logprob"), fields)};
  const Json& bytes = fields->List(Member(json, "bytes"), kBytes);
  if (bytes.is_null()) entry.bytes = fields->Text(Member(json, "token"), kToken);
  for (const Json& byte : bytes) {
    const std::optional<int32_t> value = fields->Count(byte, kBytes);
    if (!value || *value > 255) fields->Fault(kBytes, "with an entry that is not a byte");
    entry.bytes += static_cast<char>(value.value_or(0));
  }
  return entry;
}

// Collects the most probable tokens beside one token.
class TopTokens {
 public:
  void Add(Entry entry) {
    if (!std::isnan(entry.token.logprob)) list_.push_back(std::move(entry));
  }

  void Store(int32_t top, OutputToken* token) {
    std::stable_sort(list_.begin(), list_.end(), [](const Entry& a, const Entry& b) {
      return a.token.logprob > b.token.logprob;
    });
    list_.resize(std::min(list_.size(), static_cast<size_t>(std::max(top, 0))));
    for (Entry& one : list_) {
      token->top_logprobs.push_back(one.token);
      token->top_bytes.push_back(std::move(one.bytes));
    }
  }

 private:
  std::vector<Entry> list_;
};

void Append(OutputToken token, uint64_t* offset, std::vector<OutputToken>* tokens) {
  token.text_offset = *offset;
  *offset += token.bytes.size();
  tokens->push_back(std::move(token));
}

void ReadChatLogprobs(const Json& list, int32_t top, FieldReader* fields, uint64_t* offset,
                      std::vector<OutputToken>* tokens) {
  for (const Json& json : list) {
    Entry entry = ReadEntry(json, fields);
    OutputToken token;
    token.id = entry.token.id;
    token.logprob = entry.token.logprob;
    token.bytes = std::move(entry.bytes);
    TopTokens others;
    for (const Json& other : fields->List(Member(json, "top_logprobs"), kTop)) {
      others.Add(ReadEntry(other, fields));
    }
    others.Store(top, &token);
    Append(std::move(token), offset, tokens);
  }
}

void ReadCompletionLogprobs(const Json& logprobs, int32_t top, FieldReader* fields,
                            uint64_t* offset, std::vector<OutputToken>* tokens) {
  const Json& names = fields->List(Member(logprobs, "tokens"), "logprobs.tokens");
  const Json& values = fields->List(Member(logprobs, "token_logprobs"), "logprobs.token_logprobs");
  const Json& tops = fields->List(Member(logprobs, "top_logprobs"), kTop);
  if (names.size() != values.size()) {
    fields->Fault(kLogprobs, "with different numbers of tokens and token_logprobs");
    return;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    OutputToken token;
    token.id = -1;
    token.bytes = BytesOfKey(fields->Text(names[i], "logprobs.tokens"));
    token.logprob = Logprob(values[i], fields);
    TopTokens others;
    if (i < tops.size()) {
      for (const auto& [key, value] : fields->Object(tops[i], kTop).items()) {
        others.Add({{-1, Logprob(value, fields)}, BytesOfKey(key)});
      }
    }
    others.Store(top, &token);
    Append(std::move(token), offset, tokens);
  }
}

}  // namespace

void ReadLogprobs(const Json& logprobs, int32_t top, FieldReader* fields, uint64_t* offset,
                  std::vector<OutputToken>* tokens) {
  if (logprobs.is_array()) return ReadChatLogprobs(logprobs, top, fields, offset, tokens);
  const Json& object = fields->Object(logprobs, kLogprobs);
  if (!object.contains("content")) {
    return ReadCompletionLogprobs(object, top, fields, offset, tokens);
  }
  const Json& list = fields->List(Member(object, "content"), "logprobs.content");
  ReadChatLogprobs(list, top, fields, offset, tokens);
}

}  // namespace ropeway::api::wire
