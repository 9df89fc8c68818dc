#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <utility>

#include "server/handlers.h"

namespace ropeway::server {
namespace {

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

}  // namespace

std::string TenantText(const http::HttpMetrics& metrics, const std::vector<KeyUsage>& usage,
                       const std::string& tenant) {
  std::vector<prometheus::MetricFamily> families = {metrics.TenantRequests()};
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

}  // namespace ropeway::server
