#include "cli/front.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/output.h"
#include "base/system.h"
#include "base/words.h"
#include "http/client_address.h"
#include "server/api_keys.h"
#include "server/api_server.h"
#include "store/session_store.h"

namespace ropeway::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeastTimeout(1);  // A timeout of 0 would reject every client.
constexpr char kApiKeyVariable[] = "ROPEWAY_API_KEY";
// For what is left in the connections' buffers when all requests have ended.
constexpr std::chrono::seconds kFlushTime(2);
// Descriptors that are needed: for the model, logs and the like; for each event loop (epoll, its
// event and its timer); for RocksDB's files of the disk tier and of the sessions.
constexpr int64_t kOwnDescriptors = 96;
constexpr int64_t kLoopDescriptors = 3;
constexpr int64_t kDiskTierDescriptors = 448;
constexpr int64_t kStateDescriptors = 96;
// Of the readers of KV events: kvcache::EventSocket::kMostPeers, some that are accepted before it
// sees that they are too many, and its own.
constexpr int64_t kEventDescriptors = 192;
constexpr int64_t kLeastConnections = 16;

StatusOr<std::vector<std::string>> CommaList(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

flags::FlagTable ServerRows(FrontFlags* flags) {
  server::ServerOptions& server = flags->server;
  return {
      {"Server",
       {{"--host", flags::TextValue(&server.host, "ADDRESS"),
         "Address to listen on; 0.0.0.0 for all addresses of this machine"},
        {"--port,-p", flags::IntValue(&server.port, 0, 65535),
         "Port to listen on; 0 for any free one"},
        {"--io-threads", flags::IntValue(&server.io_threads, 1, 64),
         "Threads that serve connections"},
        {"--helper-threads", flags::IntValue(&server.limits.helper_threads, 1, 64),
         "Threads for work that would delay an I/O thread: large bodies, /tokenize, "
         "/detokenize"},
        {"--keep-alive-interval", flags::DurationValue(&server.limits.keep_alive_interval),
         "Silence in a stream after which a comment line is sent, so that proxies keep it open; 0: "
         "never"},
        {"--trusted-proxy", flags::TextsValue(&server.trusted_proxies, "ADDRESS"),
         "Address of a proxy in front of the server, or network of proxies (10.0.0.0/8): it may "
         "use all connections, and its X-Forwarded-For or Forwarded header names the client"},
        {"--access-log", flags::OnOffValue(&server.access_log),
         "Log a line for each request: client, outcome, tokens and times; never texts or keys"},
        {"--unknown-fields", flags::ChoiceValue(&flags->unknown_fields, {"ignore", "reject"}),
         "What to do with an unknown field of a request: ignore (the log and the header "
         "x-ropeway-ignored name it; a field that resembles a known one is a 400) or reject (400)"},
        {"--web,!--no-web", flags::SwitchValue(&server.web).Default("on"),
         "Serve the dashboard at / and the chat at /chat, pages for browsers"},
        {"--drain-timeout", flags::DurationValue(&flags->drain_timeout),
         "How long running requests may continue after SIGTERM or Ctrl-C; a second signal ends "
         "the program at once"}}}};
}

flags::FlagTable LimitRows(server::ServerLimits* limits) {
  return {
      {"Limits",
       {{"--max-body-size", flags::SizeValue(&limits->max_body_bytes, 1),
         "Maximum size of a request's body; a larger one is rejected with 413"},
        {"--max-header-size", flags::SizeValue(&limits->max_header_bytes, 1024),
         "Maximum size of the request line and headers; larger ones are rejected with 431"},
        {"--max-bodies-size", flags::SizeValue(&limits->max_bodies_bytes, 1),
         "Maximum total size of request bodies above 32 KiB; one key gets at most half; more are "
         "rejected with 503"},
        {"--max-answers-size", flags::SizeValue(&limits->max_answers_bytes, 1024),
         "Maximum total size of answers above 16 KiB that clients have not read; one key gets at "
         "most half; more are not sent"},
        {"--max-stream-size", flags::SizeValue(&limits->max_stream_bytes, 1024),
         "Maximum output of a stream that waits for a slow client; above it the request is "
         "cancelled"},
        {"--max-connections", flags::IntValue(&limits->max_connections, 1, 1000000),
         "Maximum number of connections; one key or address gets at most half; above it the oldest "
         "connection without a key is closed for a new one"},
        {"--max-choices", flags::IntValue(&limits->body.max_choices, 1, 65536),
         "Maximum number of answers of one request: its prompts times `n`"},
        {"--header-timeout", flags::DurationValue(&limits->header_timeout, kLeastTimeout),
         "Time for a client to send a request's headers"},
        {"--body-timeout", flags::DurationValue(&limits->body_timeout, kLeastTimeout),
         "Time for a client to send a request's body"},
        {"--idle-timeout", flags::DurationValue(&limits->idle_timeout, kLeastTimeout),
         "Maximum time between two requests on one connection"},
        {"--write-timeout", flags::DurationValue(&limits->write_timeout, kLeastTimeout),
         "Time for a client to read what is sent to it; after that its request is cancelled"}}}};
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
         "Key for /admin, which is closed without one; if there are API keys, it also opens "
         "/metrics, /version and /v1/queue"},
        {"--cors-origins", flags::ParsedValue(&server.cors_origins, "LIST", CommaList),
         "Origins of the web pages that may use the API, such as https://app.example:8443, "
         "separated by commas; '*' for all, 'none' for none. Default: pages of this machine if the "
         "server listens only on loopback"},
        {"--allowed-hosts", flags::ParsedValue(&server.allowed_hosts, "LIST", CommaList),
         "Host names that clients may use for a server on loopback without keys, besides "
         "localhost, loopback addresses and --host; '*' for all"},
        {"--tls-cert", flags::TextValue(&server.tls_cert, "FILE").NotEmpty(),
         "PEM file with the certificate and its chain; with --tls-key the port accepts only TLS"},
        {"--tls-key", flags::TextValue(&server.tls_key, "FILE").NotEmpty(),
         "PEM file with the certificate's private key"}}}};
}

