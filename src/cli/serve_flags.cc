#include "cli/serve_flags.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "cli/flags.h"
#include "cli/scheduler_flags.h"
#include "server/api_keys.h"

namespace ropeway {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeastTimeout(1);  // A timeout of 0 would refuse everybody.
constexpr char kApiKeyVariable[] = "ROPEWAY_API_KEY";

void AddEngine(CLI::App* serve, ServeFlags* flags) {
  AddEngineFlags(serve, &flags->engine);
  EngineOptions& options = flags->engine.options;
  AddText(serve, "--served-model-name", &options.model.served_name, "NAME",
          "Name of the model in the API")
      ->default_str("the file's name")
      ->group("Model");
  AddInt(serve, "--max-queued-requests", &options.scheduler.max_queued_requests, 1, 1000000,
         "Requests that wait; more are refused with 429")
      ->group("Engine");
  AddInt(serve, "--frontend-threads", &options.frontend_threads, 1, 256,
         "Threads that apply chat templates and encode prompts")
      ->group("Engine");
  AddDuration(serve, "--request-timeout", &options.request_timeout,
              "A request fails that has not ended by then, also where it asks for longer; 0: never")
      ->group("Engine");
}

void AddState(CLI::App* serve, ServeFlags* flags) {
  EngineOptions& options = flags->engine.options;
  const char* group = "State";
  AddText(serve, "--state-path", &options.sessions.state_path, "DIR",
          "Directory of what survives a restart: sessions")
      ->default_str("none: in memory")
      ->group(group);
  AddDuration(serve, "--session-ttl", &flags->engine.session_ttl,
              "A session that is not used for so long is closed", std::chrono::seconds(1))
      ->group(group);
  AddInt(serve, "--max-sessions", &options.sessions.max_sessions, 1, 10000000,
         "Sessions at once; more are refused with 429")
      ->group(group);
  AddSize(serve, "--session-store-size", &options.sessions.store_bytes, 1 << 20,
          "What sessions may take, of memory and of the disk each; more is refused with 429")
      ->group(group);
}

void AddTrace(CLI::App* serve, EngineOptions* options) {
  AddText(serve, "--trace-file", &options->trace_file, kFilePlaceholder,
          "Write what each step computed for which request, for Perfetto or chrome://tracing; at "
          "most 512 MiB, no texts")
      ->group("Other");
}

void AddServer(CLI::App* serve, ServeFlags* flags) {
  ServerOptions& server = flags->server;
  server.port = 8080;
  AddText(serve, "--host", &server.host, "ADDRESS",
          "Address to listen on; 0.0.0.0 for all of this machine's")
      ->group("Server");
  AddInt(serve, "--port,-p", &server.port, 0, 65535, "Port to listen on; 0 for any free one")
      ->group("Server");
  AddInt(serve, "--io-threads", &server.io_threads, 1, 64, "Threads that serve connections")
      ->group("Server");
  AddInt(serve, "--helper-threads", &server.limits.helper_threads, 1, 64,
         "Threads for what would hold up an I/O thread: large bodies, /tokenize, /detokenize")
      ->group("Server");
  AddDuration(serve, "--keep-alive-interval", &server.limits.keep_alive_interval,
              "A stream that has been silent for so long sends a comment line, so that proxies "
              "keep it open; 0: never")
      ->group("Server");
  AddDuration(serve, "--drain-timeout", &flags->drain_timeout,
              "After SIGTERM or Ctrl-C what runs may go on for so long; a second signal ends the "
              "program at once")
      ->group("Server");
}

void AddLimits(CLI::App* serve, ServerLimits* limits) {
  const char* group = "Limits";
  AddSize(serve, "--max-body-size", &limits->max_body_bytes, 1,
          "Body of a request; a larger one is refused with 413")
      ->group(group);
  AddSize(serve, "--max-header-size", &limits->max_header_bytes, 1024,
          "Request line and headers; larger ones are refused with 431")
      ->group(group);
  AddSize(serve, "--max-bodies-size", &limits->max_bodies_bytes, 1,
          "Bodies above 32 KiB of all connections together; more are refused with 503")
      ->group(group);
  AddSize(serve, "--max-stream-size", &limits->max_stream_bytes, 1024,
          "Output of a stream that waits for a slow reader; beyond, its request is cancelled")
      ->group(group);
  AddInt(serve, "--max-connections", &limits->max_connections, 1, 1000000,
         "Connections at once; more are answered with 503")
      ->group(group);
  AddInt(serve, "--max-choices", &limits->max_choices, 1, 65536, "Prompts times `n` of one request")
      ->group(group);
  AddDuration(serve, "--header-timeout", &limits->header_timeout,
              "For a client to send a request's headers", kLeastTimeout)
      ->group(group);
  AddDuration(serve, "--body-timeout", &limits->body_timeout,
              "For a client to send a request's body", kLeastTimeout)
      ->group(group);
  AddDuration(serve, "--idle-timeout", &limits->idle_timeout,
              "Between two requests of one connection", kLeastTimeout)
      ->group(group);
  AddDuration(serve, "--write-timeout", &limits->write_timeout,
              "For a client to take what is sent to it; then its request is cancelled",
              kLeastTimeout)
      ->group(group);
}

void AddSecurity(CLI::App* serve, ServeFlags* flags) {
  ServerOptions& server = flags->server;
  const char* group = "Security";
  AddTexts(serve, "--api-key", &flags->api_keys, "KEY",
           "Key that clients must send. Other users of this machine can read command lines: rather "
           "use the environment or a file")
      ->envname(kApiKeyVariable)
      ->group(group);
  AddText(serve, "--api-keys", &flags->api_keys_file, kFilePlaceholder,
          "TOML file of named keys, their priorities and limits: [[keys]] with name, key and more")
      ->check(NotEmpty())
      ->group(group);
  AddText(serve, "--admin-key", &server.admin_key, "KEY",
          "Key that opens /admin, /metrics and /version; without one /admin is closed")
      ->check(NotEmpty())
      ->envname("ROPEWAY_ADMIN_KEY")
      ->group(group);
  AddText(serve, "--tls-cert", &server.tls_cert, kFilePlaceholder,
          "PEM file of the certificate and its chain; with --tls-key the port speaks TLS only")
      ->group(group);
  AddText(serve, "--tls-key", &server.tls_key, kFilePlaceholder,
          "PEM file of the certificate's private key")
      ->group(group);
}

}  // namespace

