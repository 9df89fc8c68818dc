#include "cli/serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "cli/models.h"
#include "engine/open_engine.h"
#include "http/client_address.h"

namespace ropeway::cli {
namespace {

// --served-model-name. Each name once.
flags::FlagValue NamesValue(std::vector<std::string>* names) {
  static constexpr size_t kMostNames = 16;
  static constexpr size_t kMostBytes = 256;
  flags::FlagValue value = flags::TextsValue(names, "NAME").Default("the file's name");
  value.set = [names](const std::vector<std::string>& texts) {
    names->clear();
    for (const std::string& text : texts) {
      if (text.empty() || text.size() > kMostBytes) {
        return InvalidArgument(
            fmt::format("expected names of 1 to {} bytes, not '{}'", kMostBytes, text));
      }
      if (std::ranges::find(*names, text) == names->end()) names->push_back(text);
    }
    if (names->size() <= kMostNames) return Status();
    return InvalidArgument(
        fmt::format("expected at most {} names, not {}", kMostNames, names->size()));
  };
  return value;
}

flags::FlagTable EngineRows(ServeFlags* flags) {
  EngineOptions& options = flags->engine.options;
  return {
      {"",
       {{"MODEL", flags::TextValue(&flags->model, "FILE").Words("models list --names"),
         "Model, as for --model; one that is not fetched yet is pulled after confirmation, or with "
         "--yes"}}},
      {"Model",
       {{"--served-model-name,--alias", NamesValue(&flags->names),
         "Name of the model in the API: answers use the first one, requests may use any of them"},
        {"--any-model", flags::ChoiceValue(&flags->any_model, {"on", "off", "auto"}),
         "Accept any model name in requests, except with a gateway's key; auto: on if --host is a "
         "loopback address and there are no keys"},
        {"--allow-pull", flags::SwitchValue(&flags->allow_pull),
         "Let POST /api/pull fetch models of the registry, with the admin key or, where there are "
         "no keys, from this machine; they are served by a later start"},
        {"--registry", flags::TextValue(&flags->registry, "FILE").Default("the built-in list"),
         "JSON list of models that --allow-pull lets requests pull (docs/models.md)"}}},
      {"Engine",
       {{"--max-queued-requests", flags::IntValue(&options.queue.max_queued_requests, 1, 1000000),
         "Maximum waiting requests of one tenant (API key); more are rejected with 429"},
        {"--frontend-threads", flags::IntValue(&options.frontend_threads, 1, 256),
         "Threads that apply chat templates and encode prompts"},
        {"--request-timeout", flags::DurationValue(&options.request_timeout),
         "Maximum time of a request, even if it asks for more; after that it fails; 0: no "
         "limit"}}}};
}

flags::FlagTable TraceRows(EngineOptions* options) {
  return {{"Other",
           {{"--trace-file", flags::TextValue(&options->trace_file, "FILE"),
             "Write a trace of what each step computed for which request, for Perfetto or "
             "chrome://tracing; at most 512 MiB, without texts"}}}};
}

// The flags with MODEL in place of --model.
StatusOr<EngineFlags> WithModel(const ServeFlags& flags) {
  EngineFlags engine = flags.engine;
  if (!flags.model.empty()) {
    if (engine.model != DefaultModelName()) {
      return InvalidArgument(
          fmt::format("the model is given twice: '{}' and --model {}", flags.model, engine.model));
    }
    engine.model = flags.model;
  }
  if (!flags.names.empty()) {
    engine.options.model.served_name = flags.names.front();
    engine.options.model.aliases.assign(flags.names.begin() + 1, flags.names.end());
  }
  return StatusOr<EngineFlags>(std::move(engine));
}

StatusOr<int64_t> Serve(const ServeFlags& flags, ServerSignals* signals) {
  ApplyLog(flags.engine.log);
  // Before the model is pulled, which takes longer than loading it.
  StatusOr<Front> front =
      PrepareFront(flags, flags.engine.options.queue.max_queued_requests,
                   EngineDescriptors(flags.engine.options), flags.engine.options.sessions);
  if (!front.ok()) return front.status();
  front->options.any_model = ServesAnyModel(flags.any_model, front->options);
  if (flags.allow_pull) {
    if (Status status = CheckAllowPull(front->options); !status.ok()) return status;
    StatusOr<server::PullModelFn> pull = PullerForRequests(flags.registry);
    if (!pull.ok()) return pull.status();
    front->options.pull_model = *std::move(pull);
  }
  const StatusOr<EngineFlags> with_model = WithModel(flags);
  if (!with_model.ok()) return with_model.status();
  StatusOr<EngineOptions> engine_options =
      ResolveEngine(*with_model, [&] { return OfferPull(with_model->model, flags.yes); });
  if (!engine_options.ok()) return engine_options.status();
  // A user that pulled the model by its short name asks for it by that name.
  const hub::RegistryModel* const known = KnownModel(engine_options->model.path);
  if (known != nullptr) front->options.other_names = {known->name};
  // A gateway asks which model this is, and an answer that a restart interrupted goes on with no
  // other one.
  engine_options->model.digest =
      front->objects != nullptr ||
      std::ranges::any_of(front->options.api_keys, [](const auto& key) { return key.gateway; });
  // Sessions are the library's; HTTP's conversations are objects of the front.
  engine_options->sessions.state_path.clear();

  const base::RealClock clock;
  base::SystemRandom random;
  auto engine = engine::OpenEngine(*engine_options, &clock, &random);
  if (!engine.ok()) return engine.status();
  return RunFront(flags, *std::move(front), (*engine)->Models().front().id, engine->get(), signals);
}

}  // namespace

flags::Command ServeCommand(ServeFlags* flags) {
  EngineOptions* const options = &flags->engine.options;
  return {"serve",
          "Serve a model over an OpenAI-compatible HTTP API",
          flags::Join({EngineTable(&flags->engine), YesTable(&flags->yes), EngineRows(flags),
                       SamplingTable({}, &options->model.sampling), BatchingTable(&flags->engine),
                       SchedulingTable(&flags->engine), StateTable(&options->sessions),
                       TraceRows(options), FrontTable(flags)}),
          "Example:\n  ropeway serve --port 9000 --kv-cache-size 1GiB --max-num-seqs 32",
          [flags] {
            return RunServer([flags](ServerSignals* signals) { return Serve(*flags, signals); });
          },
          {},
          {"--model",         "--served-model-name", "--chat-template",
           "--quantize",      "--max-model-len",     "--threads",
           "--kv-cache-size", "--kv-cache-dtype",    "--max-num-seqs",
           "--kv-disk-path",  "--temperature",       "--policy",
           "--max-wait",      "--log-level",         "--host",
           "--port",          "--api-key",           "--api-keys",
           "--tls-cert",      "--tls-key",           "--yes"}};
}

bool ServesAnyModel(const std::string& choice, const server::ServerOptions& options) {
  if (choice == "auto") return http::IsLoopbackHost(options.host) && options.api_keys.empty();
  return choice == "on";
}

Status CheckAllowPull(const server::ServerOptions& options) {
  const bool own = http::IsLoopbackHost(options.host) && options.trusted_proxies.empty();
  if (!options.admin_key.empty() || (own && options.api_keys.empty())) return {};
  return InvalidArgument(
      "--allow-pull needs --admin-key, unless --host is a loopback address and there are neither "
      "API keys nor a --trusted-proxy",
      "allow_pull");
}

StatusOr<server::ServerOptions> ResolveServer(const ServeFlags& flags) {
  return ResolveFront(flags, flags.engine.options.queue.max_queued_requests);
}

Status FitDescriptors(int64_t descriptors, const EngineOptions& engine,
                      server::ServerOptions* options) {
  return FitFront(descriptors, EngineDescriptors(engine), options);
}

}  // namespace ropeway::cli
