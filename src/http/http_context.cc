#include "http/http_context.h"

#include <fmt/format.h>

#include <random>
#include <utility>

namespace ropeway::http {
namespace {

// None where they are wrong, with which the server does not start.
TrustedProxies ProxiesOf(const HttpOptions& options) {
  StatusOr<TrustedProxies> proxies = TrustedProxies::Parse(options.trusted_proxies);
  return proxies.ok() ? *std::move(proxies) : TrustedProxies();
}

// Only for names, so neither seeded nor simulated: two runs must differ.
std::string RandomName() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

}  // namespace

HttpContext::HttpContext(const HttpOptions& options, const HttpLimits& limits, bool open,
                         std::vector<Route> routes, Route nothing,
                         const HttpApplication* application)
    : options(options),
      limits(limits),
      open(open),
      routes(std::move(routes), std::move(nothing)),
      application(application),
      proxies(ProxiesOf(options)),
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
