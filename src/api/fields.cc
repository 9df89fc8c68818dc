#include "api/fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ropeway::api {
namespace {

using nlohmann::json;

constexpr uint32_t kBoth = kCompletions | kChat;
constexpr uint32_t kChats = kChat | kTokenize;

constexpr FieldRow kFieldRows[] = {
    // Bookkeeping, or about parts that there are none of. A prompt_cache_key says on which machine
    // to look for a prefix.
    {"user", kBoth, FieldKind::kNoEffect, "a string"},
    {"safety_identifier", kBoth, FieldKind::kNoEffect, "a string"},
    {"metadata", kBoth, FieldKind::kNoEffect, "an object of strings"},
    {"prompt_cache_key", kBoth, FieldKind::kNoEffect, "a string"},
    {"request_id", kBoth, FieldKind::kNoEffect, "a string"},
    {"stream_options.include_obfuscation", kBoth, FieldKind::kNoEffect, "true or false"},
    {"parallel_tool_calls", kChat, FieldKind::kNoEffect, "true or false"},

    {"store", kBoth, FieldKind::kNoEffectWith, "false"},
    {"response_format", kBoth, FieldKind::kNoEffectWith, R"({"type": "text"})"},
    {"bad_words", kBoth, FieldKind::kNoEffectWith, "[]"},
    {"logits_processors", kBoth, FieldKind::kNoEffectWith, "[]"},
    {"use_beam_search", kBoth, FieldKind::kNoEffectWith, "false"},
    {"early_stopping", kBoth, FieldKind::kNoEffectWith, "false"},
    {"include_stop_str_in_output", kBoth, FieldKind::kNoEffectWith, "false"},
    {"return_token_ids", kBoth, FieldKind::kNoEffectWith, "false"},
    {"return_tokens_as_token_ids", kBoth, FieldKind::kNoEffectWith, "false"},
    {"stream_options.continuous_usage_stats", kBoth, FieldKind::kNoEffectWith, "false"},
    {"skip_special_tokens", kBoth, FieldKind::kNoEffectWith, "true"},
    {"spaces_between_special_tokens", kBoth, FieldKind::kNoEffectWith, "true"},
    {"length_penalty", kBoth, FieldKind::kNoEffectWith, "1"},
    {"add_special_tokens", kCompletions, FieldKind::kNoEffectWith, "true"},
    {"add_special_tokens", kChat, FieldKind::kNoEffectWith, "false"},
    {"tools", kChats, FieldKind::kNoEffectWith, "[]"},
    {"functions", kChat, FieldKind::kNoEffectWith, "[]"},
    {"documents", kChat, FieldKind::kNoEffectWith, "[]"},
    {"tool_choice", kChat, FieldKind::kNoEffectWith, R"("none" or "auto")"},
    {"function_call", kChat, FieldKind::kNoEffectWith, R"("none" or "auto")"},
    {"modalities", kChat, FieldKind::kNoEffectWith, R"(["text"])"},
    {"chat_template_kwargs", kChats, FieldKind::kNoEffectWith, "{}"},
    {"mm_processor_kwargs", kChats, FieldKind::kNoEffectWith, "{}"},
    {"add_generation_prompt", kChat, FieldKind::kNoEffectWith, "true"},
    {"continue_final_message", kChats, FieldKind::kNoEffectWith, "false"},
    {"echo", kChat, FieldKind::kNoEffectWith, "false"},

    // They would change the answer, or ask for more than one holds.
    {"suffix", kCompletions, FieldKind::kUnsupported},
    {"prompt_embeds", kCompletions, FieldKind::kUnsupported},
    {"allowed_token_ids", kBoth, FieldKind::kUnsupported},
    {"truncate_prompt_tokens", kBoth, FieldKind::kUnsupported},
    {"structured_outputs", kBoth, FieldKind::kUnsupported},
    {"guided_json", kBoth, FieldKind::kUnsupported},
    {"guided_regex", kBoth, FieldKind::kUnsupported},
    {"guided_choice", kBoth, FieldKind::kUnsupported},
    {"guided_grammar", kBoth, FieldKind::kUnsupported},
    {"guided_decoding_backend", kBoth, FieldKind::kUnsupported},
    {"guided_whitespace_pattern", kBoth, FieldKind::kUnsupported},
    {"kv_transfer_params", kBoth, FieldKind::kUnsupported},
    {"vllm_xargs", kBoth, FieldKind::kUnsupported},
    {"audio", kChat, FieldKind::kUnsupported},
    {"prediction", kChat, FieldKind::kUnsupported},
    {"reasoning_effort", kChat, FieldKind::kUnsupported},
    {"verbosity", kChat, FieldKind::kUnsupported},
    {"web_search_options", kChat, FieldKind::kUnsupported},
    {"moderation", kChat, FieldKind::kUnsupported},
    {"chat_template", kChats, FieldKind::kUnsupported},
};

// Whether it is of the type that a row of kNoEffect names.
bool IsOf(std::string_view type, const json& value) {
  if (type == "a string") return value.is_string();
  if (type == "true or false") return value.is_boolean();
  return value.is_object() && std::all_of(value.begin(), value.end(),
                                          [](const json& member) { return member.is_string(); });
}

}  // namespace

std::span<const FieldRow> FieldRows() { return kFieldRows; }

const FieldRow* FindField(Dialect dialect, std::string_view name) {
  for (const FieldRow& row : kFieldRows) {
    if ((row.dialects & dialect) != 0 && row.name == name) return &row;
  }
  return nullptr;
}

Status CheckField(const FieldRow& row, const json& value, const std::string& field) {
  if (row.kind == FieldKind::kUnsupported) return Unsupported(field);
  if (row.kind == FieldKind::kNoEffect) {
    return IsOf(row.values, value) ? Status() : Mismatch(value, field, row.values);
  }
  constexpr std::string_view kOr = " or ";
  bool same_type = false;
  for (std::string_view rest = row.values; !rest.empty();) {
    const json good = json::parse(rest.substr(0, rest.find(kOr)));
    const bool none = good.is_structured() && good.empty() && value.is_structured();
    if (none ? value.empty() : value == good) return {};
    same_type = same_type || value.type() == good.type() ||
                (value.is_number() && good.is_number()) || good.is_structured();
    rest.remove_prefix(std::min(rest.find(kOr), rest.size() - kOr.size()) + kOr.size());
  }
  return same_type ? SupportsOnly(field, row.values) : Mismatch(value, field, row.values);
}

}  // namespace ropeway::api
