// The types in which numbers are stored, in model files and in KV blocks: all that rooms need of
// this one to read, describe and place them without computing.
#ifndef ROPEWAY_KERNELS_NUMBER_TYPES_H_
#define ROPEWAY_KERNELS_NUMBER_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace ropeway::kernels {

// IEEE binary16 (the type F16) to binary32 and back. HalfToFloat is exact. FloatToHalf rounds to
// nearest even, beyond the range to infinity. NaN stays NaN (made quiet).
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);
// bfloat16 (the type BF16) to binary32: exact.
float BFloatToFloat(uint16_t bits);

// How weights are stored in the file and kept in memory: types of GGUF, by their names there.
// clang-format off
enum class WeightType : uint8_t {
  kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIQ4_NL,
  kIQ4_XS, kMXFP4,
};
inline constexpr WeightType kWeightTypes[] = {
    WeightType::kF32,  WeightType::kF16,  WeightType::kBF16, WeightType::kQ4_0,
    WeightType::kQ4_1, WeightType::kQ5_0, WeightType::kQ5_1, WeightType::kQ8_0,
    WeightType::kQ2_K, WeightType::kQ3_K, WeightType::kQ4_K, WeightType::kQ5_K,
    WeightType::kQ6_K, WeightType::kIQ4_NL, WeightType::kIQ4_XS, WeightType::kMXFP4};
// clang-format on
const char* WeightTypeName(WeightType type);  // "F32", "Q4_K", ...

// Consecutive elements that are stored together: 32 or 256; 1 for kF32, kF16 and kBF16, the types
// that are not quantised.
int WeightBlockElements(WeightType type);
// Bytes of one row of k elements as GGUF stores it. REQUIRES: k % WeightBlockElements(type) == 0.
size_t WeightRowBytes(WeightType type, int k);

// How the KV cache stores numbers: as f16, or as int8 with one f32 scale per token and KV head for
// K and one for V, fixed when they are written.
enum class KvType : uint8_t { kF16, kQ8_0 };
const char* KvTypeName(KvType type);  // "f16", "q8_0"
// nullptr if no type has that name.
const KvType* KvTypeByName(const char* name);

// Bytes of one block of 16 tokens of one layer and KV head; a multiple of 64. A block is
//   f16:  K [head_dim][16] f16, V [16][head_dim] f16;
//   q8_0: K [head_dim][16] int8, V [16][head_dim] int8, K's scales [16] f32, V's scales [16] f32.
size_t KvHeadBlockBytes(KvType type, int head_dim);

}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_NUMBER_TYPES_H_
