#include "server/server_context.h"

#include <fmt/format.h>
#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <random>
#include <utility>

#include "base/process_metrics.h"
#include "server/http_reply.h"

namespace ropeway::server {
namespace {

// Only for names, so neither seeded nor simulated: two runs must differ.
std::string RandomName() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// Of a request that gives none.
SamplingParams SamplingOf(const engine::Backend& backend) {
  const std::vector<engine::ModelInfo> models = backend.Models();
  SamplingParams sampling = models.empty() ? SamplingParams() : models.front().sampling;
  sampling.given = SamplingParams::kNoneGiven;
  return sampling;
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
    : requests_(&prometheus::BuildCounter()
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
  ++answered_;
  if (tenant.empty()) return;
  const std::lock_guard lock(mutex_);
  ++tenant_requests_[tenant][code];
}

void ServerMetrics::ForgetTenants(const std::function<bool(const std::string&)>& remembered) {
  const std::lock_guard lock(mutex_);
  std::erase_if(tenant_requests_, [&](const auto& entry) { return !remembered(entry.first); });
}

prometheus::MetricFamily ServerMetrics::TenantRequests() const {
  prometheus::MetricFamily family;
  family.name = "ropeway_tenant_http_requests_total";
  family.help = "HTTP requests of a tenant by status code; 499: the client left.";
  family.type = prometheus::MetricType::Counter;
  const std::lock_guard lock(mutex_);
  for (const auto& [tenant, codes] : tenant_requests_) {
    for (const auto& [code, count] : codes) {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label = {{"code", std::to_string(code)}, {"tenant", tenant}};
      metric.counter.value = static_cast<double>(count);
    }
  }
  return family;
}

std::string ServerMetrics::TenantText(const std::vector<KeyUsage>& usage,
                                      const std::string& tenant) const {
  std::vector<prometheus::MetricFamily> families = {TenantRequests()};
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
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  std::ranges::move(base::ProcessMetrics(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

ServerContext::ServerContext(const ServerOptions& options, engine::Backend* backend,
                             const RoutesMaker& routes)
    : options(WithoutKeys(options)),
      routes(routes(this), NoRoute(this)),
      access(options.api_keys, options.admin_key),
      open(options.api_keys.empty()),
      backend(backend),
      sampling(SamplingOf(*backend)),
      proxies(ProxiesOf(options)),
      key_limits(options.api_keys, std::make_shared<base::RealClock>()),
      access_log(options.access_log ? std::make_unique<AccessLog>() : nullptr),
      connections(options.limits.max_connections),
      bodies(static_cast<int64_t>(options.limits.max_bodies_bytes)),
      answers(std::make_shared<base::SharedBudget>(
          static_cast<int64_t>(options.limits.max_answers_bytes))),
      run_(RandomName()),
      // One tenant alone gets half of the places.
      helpers_(std::max(1, options.limits.helper_threads),
               2 * int64_t{std::max(1, options.limits.max_helper_jobs)}, "ropeway-helper") {}

bool ServerContext::ChargeAnswer(const std::string& tenant, size_t bytes,
                                 base::SharedBudget::Hold* hold) {
  if (bytes <= kFreeAnswerBytes || answers->Take(tenant, static_cast<int64_t>(bytes), hold)) {
    return true;
  }
  metrics.CountCutAnswer();
  return false;
}

std::string ServerContext::NewId() { return fmt::format("{}{:08x}", run_, ++count_); }

// Work on its way through the helpers. What takes longer than kPiecesInTurn gives way to what may
// be shorter.
class ServerContext::HelperJob {
 public:
  HelperJob(HelperWork work, const std::shared_ptr<SocketStream>& stream)
      : work_(std::move(work)), stream_(stream) {}

  // Does the next piece. On a helper thread.
  base::PieceEnd Run() noexcept {
    const std::lock_guard lock(mutex_);
    try {
      if (work_ && !left_) {
        std::optional<StatusOr<std::string>> ended = work_();
        // Nobody waits for it any more: what it holds is freed now, not in its next turn.
        if (!ended && !left_) {
          return ++pieces_ > kPiecesInTurn ? base::PieceEnd::GivingWay() : false;
        }
        if (ended) result_ = *std::move(ended);
      }
    } catch (...) {
      try {
        result_ = StatusFromException();
      } catch (...) {
        // `result_` says that there is no memory.
      }
    }
    work_ = nullptr;
    return true;
  }

  // The job is over, also if it was dropped unrun. Wakes the coroutine if it may wait.
  void SetDone() {
    done_ = true;
    if (!awaited_) return;
    if (const std::shared_ptr<SocketStream> alive = stream_.lock()) alive->PostSignal();
  }

  // The rest is the coroutine's.

  // Before it waits: what was never queued wakes nobody, so that who waits for a place does so.
  void Await() { awaited_ = true; }
  // To be looked at after Await: one of the two sees the other.
  bool done() const { return done_; }
  // REQUIRES: done().
  StatusOr<std::string> TakeResult() { return std::move(result_); }
  // Nobody waits for it any more: what it holds is freed now, or after the piece that runs.
  void Abandon() {
    left_ = true;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) work_ = nullptr;
  }

 private:
  static constexpr int kPiecesInTurn = 16;

  std::mutex mutex_;
  int pieces_ = 0;   // Guarded by mutex_.
  HelperWork work_;  // Likewise; null once it is done or nobody waits for it.
  const std::weak_ptr<SocketStream> stream_;
  std::atomic<bool> awaited_{false};
  std::atomic<bool> left_{false};
  StatusOr<std::string> result_ =
      Status(StatusCode::kUnavailable, "The server has too little memory left for this request.");
  std::atomic<bool> done_{false};
};

boost::asio::awaitable<StatusOr<std::string>> ServerContext::RunOnHelper(
    base::Flow flow, std::shared_ptr<SocketStream> stream, HelperWork work) {
  auto job = std::make_shared<HelperJob>(std::move(work), stream);
  // The pool destroys the job's function when the job is over and its place is free.
  std::shared_ptr<void> over(nullptr, [job](void*) { job->SetDone(); });
  std::function<base::PieceEnd()> piece = [job, over = std::move(over)] { return job->Run(); };
  if (!helpers_.TryAdd(flow, std::move(piece))) {
    co_return Status(StatusCode::kResourceExhausted,
                     "This client has too many large requests to read or to tokenize.");
  }
  job->Await();
  while (!job->done() && !stream->gone()) co_await stream->Wait(SocketStream::Deadline::max());
  if (!job->done()) {
    job->Abandon();
    co_return Status(StatusCode::kCancelled, "The client left.");
  }
  co_return job->TakeResult();
}

}  // namespace ropeway::server
