#include "cli/serve_command.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/system.h"
#include "cli/end_signals.h"
#include "cli/output.h"
#include "engine/open_engine.h"
#include "flags/units.h"
#include "server/http_server.h"

namespace ropeway {
namespace {

// For what is left in the connections' buffers when all requests have ended.
constexpr std::chrono::seconds kLastWords(2);

void WarnIfOpen(const ServerOptions& options) {
  if (IsLoopback(options.host) || !options.api_keys.empty()) return;
  spdlog::warn(
      "{} can be reached from other machines, and without --api-key or --api-keys anybody "
      "may use it",
      options.host);
}

std::string Banner(const ServerOptions& options, uint16_t port, const std::string& model) {
  const bool ipv6 = options.host.find(':') != std::string::npos;
  const std::string url = fmt::format("{}://{}:{}", options.tls_cert.empty() ? "http" : "https",
                                      ipv6 ? "[" + options.host + "]" : options.host, port);
  const char* key = options.api_keys.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  return fmt::format(
      "Ropeway {} serves {} on {}\nTry:\n"
      "  curl {}/v1/chat/completions{} -H 'Content-Type: application/json' -d "
      "'{{\"messages\": [{{\"role\": \"user\", \"content\": \"What is a ropeway?\"}}], "
      "\"max_tokens\": 100}}'\n",
      ROPEWAY_VERSION, model, url, url, key);
}

}  // namespace

int RunServe(const ServeFlags& flags) {
  EndSignals end;
  RaiseDescriptorLimit();
  StatusOr<EngineOptions> engine_options = ResolveEngine(flags.engine);
  if (!engine_options.ok()) return Fail(engine_options.status());
  StatusOr<ServerOptions> options = ResolveServer(flags);
  if (!options.ok()) return Fail(options.status());
  for (const std::string& file : SecretsOthersCanRead(flags)) {
    spdlog::warn("all users of this machine can read the keys in {}: chmod 600 it", file);
  }

  const RealClock clock;
  SystemRandom random;
  auto engine = OpenEngine(*engine_options, &clock, &random);
  if (!engine.ok()) return Fail(engine.status());
  HttpServer server(*options, engine->get());
  end.SetServing();
  if (Status status = server.Start(); !status.ok()) return Fail(status);
  WarnIfOpen(*options);
  // A server does its work also where nobody reads its banner.
  Output().Write(Banner(*options, server.port(), (*engine)->Models().front().id));

  const char* signal = end.Wait();
  spdlog::info("{}: no new requests; what runs may finish within {}", signal,
               FormatDuration(flags.drain_timeout));
  server.StopAccepting();
  const Status drained = (*engine)->Drain(flags.drain_timeout);
  if (!drained.ok()) spdlog::warn("{}", drained.message());
  server.Stop(kLastWords);
  return 0;
}

}  // namespace ropeway
