// The flags of `ropeway serve`.
#ifndef ROPEWAY_CLI_SERVE_FLAGS_H_
#define ROPEWAY_CLI_SERVE_FLAGS_H_

#include <chrono>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "ropeway/status.h"
#include "server/server_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace ropeway {

struct ServeFlags {
  EngineFlags engine;
  ServerOptions server;
  std::vector<std::string> api_keys;  // As given by --api-key, without names.
  std::string api_keys_file;
  std::chrono::milliseconds drain_timeout{30'000};
};

// Adds the command to `app`. `flags` must outlive the parse.
CLI::App* AddServe(CLI::App* app, ServeFlags* flags);

// The server's options with the keys of both kinds in them. The first of --api-key is named
// "default", the further ones "default-2", "default-3", ... Refused: no host, and ROPEWAY_API_KEY
// in the environment without a key in it where no other key is given. A request's choices are
// bounded by the requests that may wait, too.
StatusOr<ServerOptions> ResolveServer(const ServeFlags& flags);

// Of the files with keys (--api-keys, --tls-key) those that all users of this machine can read.
std::vector<std::string> SecretsOthersCanRead(const ServeFlags& flags);

// Whether `host` can be reached from this machine alone.
bool IsLoopback(const std::string& host);

}  // namespace ropeway

#endif  // ROPEWAY_CLI_SERVE_FLAGS_H_
