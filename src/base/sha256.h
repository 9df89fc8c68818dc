// SHA-256 (FIPS 180-4) that cannot fail: libcrypto's own code behind its oldest interface, which
// asks no provider and takes no memory. SHA256() does both since OpenSSL 3, and leaves the digest
// as it was where either fails: keys or names would then compare equal that are not.
#ifndef ROPEWAY_BASE_SHA256_H_
#define ROPEWAY_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace ropeway {

using Sha256Digest = std::array<uint8_t, 32>;

// Thread-safe.
Sha256Digest Sha256(const void* data, size_t bytes) noexcept;

}  // namespace ropeway

#endif  // ROPEWAY_BASE_SHA256_H_
