#include "cli/tenant_keys.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/random.h"

namespace ropeway {

StatusOr<std::unique_ptr<TenantKeys>> TenantKeys::Make(int count) {
  std::unique_ptr<TenantKeys> made(new TenantKeys);
  SystemRandom random;
  std::string text;
  for (int i = 0; i < count; ++i) {
    const uint64_t high = random.Next64();
    const uint64_t low = random.Next64();
    made->keys_.push_back(fmt::format("{:016x}{:016x}", high, low));
    text += fmt::format("[[keys]]\nname = \"client-{}\"\nkey = \"{}\"\n", i, made->keys_.back());
  }
  std::error_code error;
  made->path_ =
      (std::filesystem::temp_directory_path(error) / "ropeway-bench-keys-XXXXXX.toml").string();
  // For this user alone.
  const int fd = mkstemps(made->path_.data(), 5);
  const bool good =
      fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  if (fd < 0) made->path_.clear();
  if (!good) return Status(StatusCode::kUnavailable, "no file for API keys can be written");
  return made;
}

TenantKeys::~TenantKeys() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove(path_, ignored);
}

}  // namespace ropeway
