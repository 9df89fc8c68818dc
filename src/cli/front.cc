#include "cli/front.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/output.h"
#include "base/system.h"
#include "flags/units.h"
#include "server/api_keys.h"
#include "server/http_server.h"

namespace ropeway::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeastTimeout(1);  // A timeout of 0 would reject every client.
constexpr char kApiKeyVariable[] = "ROPEWAY_API_KEY";
// For what is left in the connections' buffers when all requests have ended.
constexpr std::chrono::seconds kFlushTime(2);
// Of descriptors: for the model, logs and the like; for each event loop (epoll, its event and its
// timer); for RocksDB's files of the disk tier and of the sessions.
constexpr int64_t kOwnDescriptors = 96;
constexpr int64_t kLoopDescriptors = 3;
constexpr int64_t kDiskTierDescriptors = 448;
constexpr int64_t kStateDescriptors = 96;
constexpr int64_t kLeastConnections = 16;

flags::FlagTable ServerRows(FrontFlags* flags) {
  server::ServerOptions& server = flags->server;
  return {{"Server",
           {{"--host", flags::TextValue(&server.host, "ADDRESS"),
             "Address to listen on; 0.0.0.0 for all of this machine's"},
            {"--port,-p", flags::IntValue(&server.port, 0, 65535),
             "Port to listen on; 0 for any free one"},
            {"--io-threads", flags::IntValue(&server.io_threads, 1, 64),
             "Threads that serve connections"},
            {"--helper-threads", flags::IntValue(&server.limits.helper_threads, 1, 64),
             "Threads for work that would delay an I/O thread: large bodies, /tokenize, "
             "/detokenize"},
            {"--keep-alive-interval", flags::DurationValue(&server.limits.keep_alive_interval),
             "A stream that has been silent for so long sends a comment line, so that proxies "
             "keep it open; 0: never"},
            {"--trusted-proxy", flags::TextsValue(&server.trusted_proxies, "ADDRESS"),
             "Proxy in front of the server, or network of such (10.0.0.0/8): it may have all "
             "connections, and its X-Forwarded-For or Forwarded names the client"},
            {"--drain-timeout", flags::DurationValue(&flags->drain_timeout),
             "How long running requests may go on after SIGTERM or Ctrl-C; a second signal ends "
             "the program at once"}}}};
}

flags::FlagTable LimitRows(server::ServerLimits* limits) {
  return {{"Limits",
           {{"--max-body-size", flags::SizeValue(&limits->max_body_bytes, 1),
             "Body of a request; a larger one is rejected with 413"},
            {"--max-header-size", flags::SizeValue(&limits->max_header_bytes, 1024),
             "Request line and headers; larger ones are rejected with 431"},
            {"--max-bodies-size", flags::SizeValue(&limits->max_bodies_bytes, 1),
             "Bodies above 32 KiB of all connections together, of which one key gets at most half; "
             "more are rejected with 503"},
            {"--max-answers-size", flags::SizeValue(&limits->max_answers_bytes, 1024),
             "Answers above 16 KiB that clients have not read, of which one key gets at most half; "
             "more are not sent"},
            {"--max-stream-size", flags::SizeValue(&limits->max_stream_bytes, 1024),
             "Output of a stream that waits for a slow reader; beyond it the request is cancelled"},
            {"--max-connections", flags::IntValue(&limits->max_connections, 1, 1000000),
             "Connections at once, of which one key or address gets at most half; beyond it the "
             "oldest without a key is closed for a new one"},
            {"--max-choices", flags::IntValue(&limits->max_choices, 1, 65536),
             "Prompts times `n` of one request"},
            {"--header-timeout", flags::DurationValue(&limits->header_timeout, kLeastTimeout),
             "For a client to send a request's headers"},
            {"--body-timeout", flags::DurationValue(&limits->body_timeout, kLeastTimeout),
             "For a client to send a request's body"},
            {"--idle-timeout", flags::DurationValue(&limits->idle_timeout, kLeastTimeout),
             "Between two requests of one connection"},
            {"--write-timeout", flags::DurationValue(&limits->write_timeout, kLeastTimeout),
             "For a client to take what is sent to it; then its request is cancelled"}}}};
}

flags::FlagTable SecurityRows(FrontFlags* flags) {
  server::ServerOptions& server = flags->server;
  return {
      {"Security",
       {{"--api-key", flags::TextsValue(&flags->api_keys, "KEY").Environment(kApiKeyVariable),
         "Key that clients must send. Other users of this machine can read command lines: prefer "
         "the environment or a file"},
        {"--api-keys", flags::TextValue(&flags->api_keys_file, "FILE").NotEmpty(),
         "TOML file of named keys, their priorities and limits: [[keys]] with name, key and more"},
        {"--admin-key",
         flags::TextValue(&server.admin_key, "KEY").NotEmpty().Environment("ROPEWAY_ADMIN_KEY"),
         "Key for /admin, which is closed without one; with API keys also good for /metrics, "
         "/version "
         "and /v1/queue"},
        {"--tls-cert", flags::TextValue(&server.tls_cert, "FILE").NotEmpty(),
         "PEM file of the certificate and its chain; with --tls-key the port speaks TLS only"},
        {"--tls-key", flags::TextValue(&server.tls_key, "FILE").NotEmpty(),
         "PEM file of the certificate's private key"}}}};
}

