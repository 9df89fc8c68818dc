#include "cli/gateway.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/words.h"
#include "engine/open_engine.h"
#include "gateway/gateway.h"
#include "http/client_address.h"
#include "net/base_url.h"
#include "service/front_desk.h"
#include "store/session_store.h"

namespace ropeway::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeastTime(1);
constexpr int kMostAtOnce = 100'000;
// Connections to one backend for questions about its state, in addition to the requests'.
constexpr int64_t kProbeConnections = 5;
// Descriptors for the event loop of backends, resolving names, and pipes between threads.
constexpr int64_t kGatewayDescriptors = 32;

flags::FlagTable BackendRows(GatewayFlags* flags) {
  GatewayOptions& options = flags->options;
  return {
      {"Backends",
       {{"--backend", BackendsValue(&flags->backends),
         "Backend that computes answers: http://HOST:PORT, or local:MODEL for an engine in this "
         "process. Options follow, separated by commas: kind=openai|llamacpp|ollama|ropeway "
         "(openai), model=NAME (what "
         "clients call its model; backends of one model are replicas), alias=NAME (may be "
         "repeated), upstream=NAME (what the backend calls it), weight=X (1), max-concurrency=N, "
         "min-concurrency=N (1), key-env=VARIABLE (with the backend's key), name=NAME (in logs and "
         "metrics), insecure=true (https without verification)"},
        {"--strict", flags::SwitchValue(&options.strict),
         "Reject requests with a parameter that the model's backends do not know; without this "
         "flag the parameter is left out"},
        {"--hold-timeout", flags::DurationValue(&options.failover.hold_timeout),
         "How long requests wait while no backend is up; 0: they get 503 at once"},
        {"--backend-idle-timeout", flags::DurationValue(&options.failover.idle_timeout),
         "Silence within an answer after which a backend counts as hung; 0: never"},
        {"--backend-first-byte-timeout", flags::DurationValue(&options.failover.first_byte_timeout),
         "Silence before an answer's first output, while the prompt is computed, after which a "
         "backend counts as hung; 0: never"},
        {"--backend-connect-timeout", flags::DurationValue(&options.connect_timeout, kLeastTime),
         "Time to connect to a backend, including the TLS handshake"},
        {"--probe-interval", flags::DurationValue(&options.probe_interval, kLeastTime),
         "Time between two checks of a backend's health and places"},
        {"--max-retries", flags::IntValue(&options.failover.max_retries, 0, 100),
         "How many times a request is sent again, to another backend if possible, as long as none "
         "of its answer has reached the client"},
        {"--max-resumptions", flags::IntValue(&options.failover.max_resumptions, 0, 100),
         "How many times a stream that lost its Ropeway backend continues on another one"}}}};
}

flags::FlagTable DispatchRows(GatewayFlags* flags) {
  GatewayOptions& options = flags->options;
  return {
      {"Dispatch",
       {{"--dispatch", flags::ChoiceValue(&options.batching.dispatch, {"continuous", "batch"}),
         "When requests are sent: continuous (as backends have free places) or batch (together)"},
        {"--enable-batching", flags::OnOffValue(&options.batching.enable_batching),
         "off: strictly one request at a time"},
        {"--max-batch-size", flags::IntValue(&options.batching.max_batch_size, 1, 4096),
         "batch: number of requests that are sent together"},
        {"--max-batch-wait", flags::DurationValue(&options.batching.max_batch_wait),
         "batch: maximum wait of the oldest request; then a smaller batch is sent"},
        {"--max-parallel-batches", flags::IntValue(&options.batching.max_parallel_batches, 1, 4096),
         "batch: maximum number of batches under way at once"},
        {"--batch-control", flags::ChoiceValue(&options.batch_control, {"aimd", "memory"}),
         "How many requests a backend gets at once if it does not report its places: aimd "
         "(learned from failures and times to the first token) or memory (16, or 4 if it reports "
         "little free KV memory)"},
        {"--max-concurrency", flags::IntValue(&options.max_learned_concurrency, 1, kMostAtOnce),
         "Maximum number of requests that a backend gets at once if it has no max-concurrency of "
         "its own"}}}};
}

