// The flags of every command that runs a model.
#ifndef ROPEWAY_CLI_ENGINE_FLAGS_H_
#define ROPEWAY_CLI_ENGINE_FLAGS_H_

#include <chrono>
#include <string>

#include "cli/scheduler_flags.h"
#include "ropeway/options.h"
#include "ropeway/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

inline constexpr char kDefaultModel[] = "SmolLM2-135M-Instruct.Q4_1";

struct EngineFlags {
  std::string model = kDefaultModel;
  std::string chat_template;  // A file; "": the model's own template.
  EngineOptions options;
  BatchingFlags batching;
  std::chrono::milliseconds session_ttl = SessionOptions().ttl;
  std::string log_level = "info";
};

// Adds --model. `flags` must outlive the parse; so with all functions of this kind.
void AddModelFlag(CLI::App* app, std::string* model);

// Adds --model and what sets up an engine.
void AddEngineFlags(CLI::App* app, EngineFlags* flags);

// The path that --model means: a file, or the bare name of a model that was fetched. kNotFound for
// a name that is neither.
StatusOr<std::string> ResolveModel(const std::string& model);

// The engine's options with the model found and the chat template read; also sets the log's level.
StatusOr<EngineOptions> ResolveEngine(const EngineFlags& flags);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_ENGINE_FLAGS_H_
