// This interface is deprecated; the header says why it is used.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

#include <openssl/sha.h>

#include "base/check.h"

namespace ropeway::base {
namespace {

void Require(bool good) noexcept {
  if (!good) Check({StatusCode::kInternal, "libcrypto has no SHA-256"});
}

}  // namespace

struct Sha256Stream::State {
  SHA256_CTX context;
};

Sha256Stream::Sha256Stream() : state_(std::make_unique<State>()) {
  Require(SHA256_Init(&state_->context) == 1);
}

Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::Add(const void* data, size_t bytes) noexcept {
  Require(SHA256_Update(&state_->context, data, bytes) == 1);
}

Sha256Digest Sha256Stream::End() noexcept {
  Sha256Digest digest;
  Require(SHA256_Final(digest.data(), &state_->context) == 1);
  return digest;
}

Sha256Digest Sha256(const void* data, size_t bytes) noexcept {
  Sha256Digest digest;
  SHA256_CTX context;
  Require(SHA256_Init(&context) == 1 && SHA256_Update(&context, data, bytes) == 1 &&
          SHA256_Final(digest.data(), &context) == 1);
  return digest;
}

std::string HexText(const Sha256Digest& digest) {
  std::string hex;
  for (const uint8_t byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

}  // namespace ropeway::base