flags::FlagTable QueueRows(GatewayFlags* flags) {
  const flags::FlagTable requests = {
      {"Scheduling",
       {{"--strict-priority", flags::SwitchValue(&flags->options.queue.strict_priority),
         "Ignore --class-shares: a higher class always goes first"},
        {"--max-queued-requests",
         flags::IntValue(&flags->options.queue.max_queued_requests, 1, 1000000),
         "Maximum waiting requests of one tenant (API key); more are rejected with 429"},
        {"--request-timeout", flags::DurationValue(&flags->options.request_timeout),
         "Maximum time of a request, even if it asks for more; after that it fails; 0: no "
         "limit"}}}};
  return flags::Join({QueueTable(&flags->options.queue), requests});
}

// The flags of `serve`, under one heading.
flags::FlagTable LocalRows(EngineFlags* flags) {
  flags::FlagTable table = EngineSetupTable(flags);
  for (flags::FlagGroup& group : table) group.name = "Engines of local:MODEL";
  return table;
}

// The model that the backend serves, made where it is the first of its replicas.
GatewayModel* ModelOf(const BackendFlag& backend, std::vector<GatewayModel>* models) {
  const auto known = std::find_if(models->begin(), models->end(), [&](const GatewayModel& model) {
    return model.name == backend.model;
  });
  if (known != models->end()) return &*known;
  models->emplace_back().name = backend.model;
  return &models->back();
}

// What makes keys and answers readable to others on the way.
void WarnIfExposed(const BackendFlag& backend) {
  if (backend.local) return;
  if (backend.insecure) {
    spdlog::warn("the certificate of the backend '{}' is not verified", backend.name);
  }
  const StatusOr<net::BaseUrl> url = net::ParseBaseUrl(backend.where);
  if (url.ok() && !url->tls && !backend.key_variable.empty() && !http::IsLoopbackHost(url->host)) {
    spdlog::warn("the key of the backend '{}' is sent to it in clear text: use https",
                 backend.name);
  }
}

// What is wrong with a backend's own device, said of the backend.
Status OfBackend(const BackendFlag& flag, const Status& status) {
  constexpr std::string_view kFlag = "--device: ";
  if (flag.device.empty() || !status.message().starts_with(kFlag)) return status;
  return Status(status.code(),
                fmt::format("--backend: 'local:{}': device: {}", flag.where,
                            status.message().substr(kFlag.size())),
                "backend");
}

// Loads the engines of this process, each into the backend that stands for it. Returns the engine
// of the first model, or null if it has none here.
StatusOr<const service::FrontDesk*> OpenLocalBackends(const GatewayFlags& flags,
                                                      GatewayOptions* options) {
  const service::FrontDesk* of_first = nullptr;
  for (GatewayModel& model : options->models) {
    for (BackendOptions& backend : model.backends) {
      const auto flag =
          std::find_if(flags.backends.begin(), flags.backends.end(),
                       [&](const BackendFlag& one) { return one.name == backend.name; });
      if (flag == flags.backends.end() || !flag->local) continue;
      EngineFlags engine = flags.engine;
      engine.model = flag->where;
      StatusOr<EngineOptions> engine_options = ResolveEngine(engine);
      if (!engine_options.ok()) return engine_options.status();
      engine_options->model.served_name = flag->model;
      if (!flag->device.empty()) engine_options->device = flag->device;
      auto opened = engine::OpenLocalEngine(*std::move(engine_options));
      if (!opened.ok()) return OfBackend(*flag, opened.status());
      const bool is_first = &model == &options->models.front();
      if (is_first && of_first == nullptr) of_first = opened->get();
      backend.backend = *std::move(opened);
    }
  }
  return of_first;
}

// What the banner says is served: the first names of its models.
std::string ServedText(const GatewayFlags& flags, const service::FrontDesk& gateway) {
  constexpr size_t kMostNames = 5;
  std::vector<std::string> names;
  for (const service::ModelInfo& model : gateway.Models()) names.push_back(model.id);
  if (names.size() > kMostNames) {
    names.resize(kMostNames);
    names.emplace_back("...");
  }
  const size_t backends = flags.backends.size();
  return fmt::format("{} of {}", fmt::join(names, ", "), base::Counted(backends, "backend"));
}

// Tenants that these keys stand for; a gateway's for any number of them.
int TenantsOf(const std::vector<server::ApiKey>& keys) {
  const bool any =
      std::any_of(keys.begin(), keys.end(), [](const auto& key) { return key.gateway; });
  return any ? std::numeric_limits<int>::max() : std::max(1, static_cast<int>(keys.size()));
}

