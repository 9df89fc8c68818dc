#include "api/fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/words.h"

namespace ropeway::api {
namespace {

using nlohmann::json;

constexpr uint32_t kBoth = kCompletions | kChat;
constexpr uint32_t kGenerate = kBoth | kResponses | kAnthropic;
constexpr uint32_t kWithTools = kChat | kResponses;
constexpr uint32_t kChats = kChat | kTokenize;
constexpr uint32_t kOllama = kOllamaChat | kOllamaGenerate;
constexpr uint32_t kOllamaEmbeds = kOllamaEmbed | kOllamaOldEmbeddings;

using K = FieldKind;

constexpr FieldRow kFieldRows[] = {
    // Bookkeeping, or about parts that there are none of. A prompt_cache_key says on which machine
    // to look for a prefix.
    {"user", kGenerate, K::kNoEffect, "a string"},
    {"safety_identifier", kGenerate, K::kNoEffect, "a string"},
    {"prompt_cache_key", kGenerate, K::kNoEffect, "a string"},
    {"request_id", kGenerate, K::kNoEffect, "a string"},
    {"metadata", kBoth, K::kNoEffect, "an object of strings"},
    {"stream_options.include_obfuscation", kGenerate, K::kNoEffect, "true or false"},
    // Front ends send these, and servers that they were written for use them.
    {"keep_alive", kGenerate, K::kNoEffect},
    {"chat_id", kGenerate, K::kNoEffect},
    {"session_id", kGenerate, K::kNoEffect},
    {"background_tasks", kGenerate, K::kNoEffect},
    {"usage", kGenerate, K::kNoEffect},
    {"include_reasoning", kGenerate, K::kNoEffect},
    {"provider", kGenerate, K::kNoEffect},
    {"cache_prompt", kGenerate, K::kNoEffect},
    {"id_slot", kGenerate, K::kNoEffect},
    {"num_ctx", kGenerate, K::kNoEffect},
    {"options", kGenerate, K::kNoEffect},
    {"mirostat_tau", kGenerate, K::kNoEffect},
    {"mirostat_eta", kGenerate, K::kNoEffect},
    {"verbosity", kChat, K::kNoEffect},
    {"messages[].cache_control", kChats, K::kNoEffect},
    {"messages[].content[].cache_control", kChats, K::kNoEffect},
    {"messages[].tool_calls[].index", kChats, K::kNoEffect},
    {"tools[].cache_control", kChats | kResponses, K::kNoEffect},

    {"use_beam_search", kGenerate, K::kNoEffectWith, "false"},
    {"early_stopping", kGenerate, K::kNoEffectWith, "false"},
    {"include_stop_str_in_output", kGenerate, K::kNoEffectWith, "false"},
    {"return_token_ids", kGenerate, K::kNoEffectWith, "false"},
    {"return_tokens_as_token_ids", kGenerate, K::kNoEffectWith, "false"},
    {"stream_options.continuous_usage_stats", kGenerate, K::kNoEffectWith, "false"},
    {"add_special_tokens", kChat, K::kNoEffectWith, "false"},
    {"echo", kChat, K::kNoEffectWith, "false"},
    {"skip_special_tokens", kGenerate, K::kNoEffectWith, "true"},
    {"spaces_between_special_tokens", kGenerate, K::kNoEffectWith, "true"},
    {"add_special_tokens", kCompletions, K::kNoEffectWith, "true"},
    {"mirostat", kGenerate, K::kNoEffectWith, "0"},
    {"dry_multiplier", kGenerate, K::kNoEffectWith, "0"},
    {"dynatemp_range", kGenerate, K::kNoEffectWith, "0"},
    {"xtc_probability", kGenerate, K::kNoEffectWith, "0"},
    {"n_probs", kGenerate, K::kNoEffectWith, "0"},
    {"length_penalty", kGenerate, K::kNoEffectWith, "1"},
    {"tfs_z", kGenerate, K::kNoEffectWith, "1"},
    {"best_of", kChat, K::kNoEffectWith, "1"},
    {"bad_words", kGenerate, K::kNoEffectWith, "[]"},
    {"logits_processors", kGenerate, K::kNoEffectWith, "[]"},
    {"functions", kWithTools, K::kNoEffectWith, "[]", "tools"},
    {"documents", kChat, K::kNoEffectWith, "[]"},
    {"mm_processor_kwargs", kChats, K::kNoEffectWith, "[]"},
    {"messages[].annotations", kChats, K::kNoEffectWith, "[]"},
    {"messages[].audio", kChats, K::kNoEffectWith, "[]"},
    {"messages[].function_call", kChats, K::kNoEffectWith, "[]", "tool_calls"},
    {"messages[].refusal", kChats, K::kNoEffectWith, R"("")"},
    {"function_call", kWithTools, K::kNoEffectWith, R"("none" or "auto")", "tool_choice"},
    {"modalities", kWithTools, K::kNoEffectWith, R"(["text"])"},

    // They would change the answer, or ask for more than one holds.
    {"allowed_token_ids", kGenerate, K::kUnsupported},
    {"truncate_prompt_tokens", kGenerate, K::kUnsupported},
    {"guided_decoding_backend", kGenerate, K::kUnsupported},
    {"guided_whitespace_pattern", kGenerate, K::kUnsupported},
    {"kv_transfer_params", kGenerate, K::kUnsupported},
    {"vllm_xargs", kGenerate, K::kUnsupported},
    {"cache_scope", kGenerate, K::kUnsupported},  // The key's.
    {"suffix", kCompletions, K::kUnsupported},
    {"prompt_embeds", kCompletions, K::kUnsupported},
    {"audio", kWithTools, K::kUnsupported},
    {"prediction", kWithTools, K::kUnsupported},
    {"web_search_options", kWithTools, K::kUnsupported},
    {"moderation", kWithTools, K::kUnsupported},
    {"chat_template", kChats | kResponses, K::kUnsupported},

    // Of responses: what other servers' items have, what is about parts that there are none of, and
    // what is called otherwise here.
    {"stream_options.include_usage", kResponses, K::kNoEffect, "true or false"},
    {"max_tool_calls", kResponses, K::kNoEffect},
    {"prompt_cache_options", kResponses, K::kNoEffect},
    {"text.verbosity", kResponses, K::kNoEffect, "a string"},
    {"reasoning.summary", kResponses, K::kNoEffect},
    {"reasoning.generate_summary", kResponses, K::kNoEffect},
    {"reasoning.context", kResponses, K::kNoEffect},
    {"reasoning.mode", kResponses, K::kNoEffect},
    {"input[].phase", kResponses, K::kNoEffect},
    {"input[].encrypted_content", kResponses, K::kNoEffect},
    {"input[].namespace", kResponses, K::kNoEffect},
    {"input[].caller", kResponses, K::kNoEffect},
    {"input[].async", kResponses, K::kNoEffectWith, "false"},
    {"input[].content[].annotations", kResponses, K::kNoEffect},
    {"input[].content[].logprobs", kResponses, K::kNoEffect},
    {"input[].content[].cache_control", kResponses, K::kNoEffect},
    {"tools[].defer_loading", kResponses, K::kNoEffectWith, "false"},
    {"tools[].allowed_callers", kResponses, K::kNoEffectWith, "[]"},
    {"n", kResponses, K::kNoEffectWith, "1"},
    {"messages", kResponses, K::kNoEffectWith, "", "input"},
    {"response_format", kResponses, K::kNoEffectWith, "", "text.format"},
    {"reasoning_effort", kResponses, K::kNoEffectWith, "", "reasoning.effort"},
    {"verbosity", kResponses, K::kNoEffectWith, "", "text.verbosity"},
    {"logprobs", kResponses, K::kNoEffectWith, "false", "include"},
    {"conversation_id", kResponses, K::kNoEffectWith, "", "conversation"},
    {"previous_response", kResponses, K::kNoEffectWith, "", "previous_response_id"},
    {"previous_id", kResponses, K::kNoEffectWith, "", "previous_response_id"},
    {"prompt", kResponses, K::kUnsupported},
    {"prompt_logprobs", kResponses, K::kUnsupported},
    {"context_management", kResponses, K::kUnsupported},
    {"add_generation_prompt", kResponses, K::kUnsupported},
    {"continue_final_message", kResponses, K::kUnsupported},
    {"ropeway_gateway", kResponses, K::kUnsupported},

    // Of llama.cpp's own API: what places a request, times it or is about parts that there are none
    // of, and the samplers that are off unless a field turns them on.
    {"user", kLlamaCpp, K::kNoEffect, "a string"},
    {"request_id", kLlamaCpp, K::kNoEffect, "a string"},
    {"cache_prompt", kLlamaCpp, K::kNoEffect, "true or false"},
    {"id_slot", kLlamaCpp, K::kNoEffect},
    {"slot_id", kLlamaCpp, K::kNoEffect},
    {"n_keep", kLlamaCpp, K::kNoEffect},
    {"n_discard", kLlamaCpp, K::kNoEffect},
    {"n_cache_reuse", kLlamaCpp, K::kNoEffect},
    {"n_ctx", kLlamaCpp, K::kNoEffect},
    {"verbose", kLlamaCpp, K::kNoEffect, "true or false"},
    {"timings_per_token", kLlamaCpp, K::kNoEffect, "true or false"},
    {"return_progress", kLlamaCpp, K::kNoEffect, "true or false"},
    {"backend_sampling", kLlamaCpp, K::kNoEffect, "true or false"},
    {"sse_ping_interval", kLlamaCpp, K::kNoEffect},
    {"stream_options", kLlamaCpp, K::kNoEffect},
    {"dynatemp_exponent", kLlamaCpp, K::kNoEffect},
    {"xtc_threshold", kLlamaCpp, K::kNoEffect},
    {"dry_base", kLlamaCpp, K::kNoEffect},
    {"dry_allowed_length", kLlamaCpp, K::kNoEffect},
    {"dry_penalty_last_n", kLlamaCpp, K::kNoEffect},
    {"dry_sequence_breakers", kLlamaCpp, K::kNoEffect},
    {"mirostat_tau", kLlamaCpp, K::kNoEffect},
    {"mirostat_eta", kLlamaCpp, K::kNoEffect},
    {"adaptive_decay", kLlamaCpp, K::kNoEffect},
    {"preserved_tokens", kLlamaCpp, K::kNoEffect},
    {"chat_format", kLlamaCpp, K::kNoEffect},
    {"reasoning_format", kLlamaCpp, K::kNoEffect},
    {"n_indent", kLlamaCpp, K::kNoEffectWith, "0"},
    {"t_max_predict_ms", kLlamaCpp, K::kNoEffectWith, "0 or -1", "timeout"},
    {"min_keep", kLlamaCpp, K::kNoEffectWith, "0 or 1"},
    {"post_sampling_probs", kLlamaCpp, K::kNoEffectWith, "false"},
    {"dynatemp_range", kLlamaCpp, K::kNoEffectWith, "0"},
    {"xtc_probability", kLlamaCpp, K::kNoEffectWith, "0"},
    {"dry_multiplier", kLlamaCpp, K::kNoEffectWith, "0"},
    {"mirostat", kLlamaCpp, K::kNoEffectWith, "0"},
    {"top_n_sigma", kLlamaCpp, K::kNoEffectWith, "-1 or 0"},
    {"adaptive_target", kLlamaCpp, K::kNoEffectWith, "-1"},
    {"tfs_z", kLlamaCpp, K::kNoEffectWith, "1"},
    {"grammar_lazy", kLlamaCpp, K::kNoEffectWith, "false"},
    {"grammar_triggers", kLlamaCpp, K::kNoEffectWith, "[]"},
    {"lora", kLlamaCpp, K::kNoEffectWith, "[]"},
    {"image_data", kLlamaCpp, K::kNoEffectWith, "[]"},
    {"echo", kLlamaCpp, K::kNoEffectWith, "false"},
    {"store", kLlamaCpp, K::kNoEffectWith, "false"},
    {"background", kLlamaCpp, K::kNoEffectWith, "false"},
    {"messages", kLlamaCpp, K::kNoEffectWith, "", "prompt"},
    {"cache_scope", kLlamaCpp, K::kUnsupported},  // The key's.
    {"parse_special", kTokenize, K::kNoEffectWith, "true"},
    {"ropeway_gateway", kLlamaCpp, K::kUnsupported},
    // Of Anthropic's messages: caches and bills of its own, what other servers' blocks have, and
    // what is called otherwise here.
    {"cache_control", kAnthropic, K::kNoEffect},
    {"system[].cache_control", kAnthropic, K::kNoEffect},
    {"system[].citations", kAnthropic, K::kNoEffect},
    {"messages[].content[].cache_control", kAnthropic, K::kNoEffect},
    {"messages[].content[].citations", kAnthropic, K::kNoEffect},
    {"messages[].content[].caller", kAnthropic, K::kNoEffect},
    {"messages[].content[].toolset_name", kAnthropic, K::kNoEffect},
    {"messages[].content[].content[].cache_control", kAnthropic, K::kNoEffect},
    {"messages[].content[].content[].citations", kAnthropic, K::kNoEffect},
    {"tools[].cache_control", kAnthropic, K::kNoEffect},
    {"tools[].eager_input_streaming", kAnthropic, K::kNoEffect},
    {"tools[].input_examples", kAnthropic, K::kNoEffect},
    {"tools[].defer_loading", kAnthropic, K::kNoEffectWith, "false"},
    {"tools[].allowed_callers", kAnthropic, K::kNoEffectWith, R"([] or ["direct"])"},
    {"anthropic_version", kAnthropic, K::kNoEffect, "a string"},
    {"anthropic_beta", kAnthropic, K::kNoEffect},
    {"betas", kAnthropic, K::kNoEffect},
    {"diagnostics", kAnthropic, K::kNoEffect},
    {"inference_geo", kAnthropic, K::kNoEffect},
    {"billing_policy", kAnthropic, K::kNoEffect},
    {"fallback_credit_token", kAnthropic, K::kNoEffect},
    {"fallbacks", kAnthropic, K::kNoEffect},  // Of what a model declines.
    {"speed", kAnthropic, K::kNoEffect},
    {"user_profile_id", kAnthropic, K::kNoEffect},
    {"workspace_id", kAnthropic, K::kNoEffect},
    {"mcp_servers", kAnthropic, K::kNoEffectWith, "[]"},
    {"container", kAnthropic, K::kNoEffectWith, "[]"},
    {"n", kAnthropic, K::kNoEffectWith, "1"},
    {"functions", kAnthropic, K::kNoEffectWith, "[]", "tools"},
    {"prompt", kAnthropic, K::kNoEffectWith, "", "messages"},
    {"stop", kAnthropic, K::kNoEffectWith, "[]", "stop_sequences"},
    {"max_completion_tokens", kAnthropic, K::kNoEffectWith, "", "max_tokens"},
    {"max_output_tokens", kAnthropic, K::kNoEffectWith, "", "max_tokens"},
    {"max_tokens_to_sample", kAnthropic, K::kNoEffectWith, "", "max_tokens"},
    {"reasoning_effort", kAnthropic, K::kNoEffectWith, "", "output_config.effort"},
    {"response_format", kAnthropic, K::kNoEffectWith, "", "output_config.format"},
    {"store", kAnthropic, K::kNoEffectWith, "false"},
    {"background", kAnthropic, K::kNoEffectWith, "false"},
    {"stream_options", kAnthropic, K::kNoEffect},
    {"compaction", kAnthropic, K::kUnsupported},
    {"thread", kAnthropic, K::kUnsupported},  // A conversation that the server keeps.
    {"logprobs", kAnthropic, K::kUnsupported},
    {"prompt_logprobs", kAnthropic, K::kUnsupported},
    {"chat_template", kAnthropic, K::kUnsupported},
    {"add_generation_prompt", kAnthropic, K::kUnsupported},
    {"continue_final_message", kAnthropic, K::kUnsupported},
    {"ropeway_gateway", kAnthropic, K::kUnsupported},
    // Of Ollama's API. What a model is loaded with is the server's to say, and a prompt that is too
    // long is an error, whatever `truncate` and `shift` say.
    {"keep_alive", kOllama, K::kNoEffect},
    {"truncate", kOllama, K::kNoEffect, "true or false"},
    {"shift", kOllama, K::kNoEffect, "true or false"},
    {"tools[].items", kOllamaChat, K::kNoEffect},
    {"messages[].tool_calls[].type", kOllamaChat, K::kNoEffect, "a string"},
    {"messages[].tool_calls[].function.index", kOllamaChat, K::kNoEffect},
    {"messages[].tool_calls[].function.description", kOllamaChat, K::kNoEffect},
    {"options.num_ctx", kOllama, K::kNoEffect},
    {"options.num_batch", kOllama, K::kNoEffect},
    {"options.num_gpu", kOllama, K::kNoEffect},
    {"options.num_gqa", kOllama, K::kNoEffect},
    {"options.num_keep", kOllama, K::kNoEffect},
    {"options.num_thread", kOllama, K::kNoEffect},
    {"options.main_gpu", kOllama, K::kNoEffect},
    {"options.low_vram", kOllama, K::kNoEffect},
    {"options.f16_kv", kOllama, K::kNoEffect},
    {"options.numa", kOllama, K::kNoEffect},
    {"options.use_mmap", kOllama, K::kNoEffect},
    {"options.use_mlock", kOllama, K::kNoEffect},
    {"options.draft_num_predict", kOllama, K::kNoEffect},
    {"options.mirostat_tau", kOllama, K::kNoEffect},
    {"options.mirostat_eta", kOllama, K::kNoEffect},
    {"options.mirostat", kOllama, K::kNoEffectWith, "0"},
    {"options.tfs_z", kOllama, K::kNoEffectWith, "1"},
    // A penalty makes it another text: FinishOllamaBody.
    {"options.repeat_last_n", kOllama, K::kNoEffect},
    {"options.penalize_newline", kOllama, K::kNoEffectWith, "true"},
    {"options.logits_all", kOllama, K::kNoEffectWith, "false"},
    {"options.vocab_only", kOllama, K::kNoEffectWith, "false"},
    {"options.embedding_only", kOllama, K::kNoEffectWith, "false"},
    {"_debug_render_only", kOllama, K::kNoEffectWith, "false"},
    {"messages[].images", kOllamaChat, K::kNoEffectWith, "[]"},
    {"tool_choice", kOllamaChat, K::kNoEffectWith, R"("auto")"},
    {"images", kOllamaGenerate, K::kNoEffectWith, "[]"},
    {"context", kOllamaGenerate, K::kNoEffectWith, "[]"},
    {"suffix", kOllamaGenerate, K::kUnsupported},
    {"template", kOllama, K::kUnsupported},
    {"width", kOllamaGenerate, K::kUnsupported},
    {"height", kOllamaGenerate, K::kUnsupported},
    {"steps", kOllamaGenerate, K::kUnsupported},
    {"verbose", kOllamaModel, K::kNoEffect, "true or false"},
    {"insecure", kOllamaModel, K::kNoEffect, "true or false"},
    {"username", kOllamaModel, K::kNoEffect},
    {"password", kOllamaModel, K::kNoEffect},
    {"system", kOllamaModel, K::kNoEffect},
    {"template", kOllamaModel, K::kNoEffect},
    {"options", kOllamaModel, K::kNoEffect},
    // Of embeddings: vLLM's names among others.
    {"user", kEmbeddings, K::kNoEffect, "a string"},
    {"request_id", kEmbeddings, K::kNoEffect, "a string"},
    {"add_special_tokens", kEmbeddings, K::kNoEffectWith, "true"},
    {"messages", kEmbeddings, K::kNoEffectWith, "", "input"},
    {"prompt", kEmbeddings, K::kNoEffectWith, "", "input"},
    {"stream", kEmbeddings | kOllamaEmbeds | kLlamaEmbedding, K::kNoEffectWith, "false"},
    {"truncate_prompt_tokens", kEmbeddings, K::kUnsupported},
    {"input_type", kEmbeddings, K::kUnsupported},
    {"task", kEmbeddings, K::kUnsupported},
    {"keep_alive", kOllamaEmbeds, K::kNoEffect},
    {"options", kOllamaEmbeds, K::kNoEffect},
    {"prompt", kOllamaEmbed, K::kNoEffectWith, "", "input"},
    {"input", kOllamaOldEmbeddings, K::kNoEffectWith, "", "prompt"},
    {"image_data", kLlamaEmbedding, K::kNoEffectWith, "[]"},
    {"encoding_format", kLlamaEmbedding, K::kNoEffectWith, R"("float")"},
};

constexpr size_t kMostFaults = 8;
constexpr size_t kMostIgnored = 64;

// Whether it is of the type that a row of kNoEffect names.
bool IsOf(std::string_view type, const json& value) {
  if (type.empty()) return true;
  if (type == "a string") return value.is_string();
  if (type == "true or false") return value.is_boolean();
  return value.is_object() && std::all_of(value.begin(), value.end(),
                                          [](const json& member) { return member.is_string(); });
}

bool IsEmpty(const json& value) { return value == "" || value == false || value.empty(); }

Status CheckValue(const FieldRow& row, const json& value, const std::string& field) {
  constexpr std::string_view kOr = " or ";
  bool same_type = false;
  for (std::string_view rest = row.values; !rest.empty();) {
    const json good = json::parse(rest.substr(0, rest.find(kOr)));
    if (value == good || (IsEmpty(good) && IsEmpty(value))) return {};
    same_type = same_type || value.type() == good.type() ||
                (value.is_number() && good.is_number()) || good.is_structured();
    rest.remove_prefix(std::min(rest.find(kOr), rest.size() - kOr.size()) + kOr.size());
  }
  if (std::string_view(row.instead) != "") {
    return Unsupported(field, fmt::format("; use '{}'", row.instead));
  }
  return same_type ? SupportsOnly(field, row.values) : Mismatch(value, field, row.values);
}

// Whether a field is the whole, or a part of it.
bool IsWithin(std::string_view field, std::string_view whole) {
  if (!field.starts_with(whole)) return false;
  field.remove_prefix(whole.size());
  return field.empty() || field.front() == '.' || field.front() == '[';
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
  switch (row.kind) {
    case K::kUnsupported:  // An empty list may allow nothing, an empty schema anything.
      return value == "" ? Status() : Unsupported(field);
    case K::kNoEffect:
      return IsOf(row.values, value) ? Status() : Mismatch(value, field, row.values);
    case K::kNoEffectWith:
      return CheckValue(row, value, field);
  }
  return {};
}

void FieldReport::Add(Status fault) {
  if (fault.ok()) return;
  if (faults_.size() < kMostFaults) {
    faults_.push_back(std::move(fault));
  } else {
    more_faults_ = true;
  }
}

void FieldReport::AddTogether(Status fault, std::initializer_list<std::string_view> others) {
  const auto told = [&](const Status& known) {
    const auto has = [&](std::string_view field) { return IsWithin(known.field(), field); };
    return has(fault.field()) || std::ranges::any_of(others, has);
  };
  if (std::ranges::none_of(faults_, told)) Add(std::move(fault));
}

void FieldReport::AddOther(std::string_view parent, const std::string& name, const json& value,
                           const std::string& path, std::span<const std::string_view> used) {
  if (more_faults_) return;  // A body of a million names costs no more.
  const std::string row_name = std::string(parent) + name;
  const bool is_name = name.find('.') == name.npos;  // Not a path as rows have them.
  const auto shown = [&] { return std::string(parent) + ShownName(name); };
  if (const FieldRow* row = FindField(dialect_, row_name); is_name && row != nullptr) {
    if (!value.is_null()) Add(CheckField(*row, value, path));
    return;
  }
  if (limits_.reject_unknown) return Add(UnknownField(path));
  if (value.is_null() || ignored_.size() == kMostIgnored) return;
  if (std::ranges::find(ignored_, shown()) != ignored_.end()) return;
  std::vector<std::string_view> known(used.begin(), used.end());
  for (const FieldRow& row : kFieldRows) {
    std::string_view member = row.name;
    if ((row.dialects & dialect_) == 0 || !member.starts_with(parent)) continue;
    member.remove_prefix(parent.size());
    if (member.find('.') == member.npos) known.push_back(member);
  }
  if (const std::string_view* nearest = base::Nearest(name, known, 2); nearest != nullptr) {
    return Add(InvalidArgument(
        fmt::format("Unknown field '{}'; did you mean '{}'?", path, *nearest), path));
  }
  ignored_.push_back(shown());
}

Status FieldReport::CheckAlias(const void* what, const std::string& field, const json& value) {
  const auto [first, is_first] = aliases_.try_emplace(what, field, &value);
  if (is_first || *first->second.second == value) return {};
  return InvalidArgument(
      fmt::format("'{}' and '{}' differ; give one of them.", field, first->second.first), field);
}

Status FieldReport::status() const {
  if (faults_.empty()) return {};
  const Status& first = faults_.front();
  if (faults_.size() == 1) return first;
  std::string message;
  for (const Status& fault : faults_) message += (message.empty() ? "" : " ") + fault.message();
  if (more_faults_) message += " More fields are wrong.";
  return {first.code(), std::move(message), first.field()};
}

std::string EscapedName(std::string_view name) {
  std::string text = name.empty() ? "\"\"" : "";
  for (const char c : name) {
    if (c > ' ' && c <= '~' && c != ',' && c != '%') {
      text += c;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

std::string IgnoredHeader(const std::vector<std::string>& names) {
  constexpr size_t kMostNames = 8;
  constexpr size_t kMostBytes = 240;  // The names' bytes, at most.
  std::string text;
  size_t more = names.size();
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    const std::string next = (text.empty() ? "" : ", ") + EscapedName(names[i]);
    if (text.size() + next.size() > kMostBytes) continue;
    text += next;
    --more;
  }
  return more == 0 ? text : fmt::format("{}, and {} more", text, more);
}

}  // namespace ropeway::api
