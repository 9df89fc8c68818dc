// The fields of /v1/completions alone.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "server/request_draft.h"

namespace ropeway {
namespace {

using nlohmann::json;

StatusOr<Prompt> ReadOnePrompt(const json& value, const std::string& field) {
  if (value.is_string()) return Prompt(value.get<std::string>());
  if (!value.is_array()) {
    return Mismatch(value, field, "a string, a list of token ids, or a list of either");
  }
  if (value.empty()) return InvalidArgument(fmt::format("'{}' is empty.", field), field);
  StatusOr<std::vector<TokenId>> ids = ReadTokenIds(value, field);
  if (!ids.ok()) return ids.status();
  return Prompt(*std::move(ids));
}

// A list of prompts holds prompts of one kind.
Status ReadPrompt(const json& value, const std::string& field, Draft* draft) {
  const bool several =
      value.is_array() && !value.empty() && (value.front().is_string() || value.front().is_array());
  if (several && value.size() > static_cast<size_t>(draft->max_choices)) {
    return InvalidArgument(fmt::format("'{}' holds {} prompts; at most {} are allowed.", field,
                                       value.size(), draft->max_choices),
                           field);
  }
  const size_t count = several ? value.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const json& prompt = several ? value[i] : value;
    if (several && prompt.type() != value.front().type()) {
      return Mismatch(prompt, field, "a list of prompts of one kind");
    }
    StatusOr<Prompt> read = ReadOnePrompt(prompt, field);
    if (!read.ok()) return read.status();
    draft->api.prompts.push_back(*std::move(read));
  }
  return {};
}

Status ReadLogprobs(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadInt32(value, field, 0, kMaxLogprobs), &draft->api.request.logprobs);
}

Status ReadBestOf(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadInt32(value, field, 1, draft->max_choices), &draft->best_of);
}

Status ReadEcho(const json& value, const std::string& field, Draft* draft) {
  return Store(ReadBool(value, field), &draft->api.echo);
}

}  // namespace

void AddCompletionFields(FieldTable* table) {
  table->insert({{"prompt", ReadPrompt},
                 {"logprobs", ReadLogprobs},
                 {"best_of", ReadBestOf},
                 {"echo", ReadEcho},
                 {"suffix", Refuse},
                 {"add_special_tokens", RefuseUnlessTrue},
                 {"prompt_embeds", Refuse}});
}

}  // namespace ropeway
