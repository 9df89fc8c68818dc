#include "server/server_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

namespace ropeway {
namespace {

// Names only, so neither seeded nor simulated: two runs must differ.
std::string RandomName() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

ServerOptions WithoutKeys(ServerOptions options) {
  options.api_keys.clear();
  options.admin_key.clear();
  return options;
}

}  // namespace

ServerContext::ServerContext(const ServerOptions& options, Backend* backend)
    : options(WithoutKeys(options)),
      access(options.api_keys, options.admin_key),
      backend(backend),
      key_limits(options.api_keys, std::make_shared<RealClock>()),
      bodies(options.limits.max_bodies_bytes),
      helpers(std::max(1, this->options.limits.helper_threads),
              this->options.limits.max_helper_jobs),
      run_(RandomName()) {}

std::string ServerContext::NewId(const char* prefix) {
  return fmt::format("{}-{}{:08x}", prefix, run_, ++count_);
}

}  // namespace ropeway