void WarnIfOpen(const server::ServerOptions& options) {
  if (http::IsLoopbackHost(options.host) || !options.api_keys.empty()) return;
  spdlog::warn(
      "{} can be reached from other machines, and without --api-key or --api-keys all "
      "clients may use it",
      options.host);
}

using ApiKeys = std::vector<server::ApiKey>;

// The keys of --api-key, and after them the keys of the file.
StatusOr<ApiKeys> AllKeys(const FrontFlags& flags, const StatusOr<ApiKeys>& of_file) {
  if (!of_file.ok()) return of_file;
  ApiKeys keys;
  for (size_t i = 0; i < flags.api_keys.size(); ++i) {
    keys.push_back({i == 0 ? "default" : fmt::format("default-{}", i + 1), flags.api_keys[i]});
  }
  keys.insert(keys.end(), of_file->begin(), of_file->end());
  return keys;
}

std::string ExposedText(const std::string& file) {
  return fmt::format("all users of this machine can read the keys in {}: chmod 600 it", file);
}

// What a reload reads.
struct FreshFiles {
  std::string api_keys;
  std::optional<http::TlsFiles> tls;
  std::vector<std::string> exposed;
};

// Regular files only: nothing else could be read twice.
StatusOr<FreshFiles> ReadFreshFiles(const FrontFlags& flags) {
  FreshFiles fresh;
  if (!flags.api_keys_file.empty()) {
    StatusOr<std::string> text =
        base::ReadRegularFile(flags.api_keys_file, server::kMaxApiKeysBytes);
    if (!text.ok()) {
      return InvalidArgument(fmt::format("--api-keys: cannot read '{}': {}", flags.api_keys_file,
                                         text.status().message()),
                             "api_keys");
    }
    fresh.api_keys = *std::move(text);
  }
  if (!flags.server.tls_cert.empty()) {
    StatusOr<http::TlsFiles> tls =
        http::ReadTlsFiles(flags.server.tls_cert, flags.server.tls_key, true);
    if (!tls.ok()) return tls.status();
    fresh.tls = *std::move(tls);
  }
  fresh.exposed = SecretsOthersCanRead(flags);
  return fresh;
}

// The line about what is reloaded.
std::string ReloadedText(const FrontFlags& flags, size_t keys, const FreshFiles& fresh) {
  std::vector<std::string> what;
  if (!flags.api_keys_file.empty()) what.push_back(base::Counted(keys, "API key"));
  if (fresh.tls) what.push_back("the certificate " + fresh.tls->cert_path);
  std::string line = fmt::format("SIGHUP: reloaded: {}", fmt::join(what, ", "));
  for (const std::string& file : fresh.exposed) line += "; " + ExposedText(file);
  return line;
}

