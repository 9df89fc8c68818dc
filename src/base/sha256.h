// SHA-256 (FIPS 180-4) that cannot fail: libcrypto's oldest interface, which needs no provider and
// no memory. Since OpenSSL 3 SHA256() needs both, and leaves the digest unchanged on failure:
// different keys or names would then compare equal.
#ifndef ROPEWAY_BASE_SHA256_H_
#define ROPEWAY_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ropeway::base {

using Sha256Digest = std::array<uint8_t, 32>;

// Thread-safe.
Sha256Digest Sha256(const void* data, size_t bytes) noexcept;

// The sum of bytes that come in pieces. Thread rule: one thread at a time.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;

  void Add(const void* data, size_t bytes) noexcept;
  // The sum of all that was added. Call once; nothing may be added after it.
  Sha256Digest End() noexcept;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// 64 lower-case hexadecimal digits.
std::string HexText(const Sha256Digest& digest);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_SHA256_H_
