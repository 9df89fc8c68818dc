// `ropeway serve`.
#ifndef ROPEWAY_CLI_SERVE_H_
#define ROPEWAY_CLI_SERVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "cli/front.h"
#include "flags/flag.h"
#include "ropeway/status.h"
#include "server/server_options.h"

namespace ropeway::cli {

struct ServeFlags : FrontFlags {
  ServeFlags() {
    engine.options.scheduler.urgent_joins = true;  // The library keeps the strategies pure.
  }

  EngineFlags engine;
  std::string model;               // As an argument; "": none, engine.model counts.
  bool yes = false;                // Pull it without a question.
  std::vector<std::string> names;  // What the API calls it; empty: as its file.
  std::string any_model = "auto";
  bool allow_pull = false;  // POST /api/pull may pull models ...
  std::string registry;     // ... of this file; "": of the built-in registry.
};

// The command; it serves until SIGTERM or SIGINT and then drains. Run it once, before any thread is
// started. `flags` must outlive it.
flags::Command ServeCommand(ServeFlags* flags);

// Whether --any-model `choice` is on for a server with these options: "auto" is where only programs
// of this machine can ask, and no keys tell them apart.
bool ServesAnyModel(const std::string& choice, const server::ServerOptions& options);

// Whether --allow-pull may be on for a server with these options: for a holder of the admin key, or
// where only programs of this machine can ask, and no keys tell them apart.
Status CheckAllowPull(const server::ServerOptions& options);

// ResolveFront for this server.
StatusOr<server::ServerOptions> ResolveServer(const ServeFlags& flags);

// FitFront for a server with this engine behind it.
Status FitDescriptors(int64_t descriptors, const EngineOptions& engine,
                      server::ServerOptions* options);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_SERVE_H_
