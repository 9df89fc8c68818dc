// `ropeway serve`.
#ifndef ROPEWAY_CLI_SERVE_H_
#define ROPEWAY_CLI_SERVE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "flags/flag.h"
#include "ropeway/status.h"
#include "server/server_options.h"

namespace ropeway::cli {

struct ServeFlags {
  ServeFlags() {
    server.port = 8080;
    engine.options.scheduler.urgent_joins = true;  // The library keeps the strategies pure.
  }

  EngineFlags engine;
  server::ServerOptions server;
  std::vector<std::string> api_keys;  // As given by --api-key, without names.
  std::string api_keys_file;
  std::chrono::milliseconds drain_timeout{30'000};
};

// The command; it serves until SIGTERM or SIGINT and then drains. Run it once, before any thread is
// started. `flags` must outlive it.
flags::Command ServeCommand(ServeFlags* flags);

// The server's options with the keys of both kinds in them. The first of --api-key is named
// "default", further ones "default-2", "default-3", ... A request's choices are bounded by the
// requests that may wait, too. kInvalidArgument for an empty host, and for an empty ROPEWAY_API_KEY
// in the environment where no other key is given.
StatusOr<server::ServerOptions> ResolveServer(const ServeFlags& flags);

// The files with keys (--api-keys, --tls-key) that all users of this machine can read.
std::vector<std::string> SecretsOthersCanRead(const ServeFlags& flags);

// Lowers the server's max_connections to what `descriptors`, the most that may be open, leave for
// connections, with a line in the log. kResourceExhausted if that is next to nothing.
Status FitDescriptors(int64_t descriptors, const EngineOptions& engine,
                      server::ServerOptions* options);

// Whether only this machine can reach `host`.
bool IsLoopback(const std::string& host);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_SERVE_H_