// Gives the server what was read; one line in the log says what came of it.
void Reload(const FrontFlags& flags, const StatusOr<FreshFiles>& fresh, server::ApiServer* server) {
  if (flags.api_keys_file.empty() && flags.server.tls_cert.empty()) {
    spdlog::info("SIGHUP: nothing to reload: neither --api-keys nor --tls-cert is given");
    return;
  }
  Status status = fresh.status();
  std::string line;
  if (status.ok()) {
    server::ServerOptions options;
    options.admin_key = flags.server.admin_key;
    const bool file = !flags.api_keys_file.empty();
    StatusOr<ApiKeys> keys = AllKeys(
        flags, file ? server::ParseApiKeys(flags.api_keys_file, fresh->api_keys) : ApiKeys());
    status = keys.status();
    if (status.ok()) {
      options.api_keys = *std::move(keys);
      line = ReloadedText(flags, options.api_keys.size(), *fresh);
      status = server->Reload(options, fresh->tls);
    }
  }
  if (status.ok()) {
    base::TryLog(fresh->exposed.empty() ? spdlog::level::info : spdlog::level::warn, "{}", line);
  } else {
    spdlog::error("SIGHUP: reload failed, nothing was changed: {}", status.message());
  }
}

}  // namespace

flags::FlagTable FrontTable(FrontFlags* flags) {
  return flags::Join({ServerRows(flags), LimitRows(&flags->server.limits), SecurityRows(flags)});
}

flags::FlagTable StateTable(SessionOptions* sessions) {
  return {
      {"Stored answers",
       {{"--state-path", flags::TextValue(&sessions->state_path, "DIR").Default("none: in memory"),
         "Directory for what survives a restart: answers and conversations that clients store"},
        {"--session-ttl", flags::DurationValue(&sessions->ttl, std::chrono::seconds(1)),
         "Time after which a stored answer, or a conversation without a turn, is removed"},
        {"--max-sessions", flags::IntValue(&sessions->max_stored, 1, 10000000),
         "Maximum number of stored answers and conversations, in a fair share for each tenant; "
         "more "
         "are rejected with 429"},
        {"--session-store-size", flags::SizeValue(&sessions->store_bytes, 1 << 20),
         "Maximum size of all that is stored, on disk; more is rejected with 429"},
        {"--session-fsync", flags::OnOffValue(&sessions->fsync),
         "Sync what is stored to the device before it counts as stored: then it survives a loss of "
         "power, not only the death of the process"}}}};
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
  if (Status status = http::CheckHttpOptions(options); !status.ok()) {
    const std::string field =
        status.field() == "trusted_proxies" ? "trusted_proxy" : status.field();
    std::string flag = "--" + field;
    std::ranges::replace(flag, '_', '-');
    return InvalidArgument(flag + ": " + status.message(), field);
  }
  options.limits.body.reject_unknown = flags.unknown_fields == "reject";
  // All choices of a request are admitted or none: more than may wait could never be admitted.
  options.limits.body.max_choices = std::min(options.limits.body.max_choices, max_queued_requests);
  const char* const variable = std::getenv(kApiKeyVariable);
  if (variable != nullptr && *variable == '\0' && flags.api_keys.empty() &&
      flags.api_keys_file.empty()) {
    // A missing secret must not open the server to all clients.
    return InvalidArgument(
        fmt::format("{} is set but empty: set it to a key, or unset it for a server without keys",
                    kApiKeyVariable),
        "api_key");
  }
  StatusOr<ApiKeys> keys = AllKeys(
      flags, flags.api_keys_file.empty() ? ApiKeys() : server::ReadApiKeys(flags.api_keys_file));
  if (!keys.ok()) return keys.status();
  options.api_keys = *std::move(keys);
  const Status usable = server::CheckApiKeys(options.api_keys, options.admin_key);
  if (!usable.ok()) return usable;
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
                 (engine.cache.events_address.empty() ? 0 : kEventDescriptors) +
                 StateDescriptors(engine.sessions);
  return behind;
}

int64_t StateDescriptors(const SessionOptions& sessions) {
  return sessions.state_path.empty() ? 0 : kStateDescriptors;
}

Status FitFront(int64_t descriptors, const DescriptorsBehind& behind,
                server::ServerOptions* options) {
  server::ServerLimits* const limits = &options->limits;
  const int64_t besides = http::MostOpen(*limits) - limits->max_connections + kOwnDescriptors +
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
      "and {} of them are for other things",
      limits->max_connections, most, descriptors, besides + std::min(most, behind.upstream));
  limits->max_connections = static_cast<int>(most);
  return {};
}

