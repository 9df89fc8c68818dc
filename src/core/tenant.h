// What a tenant may be called, and how large its share may be.
#ifndef ROPEWAY_CORE_TENANT_H_
#define ROPEWAY_CORE_TENANT_H_

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ropeway::core {

// The range of Request::tenant_weight.
inline constexpr double kMinTenantWeight = 0.01;
inline constexpr double kMaxTenantWeight = 100;

inline constexpr size_t kMaxTenantNameBytes = 64;

// Whether a tenant, and so an API key, may have this name: 1 to 64 letters, digits, '-', '_' or
// '.'.
inline bool IsTenantName(std::string_view name) {
  const auto is_name_char = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMaxTenantNameBytes &&
         std::all_of(name.begin(), name.end(), is_name_char);
}

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_TENANT_H_
