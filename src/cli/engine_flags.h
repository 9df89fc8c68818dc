// The flags of every command that runs a model, and the flags of scheduling (docs/scheduling.md).
#ifndef ROPEWAY_CLI_ENGINE_FLAGS_H_
#define ROPEWAY_CLI_ENGINE_FLAGS_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "core/parameters.h"
#include "flags/flag.h"
#include "hub/registry.h"
#include "ropeway/options.h"
#include "ropeway/status.h"

namespace ropeway::cli {

// What --model is where it is not given: the registry's default model, by its file.
std::string DefaultModelName();

// The batch settings that --preset decides too, as they were given.
struct BatchingFlags {
  std::string preset;     // "": none.
  std::string scheduler;  // "": as the preset says, else "continuous".
  std::optional<int> max_batch_size;
  std::optional<std::chrono::milliseconds> batch_timeout;  // Negative: auto.
};

struct LogFlags {
  std::string level = "info";
  std::string format = "text";
};

struct EngineFlags {
  std::string model = DefaultModelName();
  std::string chat_template;  // A file; "": the model's own template.
  EngineOptions options;
  BatchingFlags batching;
  LogFlags log;
};

// --model.
flags::FlagTable ModelTable(std::string* model);
// --quantize and what else sets up an engine, whatever its model.
flags::FlagTable EngineSetupTable(EngineFlags* flags);
// --log-level and --log-format.
flags::FlagTable LogTable(LogFlags* log);
// All three: --model, what sets up an engine, and the log's.
flags::FlagTable EngineTable(EngineFlags* flags);
// --policy, --class-shares, and the limits on waiting: of whatever queues requests.
flags::FlagTable QueueTable(QueueOptions* options);
// --scheduler, --max-batch-size and --policy: scheduling of one program's own prompts.
flags::FlagTable BatchingTable(EngineFlags* flags);
// All other flags of scheduling, for a server that many clients share.
flags::FlagTable SchedulingTable(EngineFlags* flags);

// What sets a row's value in `request`. REQUIRES: the row has a flag.
flags::FlagValue ParameterFlag(const core::Parameter& row, Request* request);

// The flags of the rows of core/parameters.h: values that go before a model's own and, with
// `request`, values of one program's own requests. `otherwise`: what the help shows for a model
// that has none.
flags::FlagTable SamplingTable(const SamplingParams& otherwise, SamplingDefaults* defaults,
                               Request* request = nullptr);

// The path that --model means: a file or folder, the name of a fetched model, or a source that one
// was fetched from. kNotFound for what is none; the message says how to fetch it, if it can be.
StatusOr<std::string> ResolveModel(const std::string& model);

// The registry's row of the fetched model at `path`; null: it has none.
const hub::RegistryModel* KnownModel(const std::string& path);

// Settings of sampling that the registry has for the fetched model at `path`.
SamplingDefaults KnownSampling(const std::string& path);

// Applies the preset, and over it the values given beside it, to `options`. kInvalidArgument for a
// given batch size above max_num_seqs; a size that was not given is lowered to it.
Status ResolveBatching(const BatchingFlags& flags, SchedulingOptions* options);

// Sets up the log as the flags say.
void ApplyLog(const LogFlags& log);

// The engine's options, with the model found and the chat template read. Also sets up the log.
// `fetch` may bring the model, which can take long: it is called when all else is checked.
StatusOr<EngineOptions> ResolveEngine(const EngineFlags& flags,
                                      const std::function<Status()>& fetch = nullptr);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_ENGINE_FLAGS_H_
