// The size of a KV block, on which kernels, KV cache and scheduler agree. Constants only: files
// that are compiled for one instruction set include this.
#ifndef ROPEWAY_BASE_KV_BLOCK_H_
#define ROPEWAY_BASE_KV_BLOCK_H_

namespace ropeway::base {

// Tokens in one KV block. A constant of kNumericsVersion (docs/numerics.md), not an option.
inline constexpr int kBlockTokens = 16;

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_KV_BLOCK_H_
