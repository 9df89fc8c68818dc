#include "http/http_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/metrics.h"

namespace ropeway::http {

HttpMetrics::HttpMetrics()
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
                        .Help("Answers not sent because the unread answers of their tenant take "
                              "too much memory.")
                        .Register(registry_)
                        .Add({})),
      rejected_connections_(&prometheus::BuildCounter()
                                 .Name("ropeway_http_rejected_connections_total")
                                 .Help("Connections rejected because too many were open.")
                                 .Register(registry_)
                                 .Add({})),
      evicted_connections_(&prometheus::BuildCounter()
                                .Name("ropeway_http_evicted_connections_total")
                                .Help("Connections closed to make room for newer ones.")
                                .Register(registry_)
                                .Add({})),
      connections_(&prometheus::BuildGauge()
                        .Name("ropeway_http_connections")
                        .Help("Open client connections.")
                        .Register(registry_)
                        .Add({})) {}

void HttpMetrics::CountRequest(std::string_view route, int code, const std::string& tenant) {
  requests_->Add({{"route", std::string(route)}, {"code", std::to_string(code)}}).Increment();
  ++answered_;
  if (tenant.empty()) return;
  const std::lock_guard lock(mutex_);
  ++tenant_requests_[tenant][code];
}

void HttpMetrics::ForgetTenants(const std::function<bool(const std::string&)>& remembered) {
  const std::lock_guard lock(mutex_);
  std::erase_if(tenant_requests_, [&](const auto& entry) { return !remembered(entry.first); });
}

prometheus::MetricFamily HttpMetrics::TenantRequests() const {
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

std::string HttpMetrics::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  std::ranges::move(base::ProcessMetrics(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace ropeway::http
