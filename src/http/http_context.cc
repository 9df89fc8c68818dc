#include "http/http_context.h"

#include <fmt/format.h>

#include <random>
#include <utility>

namespace ropeway::http {
namespace {

// The default where it is wrong, with which the server does not start.
template <typename T>
T OrDefault(StatusOr<T> parsed) {
  return parsed.ok() ? *std::move(parsed) : T();
}

// Only for names, so neither seeded nor simulated: two runs must differ.
std::string RandomName() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

}  // namespace

Status CheckHttpOptions(const HttpOptions& options) {
  Status status = TrustedProxies::Parse(options.trusted_proxies).status();
  if (status.ok()) status = OriginRule::Parse(options.cors_origins).status();
  if (status.ok()) status = HostRule::Parse(options.host, options.allowed_hosts).status();
  return status;
}

HttpContext::HttpContext(const HttpOptions& options, const HttpLimits& limits, bool open,
                         std::vector<Route> routes, Route nothing,
                         const HttpApplication* application)
    : options(options),
      limits(limits),
      open(open),
      routes(std::move(routes), std::move(nothing)),
      application(application),
      proxies(OrDefault(TrustedProxies::Parse(options.trusted_proxies))),
      origins(OrDefault(OriginRule::Parse(options.cors_origins))),
      hosts(OrDefault(HostRule::Parse(options.host, options.allowed_hosts))),
      access_log(options.access_log ? std::make_unique<AccessLog>() : nullptr),
      connections(limits.max_connections),
      bodies(static_cast<int64_t>(limits.max_bodies_bytes)),
      answers(std::make_shared<base::SharedBudget>(static_cast<int64_t>(limits.max_answers_bytes))),
      run_(RandomName()) {}

std::string HttpContext::NewId() { return fmt::format("{}{:08x}", run_, ++count_); }

bool HttpContext::ChargeAnswer(const std::string& tenant, size_t bytes,
                               base::SharedBudget::Hold* hold) {
  if (bytes <= kFreeAnswerBytes || answers->Take(tenant, static_cast<int64_t>(bytes), hold)) {
    return true;
  }
  metrics.CountCutAnswer();
  return false;
}

}  // namespace ropeway::http