void WarnIfOpen(const server::ServerOptions& options) {
  if (IsLoopback(options.host) || !options.api_keys.empty()) return;
  spdlog::warn(
      "{} can be reached from other machines, and without --api-key or --api-keys all "
      "clients may use it",
      options.host);
}

// Reads the files of keys and certificates anew; one line in the log says what came of it.
void Reload(const FrontFlags& flags, const server::ServerOptions& options,
            server::HttpServer* server) try {
  if (flags.api_keys_file.empty() && options.tls_cert.empty()) {
    spdlog::info("SIGHUP: nothing to reload: neither --api-keys nor --tls-cert is given");
    return;
  }
  const StatusOr<server::ServerOptions> fresh = ResolveFront(flags, options.limits.max_choices);
  const Status status = fresh.ok() ? server->Reload(*fresh) : fresh.status();
  if (!status.ok()) {
    spdlog::error("SIGHUP: nothing is changed: {}", status.message());
    return;
  }
  std::vector<std::string> what;
  if (!flags.api_keys_file.empty()) {
    what.push_back(fmt::format("{} API keys", fresh->api_keys.size()));
  }
  if (!options.tls_cert.empty()) what.push_back("the certificate " + options.tls_cert);
  spdlog::info("SIGHUP: reloaded: {}", fmt::join(what, ", "));
} catch (const std::exception& e) {
  base::TryLog(spdlog::level::err, "SIGHUP: nothing is changed: {}", e.what());
}

std::string Banner(const server::ServerOptions& options, uint16_t port, const std::string& what) {
  const bool ipv6 = options.host.find(':') != std::string::npos;
  const std::string url = fmt::format("{}://{}:{}", options.tls_cert.empty() ? "http" : "https",
                                      ipv6 ? "[" + options.host + "]" : options.host, port);
  const char* key = options.api_keys.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  return fmt::format(
      "Ropeway {} serves {} on {}\nTry:\n"
      "  curl {}/v1/chat/completions{} -H 'Content-Type: application/json' -d "
      "'{{\"messages\": [{{\"role\": \"user\", \"content\": \"What is a ropeway?\"}}], "
      "\"max_tokens\": 100}}'\n",
      ROPEWAY_VERSION, what, url, url, key);
}

}  // namespace

flags::FlagTable FrontTable(FrontFlags* flags) {
  return flags::Join({ServerRows(flags), LimitRows(&flags->server.limits), SecurityRows(flags)});
}

flags::FlagTable StateTable(SessionOptions* sessions) {
  return {
      {"State (no effect over HTTP yet)",
       {{"--state-path", flags::TextValue(&sessions->state_path, "DIR").Default("none: in memory"),
         "Directory of what survives a restart: sessions"},
        {"--session-ttl", flags::DurationValue(&sessions->ttl, std::chrono::seconds(1)),
         "A session that is unused for so long is closed"},
        {"--max-sessions", flags::IntValue(&sessions->max_sessions, 1, 10000000),
         "Sessions at once; more are rejected with 429"},
        {"--session-store-size", flags::SizeValue(&sessions->store_bytes, 1 << 20),
         "Size of all sessions, in memory and on the disk each; more is rejected with 429"}}}};
}

StatusOr<server::ServerOptions> ResolveFront(const FrontFlags& flags, int max_queued_requests) {
  server::ServerOptions options = flags.server;
  if (options.host.empty()) {
    return InvalidArgument("--host: expected an address or a host's name, not ''", "host");
  }
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    const bool key = options.tls_key.empty();
    return InvalidArgument(
        key ? "--tls-key is required with --tls-cert" : "--tls-cert is required with --tls-key",
        key ? "tls_key" : "tls_cert");
  }
  if (Status status = server::CheckTrustedProxies(options.trusted_proxies); !status.ok()) {
    return InvalidArgument("--trusted-proxy: " + status.message(), "trusted_proxy");
  }
  // All choices of a request are admitted or none: more than may wait could never be admitted.
  options.limits.max_choices = std::min(options.limits.max_choices, max_queued_requests);
  const char* const variable = std::getenv(kApiKeyVariable);
  if (variable != nullptr && *variable == '\0' && flags.api_keys.empty() &&
      flags.api_keys_file.empty()) {
    // A missing secret must not open the server to all clients.
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
    StatusOr<std::vector<server::ApiKey>> keys = server::ReadApiKeys(flags.api_keys_file);
    if (!keys.ok()) return keys.status();
    options.api_keys.insert(options.api_keys.end(), keys->begin(), keys->end());
  }
  return options;
}

