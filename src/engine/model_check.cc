#include "engine/model_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/kv_block.h"
#include "base/words.h"
#include "core/parameters.h"
#include "engine/model_vocabulary.h"
#include "executor/weights.h"
#include "kernels/kernels.h"
#include "kvcache/kv_windows.h"
#include "model/model.h"
#include "model/model_tensors.h"
#include "model/open_model.h"
#include "tokenizer/chat_template.h"

namespace ropeway::engine {
namespace {

constexpr int64_t kMaxDefaultKvBytes = int64_t{4} << 30;
constexpr int64_t kUnknownMemoryBytes = int64_t{1} << 30;

constexpr char kTakeAnother[] =
    "use the same model as a GGUF file of a supported type (Q8_0 is always supported), or its "
    "original folder with --quantize q8_0";
constexpr char kShorter[] = "choose a smaller --max-model-len";

// What to do about a reason; one of another code says itself what was expected.
constexpr std::pair<StatusCode, const char*> kAdvice[] = {
    {StatusCode::kUnimplemented, "choose a model that `ropeway models list` shows"},
    {StatusCode::kDataLoss,
     "compare its SHA-256 with the one that its source publishes: if they differ, the file is "
     "damaged, so download it again (`ropeway models pull`); if they are equal, Ropeway cannot "
     "read what its author wrote"},
    {StatusCode::kResourceExhausted,
     "use a smaller model or type (--quantize) or a smaller --kv-cache-size, or free memory"},
    {StatusCode::kNotFound,
     "give the path of a GGUF file or of a folder with all files of a model, or a name that "
     "`ropeway models list` shows"},
    {StatusCode::kUnavailable, "check that the disk works and that the files can be read"},
};

void CheckMemory(const model::GgufFile& file, const EngineOptions& options,
                 const model::ModelTensors& tensors, ModelCheck* check) {
  const kernels::KvType* type = kernels::KvTypeByName(options.cache.kv_dtype.c_str());
  if (type == nullptr) return;  // ValidateEngineOptions names it.
  MemoryForecast& memory = check->memory;
  memory.weights = executor::LoadedBytes(tensors);
  memory.rope = model::RopeBytes(tensors.config, options.model.max_model_len);
  memory.kv_per_token = tensors.config.kv_bytes_of_all_groups(*type) / base::kBlockTokens;
  const int64_t left =
      std::max<int64_t>(0, memory.available - static_cast<int64_t>(memory.weights + memory.rope));
  const int32_t context = tensors.config.context_length;
  const int32_t longest =
      options.model.max_model_len == 0 ? context : std::min(options.model.max_model_len, context);
  const int64_t pool = options.cache.kv_bytes > 0
                           ? options.cache.kv_bytes
                           : DefaultKvCacheBytesOf(tensors.config, options, left, longest);
  memory.kv_cache = static_cast<uint64_t>(pool);
  const uint64_t needed = memory.weights + memory.rope + memory.kv_cache;
  if (memory.available <= 0 || needed <= static_cast<uint64_t>(memory.available)) return;
  check->Add(
      Status(StatusCode::kResourceExhausted,
             fmt::format("{}: needs {} of memory, {} for weights, {} for RoPE at all positions and "
                         "{} for the KV cache; {} are free on this {}",
                         file.path(), MemoryText(needed), MemoryText(memory.weights),
                         MemoryText(memory.rope), MemoryText(memory.kv_cache),
                         MemoryText(static_cast<uint64_t>(memory.available)),
                         options.device == "cpu" ? "machine" : "device"),
             "model_path"));
}

void CheckTensors(const model::GgufFile& file, const EngineOptions& options, ModelCheck* check) {
  model::Failures failures;
  const StatusOr<model::ModelTensors> tensors = model::BindTensors(file, &failures);
  for (const Status& failure : failures.all()) {
    const bool is_type = failure.code() == StatusCode::kUnimplemented &&
                         failure.message().find(": type ") != std::string::npos;
    check->Add(failure, is_type ? kTakeAnother : "");
  }
  if (failures.full()) {
    check->Add({failures.first().code(),
                "there may be more reasons: the search for them has stopped here"});
  }
  if (!tensors.ok()) {
    if (const auto config = model::ReadModelConfig(file); config.ok()) check->config = *config;
    return;
  }
  check->config = tensors->config;
  if (const Status status =
          model::CheckRopeBytes(file, tensors->config, options.model.max_model_len);
      !status.ok()) {
    return check->Add(status, kShorter);
  }
  CheckMemory(file, options, *tensors, check);
}

// Completions are served without a template too.
void CheckChatTemplate(const EngineOptions& options, ModelCheck* check) {
  const std::string& source = check->chat_template;
  if (source.empty() || !options.model.chat_template.empty()) return;
  const auto parsed = tokenizer::ChatTemplate::Parse(source);
  if (parsed.ok()) {
    const tokenizer::TemplateTraits& traits = parsed->traits();
    if (traits.reads_tools && !traits.reads_tool_calls) {
      check->warnings.emplace_back(
          "has a chat template that shows tools but not the calls of them, so the model does not "
          "see which it called before");
    }
    return;
  }
  check->warnings.push_back(
      fmt::format("has a chat template that cannot be used, so chats are rejected: {}",
                  parsed.status().message()));
}

void CheckVocabulary(const model::GgufFile& file, const EngineOptions& options, ModelCheck* check) {
  StatusOr<tokenizer::Vocabulary> vocabulary = ReadVocabulary(file);
  if (!vocabulary.ok()) return check->Add(vocabulary.status());
  check->chat_template = vocabulary->chat_template;
  for (std::string& warning : vocabulary->warnings) check->warnings.push_back(std::move(warning));
  StatusOr<std::unique_ptr<tokenizer::Tokenizer>> made =
      MakeModelTokenizer(file, *std::move(vocabulary));
  if (!made.ok()) return check->Add(made.status());
  check->tokenizer = *std::move(made);
  const int32_t tokens = check->tokenizer->vocab_size();
  const bool bound = check->config && check->config->vocab_size > 0;
  // For a GGUF file, BindTensors has compared the two.
  if (bound && check->config->vocab_size != tokens) {
    const std::string field = VocabularyFile(file);
    check->Add(Status(StatusCode::kDataLoss,
                      fmt::format("{}/{}: {} tokens, but the model's embedding has {} rows",
                                  file.path(), field, tokens, check->config->vocab_size),
                      field));
  }
  CheckChatTemplate(options, check);
}

// A reason without the path, which stands before it already. (Before a folder's files it has a
// slash behind it.)
std::string_view WithoutPath(const Status& reason, const std::string& path) {
  std::string_view text = reason.message();
  for (const char* end : {": ", "/"}) {
    if (text.starts_with(path + end)) return text.substr((path + end).size());
  }
  return text;
}

// A reason with the path of the model, or of a file in it.
std::string WithPath(const Status& reason, const std::string& path) {
  if (reason.message().starts_with(path)) return reason.message();
  return fmt::format("{}: {}", path, reason.message());
}

// With `before` in front of it, if there is any.
std::string AdviceText(const ModelCheck& check, const char* before) {
  if (check.advice.empty()) return "";
  return fmt::format("{}What to do: {}.", before, fmt::join(check.advice, "; or "));
}

// KV cache of `users` whose sequences have `tokens` each.
std::string UsersText(const ModelCheck& check, uint64_t users, int32_t tokens) {
  const kvcache::KvWindows windows(check.config->kv_groups().windows);
  const uint64_t block =
      check.memory.kv_per_token * base::kBlockTokens / static_cast<uint64_t>(windows.groups());
  const auto blocks = static_cast<uint64_t>(windows.BlocksForAlone(tokens));
  return fmt::format("{} for {} of {} tokens", MemoryText(users * blocks * block),
                     base::Counted(users, "user"), tokens);
}

std::string SamplingText(const SamplingDefaults& s) {
  std::vector<std::string> parts;
  for (const core::Parameter& row : core::Parameters()) {
    core::VisitDefault(row, [&](auto of_model, auto) {
      if (s.*of_model) parts.push_back(fmt::format("{} {}", row.name, *(s.*of_model)));
    });
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string ModelText(const model::ModelConfig& c) {
  return fmt::format(
      "{}, {} layers, hidden size {}, {} heads ({} for keys and values) of {}, vocabulary {}, "
      "context {}, {}",
      c.architecture, c.num_layers, c.hidden_size, c.num_heads, c.num_kv_heads, c.head_dim,
      c.vocab_size, c.context_length,
      !c.causal       ? "no output"
      : c.tied_output ? "tied output"
                      : "separate output");
}

}  // namespace

void ModelCheck::Add(const Status& reason, std::string_view given) {
  // A key that both the tensors and the tokenizer need is one reason.
  const auto same = [&](const Status& s) { return s.message() == reason.message(); };
  if (std::ranges::any_of(reasons, same)) return;
  reasons.push_back(reason);
  for (const auto& [code, usual] : kAdvice) {
    if (given.empty() && code == reason.code()) given = usual;
  }
  if (given.empty() || std::ranges::find(advice, given) != advice.end()) return;
  advice.emplace_back(given);
}

Status ModelCheck::status() const {
  if (ok()) return {};
  const Status& first = reasons.front();
  if (reasons.size() == 1) {
    return {first.code(), WithPath(first, path) + AdviceText(*this, ". "), first.field()};
  }
  std::string text = fmt::format("{}: cannot be run, for {} reasons:", path, reasons.size());
  for (const Status& reason : reasons) {
    text += fmt::format("\n  - {}", WithoutPath(reason, path));
  }
  return {first.code(), text + AdviceText(*this, "\n"), first.field()};
}

ModelCheck CheckModel(const model::GgufFile& file, const EngineOptions& options,
                      int64_t available) {
  ModelCheck check;
  check.path = file.path();
  check.warnings = file.warnings();
  check.memory.available = available;
  CheckTensors(file, options, &check);
  CheckVocabulary(file, options, &check);
  check.sampling = ReadSamplingDefaults(file, &check.warnings);
  return check;
}

ModelCheck OpenAndCheckModel(const EngineOptions& options, int64_t available,
                             std::unique_ptr<model::GgufFile>* file) {
  model::Failures failures;
  StatusOr<std::unique_ptr<model::GgufFile>> opened =
      model::OpenModel(options.model.path, options.model.quantize, &failures);
  if (opened.ok()) {
    *file = *std::move(opened);
    return CheckModel(**file, options, available);
  }
  ModelCheck check;
  check.path = options.model.path;
  for (const Status& failure : failures.all()) check.Add(failure);
  return check;
}

std::string VerdictText(const ModelCheck& check) {
  std::string text;
  if (!check.ok()) {
    text = "Ropeway cannot run this model:\n";
    for (const Status& reason : check.reasons) {
      text += fmt::format("  - {}\n", WithoutPath(reason, check.path));
    }
    return text + AdviceText(check, "") + (check.advice.empty() ? "" : "\n");
  }
  const int32_t tokens = std::min(check.config->context_length, 2048);
  const MemoryForecast& memory = check.memory;
  text = fmt::format("Ropeway can run this model: {}", ModelText(*check.config));
  std::string inputs;
  if (check.config->causal) {
    const auto bytes = [&](kernels::KvType type) {
      return check.config->kv_bytes_of_all_groups(type) / base::kBlockTokens;
    };
    text += fmt::format("; {} KV bytes per token ({} in q8_0)", bytes(kernels::KvType::kF16),
                        bytes(kernels::KvType::kQ8_0));
    inputs = fmt::format("KV cache {}, {}; RoPE up to {}", UsersText(check, 1, tokens),
                         UsersText(check, 16, tokens), MemoryText(memory.rope));
  } else {  // Nothing is kept of an input once it is computed.
    inputs = UsersText(check, 1, tokens);
  }
  text += "\n";
  text += fmt::format(
      "Memory: {} of weights; {}{}\n", MemoryText(memory.weights), inputs,
      memory.available > 0
          ? fmt::format("; {} are free here", MemoryText(static_cast<uint64_t>(memory.available)))
          : "");
  text += "The values of its weights are checked when it is loaded\n";
  if (const std::string sampling = SamplingText(check.sampling); !sampling.empty()) {
    text += fmt::format("Its sampling defaults: {}\n", sampling);
  }
  if (!check.config->causal) {
    text += "It makes embeddings only: requests for text are rejected\n";
  } else if (check.chat_template.empty()) {
    text += "It has no chat template: chats are rejected\n";
  }
  for (const std::string& warning : check.warnings) text += fmt::format("It {}\n", warning);
  return text;
}

SamplingDefaults ReadSamplingDefaults(const model::GgufFile& file,
                                      std::vector<std::string>* warnings) {
  SamplingDefaults defaults;
  for (const core::Parameter& row : core::Parameters()) {
    if (row.gguf == nullptr) continue;
    const std::string key = std::string("general.sampling.") + row.gguf;
    const auto* entry = file.Find(key);
    if (entry == nullptr) continue;
    double value = NAN;
    if (const auto* d = std::get_if<double>(&entry->value)) value = *d;
    if (const auto* u = std::get_if<uint64_t>(&entry->value)) value = static_cast<double>(*u);
    if (const auto* i = std::get_if<int64_t>(&entry->value)) value = static_cast<double>(*i);
    if (core::Within(row, value)) {
      core::SetDefault(row, value, &defaults);
    } else {
      warnings->push_back(
          fmt::format("has a {} that is not {}: it is not used", key, core::Expected(row)));
    }
  }
  return defaults;
}

int64_t DefaultKvCacheBytes(int64_t available_bytes, int max_num_seqs, int32_t max_model_len,
                            size_t block_bytes, const std::vector<int32_t>& windows) {
  const int64_t available = available_bytes > 0 ? available_bytes : kUnknownMemoryBytes;
  const auto block = static_cast<int64_t>(block_bytes);
  const kvcache::KvWindows groups(windows);
  const int64_t usable_blocks = groups.BlocksForAlone(max_model_len) * max_num_seqs;
  const int64_t blocks = std::min(available / 4, kMaxDefaultKvBytes) / block;
  return std::max<int64_t>(groups.groups(), std::min(blocks, usable_blocks)) * block;
}

int64_t DefaultKvCacheBytesOf(const model::ModelConfig& config, const EngineOptions& options,
                              int64_t available_bytes, int32_t positions) {
  const size_t block =
      config.kv_block_bytes(*kernels::KvTypeByName(options.cache.kv_dtype.c_str()));
  const SchedulingOptions& scheduler = options.scheduler;
  if (config.causal) {
    return DefaultKvCacheBytes(available_bytes, scheduler.max_num_seqs, positions, block,
                               config.kv_groups().windows);
  }
  // The last block of each may be filled in part.
  const int64_t rows = std::max(scheduler.max_num_batched_tokens, positions);
  return (rows / base::kBlockTokens + scheduler.max_num_seqs) * static_cast<int64_t>(block);
}

std::string MemoryText(uint64_t bytes) {
  const auto of = [bytes](int shift) {
    return static_cast<double>(bytes) / static_cast<double>(uint64_t{1} << shift);
  };
  if (bytes >= uint64_t{1} << 30) return fmt::format("{:.1f} GiB", of(30));
  if (bytes >= uint64_t{1} << 20) return fmt::format("{:.1f} MiB", of(20));
  return fmt::format("{:.0f} KiB", std::max(1.0, of(10)));
}

}  // namespace ropeway::engine
