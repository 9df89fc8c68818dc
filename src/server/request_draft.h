// A request body on its way to an ApiRequest: a table that says for each field how it is read.
#ifndef ROPEWAY_SERVER_REQUEST_DRAFT_H_
#define ROPEWAY_SERVER_REQUEST_DRAFT_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/json_fields.h"
#include "server/openai_request.h"

namespace ropeway {

inline constexpr int kMaxLogprobs = 20;  // The engine's bound (ropeway/request.h).

// The request, and what several fields decide together.
struct Draft {
  ApiRequest api;
  int max_choices = 0;  // What the server allows.
  bool has_stream_options = false;
  std::optional<int32_t> best_of;
  std::optional<int32_t> max_completion_tokens;
  bool chat_logprobs = false;
  std::optional<int32_t> top_logprobs;
  std::optional<Priority> priority;  // Of the field `priority`.
  std::optional<Priority> tier;      // Of the field `service_tier`.
};

// Reads one field's value, never null, into the draft.
using FieldReader = Status (*)(const nlohmann::json& value, const std::string& field, Draft* draft);
using FieldTable = std::unordered_map<std::string, FieldReader>;

// The fields of both endpoints, and those of one.
void AddSamplingFields(FieldTable* table);
void AddCommonFields(FieldTable* table);
void AddCompletionFields(FieldTable* table);
void AddChatFields(FieldTable* table);

// kUnimplemented: "'field' is not supported<but>."
Status Unsupported(const std::string& field, const std::string& but = "");

// --- Readers of many fields alike.

// Accepted without effect, but checked.
Status IgnoreString(const nlohmann::json& value, const std::string& field, Draft* draft);
Status IgnoreBool(const nlohmann::json& value, const std::string& field, Draft* draft);

// Not supported, whatever the value.
Status Refuse(const nlohmann::json& value, const std::string& field, Draft* draft);
// For lists and objects whose empty value asks for nothing.
Status RefuseUnlessEmpty(const nlohmann::json& value, const std::string& field, Draft* draft);
// For switches that change nothing in one position.
Status RefuseUnlessFalse(const nlohmann::json& value, const std::string& field, Draft* draft);
Status RefuseUnlessTrue(const nlohmann::json& value, const std::string& field, Draft* draft);

// Puts what was read in its place, or hands on why it could not be.
template <typename T, typename Out>
Status Store(StatusOr<T> read, Out* out) {
  if (!read.ok()) return read.status();
  *out = *std::move(read);
  return {};
}

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_REQUEST_DRAFT_H_