std::vector<std::string> SecretsOthersCanRead(const FrontFlags& flags) {
  std::vector<std::string> files;
  for (const std::string& file : {flags.api_keys_file, flags.server.tls_key}) {
    struct stat about {};
    if (!file.empty() && stat(file.c_str(), &about) == 0 && (about.st_mode & S_IROTH) != 0) {
      files.push_back(file);
    }
  }
  return files;
}

DescriptorsBehind EngineDescriptors(const EngineOptions& engine) {
  DescriptorsBehind behind;
  behind.fixed = (engine.cache.disk_path.empty() ? 0 : kDiskTierDescriptors) +
                 StateDescriptors(engine.sessions);
  return behind;
}

int64_t StateDescriptors(const SessionOptions& sessions) {
  return sessions.state_path.empty() ? 0 : kStateDescriptors;
}

Status FitFront(int64_t descriptors, const DescriptorsBehind& behind,
                server::ServerOptions* options) {
  server::ServerLimits* const limits = &options->limits;
  const int64_t besides = server::MostOpen(*limits) - limits->max_connections + kOwnDescriptors +
                          kLoopDescriptors * options->io_threads + behind.fixed;
  // Each connection of a client may need one to another server, until all of those are open.
  const int64_t most = std::max(descriptors - besides - behind.upstream,
                                (descriptors - besides) / (behind.upstream > 0 ? 2 : 1));
  if (most >= limits->max_connections) return {};
  const int64_t wanted = std::min<int64_t>(kLeastConnections, limits->max_connections);
  const int64_t least = besides + wanted + std::min(wanted, behind.upstream);
  if (descriptors < least) {
    return {StatusCode::kResourceExhausted,
            fmt::format("the system allows {} open files, but the server needs at least {}: raise "
                        "the limit (ulimit -Hn)",
                        descriptors, least)};
  }
  spdlog::warn(
      "--max-connections is lowered from {} to {}: the system allows {} open files (ulimit -Hn), "
      "of which {} are for other things",
      limits->max_connections, most, descriptors, besides + std::min(most, behind.upstream));
  limits->max_connections = static_cast<int>(most);
  return {};
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

struct ServerSignals::State {
  std::atomic<bool> serving = false;
  std::promise<int> first;
  std::mutex mutex;
  std::function<void()> reload;  // Guarded by mutex, as is the next; called under it.
  bool hung_up = false;          // When there was nothing to call.

  void HangUp() {
    const std::lock_guard lock(mutex);
    hung_up = !reload;
    if (reload) reload();
  }
};

ServerSignals::ServerSignals() : state_(std::make_shared<State>()) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, state = state_] {
    for (int ends = 0; true;) {
      int signal = 0;
      sigwait(&signals, &signal);
      if (signal == SIGHUP) {
        state->HangUp();
        continue;
      }
      if (!state->serving) _exit(0);
      if (++ends > 1) _exit(1);
      state->first.set_value(signal);
    }
  }).detach();
}

void ServerSignals::SetServing() { state_->serving = true; }

void ServerSignals::OnHangup(std::function<void()> reload) {
  const std::lock_guard lock(state_->mutex);
  state_->reload = std::move(reload);
  if (state_->reload && std::exchange(state_->hung_up, false)) state_->reload();
}

const char* ServerSignals::Wait() {
  return state_->first.get_future().get() == SIGTERM ? "SIGTERM" : "SIGINT";
}

StatusOr<server::ServerOptions> PrepareFront(const FrontFlags& flags, int max_queued_requests,
                                             const DescriptorsBehind& behind) {
  base::RaiseDescriptorLimit();
  StatusOr<server::ServerOptions> options = ResolveFront(flags, max_queued_requests);
  if (!options.ok()) return options;
  const Status fits = FitFront(base::DescriptorLimit(), behind, &*options);
  if (!fits.ok()) return fits;
  for (const std::string& file : SecretsOthersCanRead(flags)) {
    spdlog::warn("all users of this machine can read the keys in {}: chmod 600 it", file);
  }
  return options;
}

int RunFront(const FrontFlags& flags, const server::ServerOptions& options, const std::string& what,
             engine::Backend* backend, ServerSignals* signals) {
  server::HttpServer server(options, backend);
  signals->SetServing();
  if (Status status = server.Start(); !status.ok()) return base::Fail(status);
  WarnIfOpen(options);
  // A banner that cannot be written does not stop the server.
  base::Output().Write(Banner(options, server.port(), what));
  signals->OnHangup([&] { Reload(flags, options, &server); });

  const char* signal = signals->Wait();
  signals->OnHangup(nullptr);
  spdlog::info("{}: no new requests; what runs may finish within {}", signal,
               flags::FormatDuration(flags.drain_timeout));
  server.StopAccepting();
  const Status drained = backend->Drain(flags.drain_timeout);
  if (!drained.ok()) spdlog::warn("{}", drained.message());
  server.Stop(kFlushTime);
  return 0;
}

}  // namespace ropeway::cli
