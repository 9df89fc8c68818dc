// Finds out the model and the features of a server before the load.
#ifndef ROPEWAY_LOADGEN_SERVER_PROBE_H_
#define ROPEWAY_LOADGEN_SERVER_PROBE_H_

#include <string>
#include <vector>

#include "loadgen/load_options.h"
#include "net/http_client.h"
#include "ropeway/status.h"

namespace ropeway::loadgen {

struct ServerFacts {
  std::string model;
  int max_model_len = 0;           // 0: unknown.
  bool prompt_ids = false;         // Random prompts are sent as token ids.
  bool ignore_eos = false;         // The field is sent.
  int overhead = 0;                // Tokens that the server adds to each prompt.
  std::vector<std::string> notes;  // For the report, each one sentence.
};

// Reads /v1/models, and finds out by one or a few requests of one token whether token ids and
// ignore_eos are understood and how many tokens the server adds to a prompt. Fails only if no model
// is known; a server that rejects all probes is loaded anyway, and the report shows its errors.
// Blocks.
StatusOr<ServerFacts> ProbeServer(const net::HttpClient& client, const LoadOptions& options);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_SERVER_PROBE_H_
