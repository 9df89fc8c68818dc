// This interface is deprecated; the header says why it is used.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

#include <openssl/sha.h>

#include "base/check.h"

namespace ropeway::base {

Sha256Digest Sha256(const void* data, size_t bytes) noexcept {
  Sha256Digest digest;
  SHA256_CTX context;
  const bool good = SHA256_Init(&context) == 1 && SHA256_Update(&context, data, bytes) == 1 &&
                    SHA256_Final(digest.data(), &context) == 1;
  if (!good) Check({StatusCode::kInternal, "libcrypto has no SHA-256"});
  return digest;
}

}  // namespace ropeway::base
