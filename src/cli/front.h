// What `ropeway serve` and `ropeway gateway` share: the HTTP server's flags, its keys, and its life
// from start to drain, over any Backend.
#ifndef ROPEWAY_CLI_FRONT_H_
#define ROPEWAY_CLI_FRONT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/server_signals.h"
#include "flags/flag.h"
#include "http/server_port.h"
#include "ropeway/options.h"
#include "ropeway/status.h"
#include "server/server_options.h"
#include "service/front_desk.h"
#include "store/object_store.h"
#include "store/state_writer.h"

namespace ropeway::cli {

struct FrontFlags {
  FrontFlags() {
    server.port = 8080;
    server.access_log = true;
  }

  server::ServerOptions server;
  std::vector<std::string> api_keys;  // As given by --api-key, without names.
  std::string api_keys_file;
  std::string unknown_fields = "ignore";  // Or "reject".
  std::chrono::milliseconds drain_timeout{30'000};
};

// The flags of the server, its limits and its security.
flags::FlagTable FrontTable(FrontFlags* flags);

// The flags of what survives a restart.
flags::FlagTable StateTable(SessionOptions* sessions);

// The server's options with the keys of both kinds in them. The first of --api-key is named
// "default", further ones "default-2", "default-3", ... A request's choices are bounded by the
// requests that may wait, too. kInvalidArgument for an empty host, for keys that cannot be used,
// and for an empty ROPEWAY_API_KEY in the environment where no other key is given.
StatusOr<server::ServerOptions> ResolveFront(const FrontFlags& flags, int max_queued_requests);

// The files with keys (--api-keys, --tls-key) that all users of this machine can read.
std::vector<std::string> SecretsOthersCanRead(const FrontFlags& flags);

// What stands behind the server and takes descriptors too.
struct DescriptorsBehind {
  int64_t fixed = 0;  // Files and the like, whatever happens.
  // The most connections to other servers; no more than one for each connection of a client.
  int64_t upstream = 0;
};

// The descriptors of an engine: RocksDB's files of its disk tier and its sessions, which have
// limits of their own.
DescriptorsBehind EngineDescriptors(const EngineOptions& engine);
// The descriptors of the sessions alone.
int64_t StateDescriptors(const SessionOptions& sessions);

// Lowers the server's max_connections to what `descriptors`, the most that may be open, leave for
// connections, with a line in the log. kResourceExhausted if that is next to nothing.
Status FitFront(int64_t descriptors, const DescriptorsBehind& behind,
                server::ServerOptions* options);

// What a model is asked for.
enum class Asks { kChats, kTexts, kEmbeddings };

// What is said once clients can come: where, and a request to try.
std::string Banner(const server::ServerOptions& options, uint16_t port, const std::string& what,
                   Asks asks);

// A server that is checked, and has its port and its store, before what it serves is loaded.
struct Front {
  server::ServerOptions options;
  http::ServerPort port;
  // With --state-path: what writes there, and the answers and conversations that clients store.
  std::shared_ptr<store::StateWriter> writer = nullptr;
  std::unique_ptr<store::ObjectStore> objects = nullptr;
};

// Raises the limit on descriptors, resolves the flags, fits the connections to the limit and reads
// the TLS files. Takes the port, without listening yet, and opens the store. Logs the secrets that
// other users can read.
StatusOr<Front> PrepareFront(const FrontFlags& flags, int max_queued_requests,
                             const DescriptorsBehind& behind, const SessionOptions& sessions);

// Serves `backend` until the program is asked to end, then drains it; `what` names in the banner
// what is served. SIGHUP reads the files of keys and certificates that the flags name anew.
// Whatever hangs while they are read, the end waits for none of it.
// `front`: what PrepareFront made of `flags`. Returns how many requests were answered.
StatusOr<int64_t> RunFront(const FrontFlags& flags, Front front, const std::string& what,
                           service::FrontDesk* backend, ServerSignals* signals);

// Runs the command of a server: `serve` returns when all of it has ended, with RunFront's number.
// Says so in the log's last line. Returns the exit code.
int RunServer(const std::function<StatusOr<int64_t>(ServerSignals* signals)>& serve);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_FRONT_H_
