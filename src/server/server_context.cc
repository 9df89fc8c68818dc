#include "server/server_context.h"

#include <fmt/format.h>

#include <random>
#include <utility>

namespace ropeway {
namespace {

// Names only, so neither seeded nor simulated: two runs must differ.
std::string RandomName() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

}  // namespace

ServerContext::ServerContext(ServerOptions options, Backend* backend)
    : options(std::move(options)),
      backend(backend),
      bodies(this->options.limits.max_bodies_bytes),
      run_(RandomName()) {}

std::string ServerContext::NewId(const char* prefix) {
  return fmt::format("{}-{}{:08x}", prefix, run_, ++count_);
}

}  // namespace ropeway
