// What GatewayBackend tells about itself.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "api/api_format.h"
#include "gateway/gateway_backend.h"

namespace ropeway::gateway {
namespace {

// The gateway's thread calls backends and sinks, which may not block it.
constexpr std::chrono::seconds kStall(30);

// The means of two groups as one, by their numbers.
double MeanOf(double a, uint64_t num_a, double b, uint64_t num_b) {
  const uint64_t all = num_a + num_b;
  if (all == 0) return 0.0;
  return (a * static_cast<double>(num_a) + b * static_cast<double>(num_b)) /
         static_cast<double>(all);
}

// Adds a further model's statistics.
void AddStats(const EngineStats& more, EngineStats* stats) {
  stats->avg_batch_size =
      MeanOf(stats->avg_batch_size, stats->total_batches, more.avg_batch_size, more.total_batches);
  stats->avg_batch_duration_ms = MeanOf(stats->avg_batch_duration_ms, stats->total_batches,
                                        more.avg_batch_duration_ms, more.total_batches);
  stats->enabled = stats->enabled || more.enabled;
  stats->strategy = more.strategy;
  stats->max_batch_size = std::max(stats->max_batch_size, more.max_batch_size);
  stats->max_batch_wait_ms = more.max_batch_wait_ms;
  stats->total_batches += more.total_batches;
  stats->total_requests += more.total_requests;
  stats->queue_depth += more.queue_depth;
  stats->waiting += more.waiting;
  stats->preempted += more.preempted;
  stats->running += more.running;
}

void AddQueue(const service::QueueInfo& more, service::QueueInfo* queue) {
  for (size_t i = 0; i < queue->classes.size(); ++i) {
    service::QueueInfo::Class& its = queue->classes[i];
    its.waiting += more.classes[i].waiting;
    its.running += more.classes[i].running;
    its.wait_seconds = std::max(its.wait_seconds, more.classes[i].wait_seconds);
  }
  if (queue->blocked_by.empty()) queue->blocked_by = more.blocked_by;
}

void AddCounts(const DispatchCounts& more, DispatchCounts* counts) {
  counts->accepted += more.accepted;
  counts->rejected += more.rejected;
  counts->sent += more.sent;
  counts->retries += more.retries;
  counts->resumptions += more.resumptions;
  counts->retries_delayed += more.retries_delayed;
  counts->batches += more.batches;
  counts->batched += more.batched;
}

Status NoTokens() {
  Status status(StatusCode::kUnimplemented,
                "this gateway has no tokenizer, since its first model has no backend 'local:'; "
                "send the request to one of its backends");
  status.set_api_code(api::kNoTokenizer);
  return status;
}

}  // namespace

std::vector<service::ModelInfo> GatewayBackend::Models() const {
  return names_.List(config_.created);
}

bool GatewayBackend::MayServe(const std::string& model) const {
  return names_.Find(model).has_value();
}

service::Health GatewayBackend::GetHealth() const {
  service::Health health;
  const base::TimePoint since = busy_since_;
  const base::Duration busy = config_.clock->Now() - since;
  const std::lock_guard lock(mu_);
  if (since != base::TimePoint{} && busy > kStall) {
    health.live = health.ready = false;
    health.reason = fmt::format("a backend has blocked the dispatch of requests for {:.0f} s",
                                base::ToSeconds(busy));
  } else if (!requests_.CheckOpen().ok()) {
    health.ready = false;
    health.reason = "the gateway is stopping";
  } else if (const Dispatcher& first = *models_.front().dispatcher; !first.any_alive()) {
    health.ready = false;
    health.reason = first.WhyNoneIsAlive().message();
  }
  return health;
}

std::vector<BackendStatus> GatewayBackend::Backends() const {
  std::vector<BackendStatus> all;
  const std::lock_guard lock(mu_);
  const base::TimePoint now = config_.clock->Now();
  for (size_t m = 0; m < models_.size(); ++m) {
    const Model& model = models_[m];
    for (size_t r = 0; r < model.replicas.size(); ++r) {
      const ReplicaView view = model.dispatcher->ViewOf(static_cast<int>(r), now);
      all.push_back(model.replicas[r].Status(view));
      all.back().model = names_.OfReplica(m, r);
    }
  }
  return all;
}

std::string GatewayBackend::MetricsText() const {
  GatewaySample sample;
  sample.backends = Backends();
  sample.stats = Stats();
  sample.queue = Queue(nullptr, 1.0);
  sample.sessions = sessions_->stats();
  {
    const std::lock_guard lock(mu_);
    for (const Model& model : models_) AddCounts(model.dispatcher->counts(), &sample.counts);
  }
  return metrics_.Text(sample);
}

int GatewayBackend::RetryAfterSeconds(const std::string& tenant) const {
  const std::lock_guard lock(mu_);
  int seconds = 1;
  for (const Model& model : models_) {
    seconds = std::max(seconds, model.dispatcher->RetryAfterSeconds(tenant));
  }
  return seconds;
}

std::vector<service::RequestInfo> GatewayBackend::Requests() const {
  std::vector<service::RequestInfo> all;
  {
    const std::lock_guard lock(mu_);
    const base::TimePoint now = config_.clock->Now();
    for (const Model& model : models_) {
      std::vector<service::RequestInfo> its = model.dispatcher->Requests(now);
      for (service::RequestInfo& info : its) {
        if (info.replica < 0) continue;
        info.backend = model.replicas[static_cast<size_t>(info.replica)].name();
      }
      all.insert(all.end(), std::make_move_iterator(its.begin()),
                 std::make_move_iterator(its.end()));
    }
    ForEachReading([&](const ClientRequest& client) {
      all.push_back({.id = client.id,
                     .tenant = client.tenant(),
                     .state = client.state(),
                     .age_seconds = base::ToSeconds(now - client.arrival),
                     .priority = client.priority()});
    });
  }
  std::sort(
      all.begin(), all.end(),
      [](const service::RequestInfo& a, const service::RequestInfo& b) { return a.id < b.id; });
  return all;
}

service::QueueInfo GatewayBackend::Queue(const std::string* tenant, double weight) const {
  service::QueueInfo queue;
  const std::lock_guard lock(mu_);
  for (const Model& model : models_) AddQueue(model.dispatcher->Queue(tenant, weight), &queue);
  ForEachReading([&](const ClientRequest& client) {
    if (tenant != nullptr && client.tenant() != *tenant) return;
    ++queue.classes[static_cast<size_t>(client.priority())].waiting;
  });
  return queue;
}

service::Activity GatewayBackend::ActivityAfter(const service::ActivityCursor& cursor) const {
  return service::OrIfShort(service::Activity(), [&] {
    service::Activity activity;
    activity.now = config_.clock->Now();
    activity.ended = requests_.ended().After(cursor.ended);
    service::AddRecent(metrics_.requests.recent(), &activity);
    return activity;
  });
}

EngineStats GatewayBackend::Stats() const {
  EngineStats stats;
  const std::lock_guard lock(mu_);
  for (const Model& model : models_) AddStats(model.dispatcher->Stats(), &stats);
  ForEachReading([&](const ClientRequest&) {
    ++stats.waiting;
    ++stats.queue_depth;
  });
  return stats;
}

std::vector<SessionInfo> GatewayBackend::Sessions(const std::string& tenant) const {
  return service::OrIfShort(std::vector<SessionInfo>(), [&] { return sessions_->List(tenant); });
}

Status GatewayBackend::CloseSession(const std::string& id, const std::string& tenant) {
  return service::OrIfShort(base::OutOfMemory(), [&] { return sessions_->Close(tenant, id); });
}

StatusOr<std::unique_ptr<service::Tokenization>> GatewayBackend::Tokenize(std::string text,
                                                                          bool add_special) const {
  if (config_.tokens == nullptr) return NoTokens();
  return config_.tokens->Tokenize(std::move(text), add_special);
}

StatusOr<std::unique_ptr<service::Tokenization>> GatewayBackend::TokenizeChat(
    Chat chat, bool add_special) const {
  if (config_.tokens == nullptr) return NoTokens();
  return config_.tokens->TokenizeChat(std::move(chat), add_special);
}

StatusOr<std::string> GatewayBackend::Detokenize(const std::vector<TokenId>& ids) const {
  if (config_.tokens == nullptr) return NoTokens();
  return config_.tokens->Detokenize(ids);
}

StatusOr<service::TokenizerInfo> GatewayBackend::DescribeTokenizer() const {
  if (config_.tokens == nullptr) return NoTokens();
  return config_.tokens->DescribeTokenizer();
}

}  // namespace ropeway::gateway