StatusOr<int64_t> RunGateway(GatewayFlags* flags, ServerSignals* signals) {
  ApplyLog(flags->engine.log);
  StatusOr<GatewayOptions> options = ResolveGateway(flags);
  if (!options.ok()) return options.status();
  DescriptorsBehind behind = GatewayDescriptors(*options);
  for (const BackendFlag& backend : flags->backends) {
    if (backend.local) behind.fixed += EngineDescriptors(flags->engine.options).fixed;
    WarnIfExposed(backend);
  }
  StatusOr<Front> front =
      PrepareFront(*flags, flags->options.queue.max_queued_requests, behind, options->sessions);
  if (!front.ok()) return front.status();
  options->tenants = TenantsOf(front->options.api_keys);
  // Sessions are the library's; HTTP's conversations are objects of the front.
  options->sessions.state_path.clear();
  auto sessions = store::OpenSessionStore(options->sessions);
  if (!sessions.ok()) return sessions.status();
  const StatusOr<const service::FrontDesk*> tokens = OpenLocalBackends(*flags, &*options);
  if (!tokens.ok()) return tokens.status();
  const base::RealClock clock;
  base::SystemRandom random;
  auto gateway = gateway::OpenGateway(*options, &clock, &random, *tokens, *std::move(sessions));
  if (!gateway.ok()) return gateway.status();
  return RunFront(*flags, *std::move(front), ServedText(*flags, **gateway), gateway->get(),
                  signals);
}

}  // namespace

flags::Command GatewayCommand(GatewayFlags* flags) {
  return {
      "gateway",
      "Queue, schedule and route requests to the servers of other engines",
      flags::Join({BackendRows(flags), DispatchRows(flags), QueueRows(flags),
                   StateTable(&flags->options.sessions), FrontTable(flags),
                   LocalRows(&flags->engine), LogTable(&flags->engine.log)}),
      "Example:\n  ropeway gateway --port 9000 --backend http://127.0.0.1:8080,kind=llamacpp",
      [flags] {
        return RunServer([flags](ServerSignals* signals) { return RunGateway(flags, signals); });
      },
      {},
      {"--backend",
       "--strict",
       "--hold-timeout",
       "--backend-first-byte-timeout",
       "--max-retries",
       "--dispatch",
       "--batch-control",
       "--max-concurrency",
       "--policy",
       "--max-wait",
       "--max-queued-requests",
       "--request-timeout",
       "--log-level",
       "--host",
       "--port",
       "--api-key",
       "--api-keys",
       "--admin-key",
       "--tls-cert",
       "--tls-key"}};
}

StatusOr<GatewayOptions> ResolveGateway(GatewayFlags* flags) {
  if (Status status = ResolveBackends(&flags->backends); !status.ok()) return status;
  GatewayOptions options = flags->options;
  for (const BackendFlag& flag : flags->backends) {
    GatewayModel* const model = ModelOf(flag, &options.models);
    for (const std::string& alias : flag.aliases) {
      const auto end = model->aliases.end();
      if (std::find(model->aliases.begin(), end, alias) == end) model->aliases.push_back(alias);
    }
    BackendOptions& backend = model->backends.emplace_back();
    backend.name = flag.name;
    backend.weight = flag.weight;
    backend.max_concurrency = flag.max_concurrency;
    backend.min_concurrency = flag.min_concurrency;
    if (flag.local) continue;  // OpenLocalBackends.
    StatusOr<std::string> key = BackendKey(flag);
    if (!key.ok()) return key.status();
    backend.url = flag.where;
    backend.kind = api::BackendKindName(flag.kind);
    backend.upstream_model = flag.upstream_model;
    backend.api_key = *std::move(key);
    backend.insecure = flag.insecure;
  }
  return options;
}

DescriptorsBehind GatewayDescriptors(const GatewayOptions& options) {
  DescriptorsBehind behind;
  behind.fixed = kGatewayDescriptors + StateDescriptors(options.sessions);
  for (const GatewayModel& model : options.models) {
    for (const BackendOptions& backend : model.backends) {
      if (backend.url.empty()) continue;
      behind.upstream +=
          kProbeConnections +
          (backend.max_concurrency > 0 ? backend.max_concurrency : options.max_learned_concurrency);
    }
  }
  return behind;
}

}  // namespace ropeway::cli
