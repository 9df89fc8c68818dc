// API keys for tenants that a benchmark plays.
#ifndef ROPEWAY_CLI_TENANT_KEYS_H_
#define ROPEWAY_CLI_TENANT_KEYS_H_

#include <memory>
#include <string>
#include <vector>

#include "ropeway/status.h"

namespace ropeway {

// A file of random keys of tenants "client-0", "client-1", ..., which only this user can read; gone
// with the object.
class TenantKeys {
 public:
  static StatusOr<std::unique_ptr<TenantKeys>> Make(int count);
  ~TenantKeys();
  TenantKeys(const TenantKeys&) = delete;
  TenantKeys& operator=(const TenantKeys&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  TenantKeys() = default;

  std::string path_;
  std::vector<std::string> keys_;
};

}  // namespace ropeway

#endif  // ROPEWAY_CLI_TENANT_KEYS_H_
