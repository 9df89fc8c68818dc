// What `ropeway gateway` is told of its backends: --backend, or tables of the configuration file.
#ifndef ROPEWAY_CLI_GATEWAY_BACKENDS_H_
#define ROPEWAY_CLI_GATEWAY_BACKENDS_H_

#include <string>
#include <vector>

#include "api/wire_format.h"
#include "flags/flag.h"
#include "ropeway/status.h"

namespace ropeway::cli {

// One --backend as given.
struct BackendFlag {
  bool local = false;  // An engine of this process; else a server.
  std::string where;   // A server's URL; of an engine the model, as --model of `serve` takes it.
  api::BackendKind kind = api::BackendKind::kOpenAi;  // What a server runs.
  std::string name;  // In the log, metrics and errors. "": host and port, or the model.
  // What clients call its model; backends of one model are its replicas. "": as the backend calls
  // it.
  std::string model;
  std::string upstream_model;        // What the backend calls it; "": the same.
  std::vector<std::string> aliases;  // Further names of the model for clients.
  double weight = 1.0;               // Its share of the requests, relative to the other replicas.
  int max_concurrency = 0;           // Requests that it may have at once; 0: as the gateway learns.
  int min_concurrency = 0;           // So few it learns at least; 0: 1.
  std::string key_variable;          // The environment variable with its key; "": no key.
  bool insecure = false;             // https accepts any certificate.
  std::string device;                // What computes, of an engine; "": as --device says.
};

// Reads "URL[,key=value]..." or "local:MODEL[,key=value]...". kInvalidArgument: a sentence that
// names the backend and what is wrong; it shows no secrets, even where the URL holds one.
StatusOr<BackendFlag> ParseBackend(const std::string& text);

// --backend: the texts that ParseBackend reads, and tables of them in the configuration file.
flags::FlagValue BackendsValue(std::vector<BackendFlag>* target);

// Gives each backend its name. kInvalidArgument, one sentence, where there is no backend, and for
// names of backends, models and aliases that are not distinct.
Status ResolveBackends(std::vector<BackendFlag>* backends);

// The backend's key from the environment; "" where it needs none. kInvalidArgument where the
// variable is not set, or empty.
StatusOr<std::string> BackendKey(const BackendFlag& backend);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_GATEWAY_BACKENDS_H_
