// SHA-256 (FIPS 180-4) that cannot fail: libcrypto's oldest interface, which needs no provider and
// no memory. Since OpenSSL 3 SHA256() needs both, and leaves the digest unchanged on failure:
// different keys or names would then compare equal.
#ifndef ROPEWAY_BASE_SHA256_H_
#define ROPEWAY_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace ropeway::base {

using Sha256Digest = std::array<uint8_t, 32>;

// Thread-safe.
Sha256Digest Sha256(const void* data, size_t bytes) noexcept;

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_SHA256_H_
