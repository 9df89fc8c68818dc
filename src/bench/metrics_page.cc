#include "bench/metrics_page.h"

#include <algorithm>
#include <charconv>

namespace ropeway {
namespace {

constexpr double kTimeout = 10;  // Seconds.

}  // namespace

std::optional<double> MetricSum(std::string_view page, std::string_view name,
                                std::string_view label) {
  std::optional<double> sum;
  while (!page.empty()) {
    const std::string_view line = page.substr(0, page.find('\n'));
    page.remove_prefix(std::min(page.size(), line.size() + 1));
    if (!line.starts_with(name)) continue;
    const std::string_view rest = line.substr(name.size());
    if (!rest.starts_with('{') && !rest.starts_with(' ')) continue;
    const size_t space = rest.rfind(' ');
    if (rest.substr(0, space).find(label) == std::string_view::npos) continue;
    double value = 0;
    const char* const end = rest.data() + rest.size();
    if (std::from_chars(rest.data() + space + 1, end, value).ec != std::errc()) continue;
    sum = sum.value_or(0) + value;
  }
  return sum;
}

std::string MetricLabel(std::string_view page, std::string_view name, std::string_view label) {
  while (!page.empty()) {
    const std::string_view line = page.substr(0, page.find('\n'));
    page.remove_prefix(std::min(page.size(), line.size() + 1));
    if (!line.starts_with(name) || !line.substr(name.size()).starts_with('{')) continue;
    const std::string key = std::string(label) + "=\"";
    const size_t begin = line.find(key, name.size());
    if (begin == std::string_view::npos) return "";
    const std::string_view value = line.substr(begin + key.size());
    return std::string(value.substr(0, value.find('"')));
  }
  return "";
}

std::string FetchMetrics(const BaseUrl& url, const std::string& api_key, bool insecure) {
  BaseUrl root = url;
  root.path.clear();
  const auto client = HttpClient::Open(root, api_key, insecure);
  if (!client.ok()) return "";
  const HttpClient::Reply reply = (*client)->Fetch("/metrics", "", kTimeout);
  return reply.status == 200 ? reply.body : "";
}

}  // namespace ropeway