CLI::App* AddServe(CLI::App* app, ServeFlags* flags) {
  CLI::App* serve =
      app->add_subcommand("serve", "Serve a model over an OpenAI-compatible HTTP API");
  AddEngine(serve, flags);
  AddBatchingFlags(serve, &flags->engine.batching, &flags->engine.options);
  AddSchedulerFlags(serve, &flags->engine.batching, &flags->engine.options);
  AddState(serve, flags);
  AddTrace(serve, &flags->engine.options);
  AddServer(serve, flags);
  AddLimits(serve, &flags->server.limits);
  AddSecurity(serve, flags);
  serve->footer("Example:\n  ropeway serve --port 9000 --kv-cache-size 1GiB --max-num-seqs 32");
  return serve;
}

StatusOr<ServerOptions> ResolveServer(const ServeFlags& flags) {
  ServerOptions options = flags.server;
  if (options.host.empty()) {
    return InvalidArgument("--host: expected an address or a host's name, not ''", "host");
  }
  // All choices of a request are admitted or none: more than may wait would be told to try again
  // for ever.
  options.limits.max_choices =
      std::min(options.limits.max_choices, flags.engine.options.scheduler.max_queued_requests);
  const char* const variable = std::getenv(kApiKeyVariable);
  if (variable != nullptr && *variable == '\0' && flags.api_keys.empty() &&
      flags.api_keys_file.empty()) {
    // A secret that did not arrive must not open the server to everybody.
    return InvalidArgument(
        fmt::format("{} is set but empty: expected a key, or no such variable for a server without "
                    "keys",
                    kApiKeyVariable),
        "api_key");
  }
  for (size_t i = 0; i < flags.api_keys.size(); ++i) {
    options.api_keys.push_back(
        {i == 0 ? "default" : fmt::format("default-{}", i + 1), flags.api_keys[i]});
  }
  if (!flags.api_keys_file.empty()) {
    StatusOr<std::vector<ApiKey>> keys = ReadApiKeys(flags.api_keys_file);
    if (!keys.ok()) return keys.status();
    options.api_keys.insert(options.api_keys.end(), keys->begin(), keys->end());
  }
  return options;
}

std::vector<std::string> SecretsOthersCanRead(const ServeFlags& flags) {
  std::vector<std::string> files;
  for (const std::string& file : {flags.api_keys_file, flags.server.tls_key}) {
    struct stat about {};
    if (!file.empty() && stat(file.c_str(), &about) == 0 && (about.st_mode & S_IROTH) != 0) {
      files.push_back(file);
    }
  }
  return files;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

}  // namespace ropeway
