#include <cstring>

#include "kernels/kernels.h"

namespace ropeway {
namespace {

constexpr KvType kTypes[] = {KvType::kF16, KvType::kQ8_0};

}  // namespace

const char* KvTypeName(KvType type) { return type == KvType::kQ8_0 ? "q8_0" : "f16"; }

const KvType* KvTypeByName(const char* name) {
  for (const KvType& type : kTypes) {
    if (std::strcmp(KvTypeName(type), name) == 0) return &type;
  }
  return nullptr;
}

size_t KvHeadBlockBytes(KvType type, int head_dim) {
  const size_t elements = size_t{2} * kKvBlockTokens * static_cast<size_t>(head_dim);
  if (type == KvType::kF16) return elements * 2;
  return elements + size_t{2} * kKvBlockTokens * sizeof(float);
}

}  // namespace ropeway