std::string Banner(const server::ServerOptions& options, uint16_t port, const std::string& what,
                   Asks asks) {
  const auto url = [&](const std::string& host) {
    const bool ipv6 = host.find(':') != std::string::npos;
    return fmt::format("{}://{}:{}", options.tls_cert.empty() ? "http" : "https",
                       ipv6 ? "[" + host + "]" : host, port);
  };
  // An address to listen on is none to connect to where it stands for all.
  const std::string host = options.host == "0.0.0.0" ? "127.0.0.1"
                           : options.host == "::"    ? "::1"
                                                     : options.host;
  const char* const key = options.api_keys.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  struct Example {
    const char* path;
    const char* body;
  };
  // By Asks.
  static constexpr std::array<Example, 3> kExamples = {{
      {"chat/completions",
       R"("messages": [{"role": "user", "content": "What is a ropeway?"}], "max_tokens": 100)"},
      {"completions", R"("prompt": "A ropeway is", "max_tokens": 100)"},
      {"embeddings", R"("input": "What is a ropeway?")"},
  }};
  const Example& example = kExamples[static_cast<size_t>(asks)];
  return fmt::format(
      "Ropeway {} serves {} on {}\nTry:\n"
      "  curl {}/v1/{}{} -H 'Content-Type: application/json' -d '{{{}}}'\n",
      ROPEWAY_VERSION, what, url(options.host), url(host), example.path, key, example.body);
}

namespace {

// Opens what --state-path names.
Status OpenState(const SessionOptions& sessions, Front* front) {
  if (sessions.state_path.empty()) return {};
  StatusOr<std::shared_ptr<store::StateWriter>> writer = store::OpenStateWriter(sessions);
  if (!writer.ok()) {
    const Status& why = writer.status();
    return {why.code(), "--state-path: " + why.message(), why.field()};
  }
  front->writer = *std::move(writer);
  StatusOr<std::unique_ptr<store::ObjectStore>> objects =
      store::ObjectStore::Open(sessions, front->writer.get());
  if (!objects.ok()) return objects.status();
  front->objects = *std::move(objects);
  front->options.objects = front->objects.get();
  return {};
}

}  // namespace

StatusOr<Front> PrepareFront(const FrontFlags& flags, int max_queued_requests,
                             const DescriptorsBehind& behind, const SessionOptions& sessions) {
  base::RaiseDescriptorLimit();
  StatusOr<server::ServerOptions> options = ResolveFront(flags, max_queued_requests);
  if (!options.ok()) return options.status();
  const Status fits = FitFront(base::DescriptorLimit(), behind, &*options);
  if (!fits.ok()) return fits;
  StatusOr<http::ServerPort> port = http::ServerPort::Open(*options);
  if (!port.ok()) return port.status();
  for (const std::string& file : SecretsOthersCanRead(flags)) {
    spdlog::warn(ExposedText(file));
  }
  Front front{*std::move(options), *std::move(port)};
  if (Status opened = OpenState(sessions, &front); !opened.ok()) return opened;
  return StatusOr<Front>(std::move(front));
}

StatusOr<int64_t> RunFront(const FrontFlags& flags, Front front, const std::string& what,
                           service::FrontDesk* backend, ServerSignals* signals) {
  const server::ServerOptions& options = front.options;
  server::ApiServer server(options, backend);
  signals->SetServing();
  if (Status status = server.Start(std::move(front.port)); !status.ok()) return status;
  WarnIfOpen(options);
  // A banner that cannot be written does not stop the server.
  const std::vector<service::ModelInfo> models = backend->Models();
  Asks asks = models.empty() || models.front().chats ? Asks::kChats : Asks::kTexts;
  if (!models.empty() && models.front().embeds_only) asks = Asks::kEmbeddings;
  base::Output().Write(Banner(options, server.port(), what, asks));
  // What reads owns its flags: where a disk hangs, it may outlive all that is here.
  signals->StartReloads([owned = std::make_shared<const FrontFlags>(flags), server = &server] {
    return [owned, server, fresh = ReadFreshFiles(*owned)] { Reload(*owned, fresh, server); };
  });

  const char* signal = signals->Wait();
  signals->EndReloads();
  spdlog::info("{}: no new requests are accepted; running requests may finish within {}", signal,
               flags::FormatDuration(flags.drain_timeout));
  server.StopAccepting();
  const Status drained = backend->Drain(flags.drain_timeout);
  if (!drained.ok()) spdlog::warn("{}", drained.message());
  server.Stop(kFlushTime);
  return server.answered();
}

int RunServer(const std::function<StatusOr<int64_t>(ServerSignals* signals)>& serve) {
  ServerSignals signals;
  base::LogQueue queue;
  const StatusOr<int64_t> answered = serve(&signals);
  if (const size_t lost = queue.lost(); lost > 0) {
    base::TryLog(spdlog::level::warn, "{} log lines were lost", lost);
  }
  if (answered.ok()) {
    base::TryLog(spdlog::level::info, kStopped, *answered);
  }
  if (!queue.End()) _exit(answered.ok() ? 0 : 1);  // Not even exit() ends without its reader.
  return answered.ok() ? 0 : base::Fail(answered.status());
}

}  // namespace ropeway::cli
