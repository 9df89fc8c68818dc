// The flags that say how requests come together and who goes first (docs/scheduling.md).
#ifndef ROPEWAY_CLI_SCHEDULER_FLAGS_H_
#define ROPEWAY_CLI_SCHEDULER_FLAGS_H_

#include <chrono>
#include <optional>
#include <string>

#include "ropeway/options.h"
#include "ropeway/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

// What decides about batches together with --preset, as it was given.
struct BatchingFlags {
  std::string preset;     // "": none.
  std::string scheduler;  // "": as the preset says, else "continuous".
  std::optional<int> max_batch_size;
  std::optional<std::chrono::milliseconds> batch_timeout;  // Negative: auto.
};

// Adds what a program with many prompts of its own needs: --scheduler, --max-batch-size and
// --policy. What they point to must outlive the parse.
void AddBatchingFlags(CLI::App* app, BatchingFlags* flags, EngineOptions* options);

// Adds all others: what matters where many share a server.
void AddSchedulerFlags(CLI::App* app, BatchingFlags* flags, EngineOptions* options);

// Puts the preset, and over it what was given beside it, into `options`. Refused: a static or
// dynamic batch of more than max_num_seqs; one that nobody asked for is made as small as that.
Status ResolveBatching(const BatchingFlags& flags, EngineOptions* options);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_SCHEDULER_FLAGS_H_
