// `ropeway gateway`.
#ifndef ROPEWAY_CLI_GATEWAY_H_
#define ROPEWAY_CLI_GATEWAY_H_

#include <vector>

#include "cli/engine_flags.h"
#include "cli/front.h"
#include "cli/gateway_backends.h"
#include "flags/flag.h"
#include "ropeway/gateway.h"
#include "ropeway/status.h"

namespace ropeway::cli {

struct GatewayFlags : FrontFlags {
  std::vector<BackendFlag> backends;
  GatewayOptions options;  // Without models.
  EngineFlags engine;      // For all engines of this process; each has its own model.
};

// The command; it serves until SIGTERM or SIGINT and then drains. Run it once, before any thread is
// started. `flags` must outlive it.
flags::Command GatewayCommand(GatewayFlags* flags);

// The gateway's options with the models and backends in them, in the order of the flags, and keys
// from the environment; of engines of this process all but the engine. Gives the backends of the
// flags their names. kInvalidArgument, one sentence, for what cannot be.
StatusOr<GatewayOptions> ResolveGateway(GatewayFlags* flags);

// What the gateway takes of descriptors beside its clients' connections.
DescriptorsBehind GatewayDescriptors(const GatewayOptions& options);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_GATEWAY_H_
