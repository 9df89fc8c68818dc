#include "cli/engine_flags.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/flags.h"

namespace ropeway {
namespace {

constexpr size_t kMaxTemplateBytes = 1 << 20;

std::filesystem::path ModelFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base = cache != nullptr && *cache != '\0'
                                         ? cache
                                         : std::filesystem::path(home ? home : ".") / ".cache";
  return base / "ropeway" / "models";
}

StatusOr<std::string> ReadTemplate(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxTemplateBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return Status(StatusCode::kNotFound, fmt::format("--chat-template: cannot read '{}'", path));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.empty() || text.size() > kMaxTemplateBytes) {
    return InvalidArgument(
        fmt::format("--chat-template: '{}' must have 1 to {} bytes", path, kMaxTemplateBytes));
  }
  return text;
}

void AddKvMemoryFlags(CLI::App* app, EngineOptions* options) {
  const char* const group = "KV memory";
  AddOnOff(app, "--prefix-caching", &options->cache.prefix_caching,
           "Keep the KV blocks of requests for later ones that begin alike, and share them between "
           "running ones; never changes a result")
      ->group(group);
  AddChoice(app, "--preempt-checkpoint", &options->cache.preempt_checkpoint, {"pressure", "always"},
            "When the blocks of a preempted request go to disk: under pressure, that is when their "
            "memory is needed, or always, at once")
      ->group(group);
  AddText(app, "--kv-disk-path", &options->cache.disk_path, kFolderPlaceholder,
          "Directory in which KV blocks outlive the memory and the process; of one process at a "
          "time")
      ->group(group);
  AddSize(app, "--kv-disk-size", &options->cache.disk_bytes, 1,
          "What that may take of the disk, all overhead included")
      ->group(group);
  AddRate(app, "--kv-disk-write-rate", &options->cache.disk_write_rate,
          "How fast it is written in the long run, such as 20MiB/s; auto: as fast as costs 3 % of "
          "the cores")
      ->group(group);
}

}  // namespace

void AddModelFlag(CLI::App* app, std::string* model) {
  AddText(app, "--model,-m", model, kFilePlaceholder,
          "GGUF file, or the name of a model that was fetched")
      ->group("Model");
}

void AddEngineFlags(CLI::App* app, EngineFlags* flags) {
  EngineOptions& options = flags->options;
  AddModelFlag(app, &flags->model);
  AddText(app, "--chat-template", &flags->chat_template, kFilePlaceholder,
          "Jinja template for chats, instead of the model's own")
      ->group("Model");
  AddInt(app, "--max-model-len", &options.model.max_model_len, 2, 1 << 24,
         "Prompt plus output tokens of one request, at most")
      ->default_str("the model's context length")
      ->group("Model");
  AddInt(app, "--threads,-t", &options.threads, 1, 1024,
         "Compute threads; they never change a result")
      ->default_str("the physical cores")
      ->group("Engine");
  AddSize(app, "--kv-cache-size", &options.cache.kv_bytes, 1, "Memory of the KV cache")
      ->default_str("a quarter of the free memory, at most 4GiB")
      ->group("Engine");
  AddChoice(app, "--kv-cache-dtype", &options.cache.kv_dtype, {"f16", "q8_0"},
            "How the KV cache keeps numbers: f16, or q8_0 (8 bits; nearly twice the tokens in the "
            "same memory, slightly other results)")
      ->group("Engine");
  AddInt(app, "--max-num-seqs", &options.scheduler.max_num_seqs, 1, 4096,
         "Sequences that run at once")
      ->group("Engine");
  AddInt(app, "--max-num-batched-tokens", &options.scheduler.max_num_batched_tokens, 1, 65536,
         "Tokens of one forward pass")
      ->group("Engine");
  AddKvMemoryFlags(app, &options);
  AddChoice(app, "--log-level", &flags->log_level, {"debug", "info", "warn", "error"},
            "How much is logged on standard error: debug, info, warn or error")
      ->group("Other");
}

StatusOr<std::string> ResolveModel(const std::string& model) {
  std::error_code error;
  if (std::filesystem::exists(model, error) || model.find('/') != std::string::npos) return model;
  for (const char* ending : {"", ".gguf"}) {
    const std::filesystem::path path = ModelFolder() / (model + ending);
    if (!model.empty() && std::filesystem::exists(path, error)) return path.string();
  }
  return Status(StatusCode::kNotFound,
                fmt::format("no model '{}': it is no file, nor is it among the fetched models in "
                            "{} (./run fetches the default one)",
                            model, ModelFolder().string()));
}

StatusOr<EngineOptions> ResolveEngine(const EngineFlags& flags) {
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  EngineOptions options = flags.options;
  options.sessions.ttl = std::chrono::ceil<std::chrono::seconds>(flags.session_ttl);
  if (Status status = ResolveBatching(flags.batching, &options); !status.ok()) return status;
  StatusOr<std::string> path = ResolveModel(flags.model);
  if (!path.ok()) return path.status();
  options.model.path = *std::move(path);
  if (!flags.chat_template.empty()) {
    StatusOr<std::string> text = ReadTemplate(flags.chat_template);
    if (!text.ok()) return text.status();
    options.model.chat_template = *std::move(text);
  }
  return options;
}

}  // namespace ropeway
