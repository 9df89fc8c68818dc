#include "server/server_context.h"

#include <fmt/format.h>
#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <random>
#include <utility>

#include "server/http_reply.h"

namespace ropeway::server {
namespace {

// Only for names, so neither seeded nor simulated: two runs must differ.
std::string RandomName() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// A family with one series for each tenant.
prometheus::MetricFamily TenantFamily(const char* name, const char* help,
                                      const std::vector<KeyUsage>& usage,
                                      int64_t KeyUsage::*number) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = prometheus::MetricType::Counter;
  for (const KeyUsage& key : usage) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"tenant", key.name}};
    metric.counter.value = metric.gauge.value = static_cast<double>(key.*number);
  }
  return family;
}

std::string TenantOf(const prometheus::ClientMetric& metric) {
  for (const prometheus::ClientMetric::Label& label : metric.label) {
    if (label.name == "tenant") return label.value;
  }
  return {};
}

// None where they are wrong, with which the server does not start.
TrustedProxies ProxiesOf(const ServerOptions& options) {
  StatusOr<TrustedProxies> proxies = TrustedProxies::Parse(options.trusted_proxies);
  return proxies.ok() ? *std::move(proxies) : TrustedProxies();
}

ServerOptions WithoutKeys(ServerOptions options) {
  options.api_keys.clear();
  options.admin_key.clear();
  return options;
}

}  // namespace

ServerMetrics::ServerMetrics()
    : tenant_requests_(&prometheus::BuildCounter()
                            .Name("ropeway_tenant_http_requests_total")
                            .Help("HTTP requests of a tenant by status code; 499: the client left.")
                            .Register(tenant_registry_)),
      requests_(&prometheus::BuildCounter()
                     .Name("ropeway_http_requests_total")
                     .Help("HTTP requests by route and status code; 499: the client left.")
                     .Register(registry_)),
      slow_readers_(&prometheus::BuildCounter()
                         .Name("ropeway_http_slow_readers_total")
                         .Help("Connections closed because their client read too slowly.")
                         .Register(registry_)
                         .Add({})),
      cut_answers_(&prometheus::BuildCounter()
                        .Name("ropeway_http_cut_answers_total")
                        .Help("Answers not sent because those of their tenant that were not read "
                              "yet take too much memory.")
                        .Register(registry_)
                        .Add({})),
      rejected_connections_(&prometheus::BuildCounter()
                                 .Name("ropeway_http_rejected_connections_total")
                                 .Help("Connections rejected because there was no place for them.")
                                 .Register(registry_)
                                 .Add({})),
      evicted_connections_(&prometheus::BuildCounter()
                                .Name("ropeway_http_evicted_connections_total")
                                .Help("Connections closed to give their place to newer ones.")
                                .Register(registry_)
                                .Add({})),
      connections_(&prometheus::BuildGauge()
                        .Name("ropeway_http_connections")
                        .Help("Open client connections.")
                        .Register(registry_)
                        .Add({})) {}

void ServerMetrics::CountRequest(std::string_view route, int code, const std::string& tenant) {
  requests_->Add({{"route", std::string(route)}, {"code", std::to_string(code)}}).Increment();
  if (tenant.empty()) return;
  tenant_requests_->Add({{"tenant", tenant}, {"code", std::to_string(code)}}).Increment();
}

std::string ServerMetrics::TenantText(const std::vector<KeyUsage>& usage,
                                      const std::string& tenant) const {
  std::vector<prometheus::MetricFamily> families = tenant_registry_.Collect();
  families.push_back(TenantFamily("ropeway_tenant_prompt_tokens_total",
                                  "Prompt tokens of a tenant.", usage, &KeyUsage::prompt_tokens));
  families.push_back(TenantFamily("ropeway_tenant_generation_tokens_total",
                                  "Tokens generated for a tenant.", usage,
                                  &KeyUsage::generated_tokens));
  families.push_back(TenantFamily("ropeway_tenant_requests_unfinished",
                                  "Requests of a tenant under way; each choice is one.", usage,
                                  &KeyUsage::requests));
  families.back().type = prometheus::MetricType::Gauge;
  std::vector<prometheus::MetricFamily> shown;
  for (prometheus::MetricFamily& family : families) {
    std::erase_if(family.metric, [&](const prometheus::ClientMetric& metric) {
      return !tenant.empty() && TenantOf(metric) != tenant;
    });
    if (!family.metric.empty()) shown.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(shown);
}

std::string ServerMetrics::Text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

ServerContext::ServerContext(const ServerOptions& options, engine::Backend* backend,
                             std::vector<ApiEndpoint> endpoints)
    : options(WithoutKeys(options)),
      router(std::move(endpoints)),
      access(options.api_keys, options.admin_key),
      open(options.api_keys.empty()),
      backend(backend),
      proxies(ProxiesOf(options)),
      key_limits(options.api_keys, std::make_shared<base::RealClock>()),
      connections(options.limits.max_connections),
      bodies(static_cast<int64_t>(options.limits.max_bodies_bytes)),
      answers(std::make_shared<base::SharedBudget>(
          static_cast<int64_t>(options.limits.max_answers_bytes))),
      run_(RandomName()),
      helpers_(std::max(1, options.limits.helper_threads),
               static_cast<size_t>(std::max(1, options.limits.max_helper_jobs)), "ropeway-helper") {
}

bool ServerContext::ChargeAnswer(const std::string& tenant, size_t bytes,
                                 base::SharedBudget::Hold* hold) {
  if (bytes <= kFreeAnswerBytes || answers->Take(tenant, static_cast<int64_t>(bytes), hold)) {
    return true;
  }
  metrics.CountCutAnswer();
  return false;
}

std::string ServerContext::NewId() { return fmt::format("{}{:08x}", run_, ++count_); }

// Work on its way through the helpers.
struct ServerContext::HelperJob {
  explicit HelperJob(std::function<StatusOr<std::string>()> work) : work(std::move(work)) {}

  void Run() noexcept {
    try {
      result = work();
    } catch (...) {
      try {
        result = StatusFromException();
      } catch (...) {
        // `result` says that there is no memory.
      }
    }
    work = nullptr;  // What it owns belongs to the connection's thread.
    done = true;
  }

  std::function<StatusOr<std::string>()> work;
  StatusOr<std::string> result =
      Status(StatusCode::kUnavailable, "The server has too little memory left for this request.");
  std::atomic<bool> done{false};
};

boost::asio::awaitable<StatusOr<std::string>> ServerContext::RunOnHelper(
    std::shared_ptr<SocketStream> stream, std::function<StatusOr<std::string>()> work) {
  const CountScope jobs(&helper_jobs_);
  auto job = std::make_shared<HelperJob>(std::move(work));
  std::function<void()> run = [job, stream] {
    job->Run();
    stream->PostSignal();
  };
  if (jobs.value() > limits().max_helper_jobs || !helpers_.TryAdd(std::move(run))) {
    co_return Status(StatusCode::kResourceExhausted,
                     "The server has too many large requests to read or to tokenize.");
  }
  while (!job->done) co_await stream->Wait(SocketStream::Deadline::max());
  co_return std::move(job->result);
}

}  // namespace ropeway::server
