// Names of KV blocks: hashes of everything that a block's bytes depend on.
//
//   root  = SHA-256(what every block of a request depends on beside its ids; see CacheRoot)
//   block = SHA-256(name of the block before it (the root for the first), number of ids, ids)
//
// Since compute is batch-invariant (docs/numerics.md), a name determines the block's bytes. Layers
// may be divided into groups with blocks of their own, whose names differ in the group's number
// (GroupName).
//
// SHA-256, because with a weak hash an attacker who finds a collision reads another conversation's
// cache.
#ifndef ROPEWAY_CORE_BLOCK_NAME_H_
#define ROPEWAY_CORE_BLOCK_NAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "ropeway/request.h"

namespace ropeway::core {

struct BlockName {
  std::array<uint8_t, 32> bytes{};

  bool operator==(const BlockName&) const = default;
};

// For hash tables: the name is a hash already.
struct BlockNameHash {
  size_t operator()(const BlockName& name) const {
    size_t hash;
    std::memcpy(&hash, name.bytes.data(), sizeof hash);
    return hash;
  }
};

// What the bytes of a request's blocks depend on beside its ids, and which requests may share them.
struct CacheRoot {
  std::string model_digest;  // The model file's digest.
  int numerics_version = 0;  // docs/numerics.md
  std::string kv_dtype;      // "f16" or "q8_0".
  std::string rope_scaling;  // As resolved at start.
  // A request with more ids has LongRopeRoot of the name. Not hashed: rope_scaling says it.
  int32_t long_rope_above = kNoLongRope;
  // The requests that may share: the key's cache_scope, else the tenant's name.
  std::string scope;
  std::string salt;  // The request's cache_salt: narrows further.
};

// Fields are hashed with their lengths, so distinct roots never give the same input.
BlockName RootName(const CacheRoot& root);

// The root of the same request's blocks once it is computed with the long factors of RoPE
// (CoreRequest::long_rope). `root`: with the short ones. Allocates nothing.
BlockName LongRopeRoot(const BlockName& root);

// The name of the block after `parent` that holds `ids`: a full or a partial one; the number of ids
// is part of the name. REQUIRES: 1 <= ids.size() <= kBlockTokens.
BlockName ChildName(const BlockName& parent, std::span<const TokenId> ids);

// The name of one group's part of the block called `name`: the group's number is added to the first
// two bytes, without carry, so group 0 keeps the name. Names stay distinct: two hashes that
// agree in the other 240 bits are as hard to find as a collision of these.
// REQUIRES: 0 <= group < 65536.
inline BlockName GroupName(BlockName name, int32_t group) {
  name.bytes[0] = static_cast<uint8_t>(name.bytes[0] ^ (group & 0xFF));
  name.bytes[1] = static_cast<uint8_t>(name.bytes[1] ^ (group >> 8));
  return name;
}

// The names of the full blocks of `ids`, in order.
std::vector<BlockName> ChainNames(const BlockName& root, std::span<const TokenId> ids);

// The first characters in hexadecimal, for logs and messages.
std::string ShortName(const BlockName& name);

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_BLOCK_NAME_H_
