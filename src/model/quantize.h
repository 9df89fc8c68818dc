// Weights of files in F32, F16 or BF16, as floats and in 8 or 4 bits, when they are loaded.
#ifndef ROPEWAY_MODEL_QUANTIZE_H_
#define ROPEWAY_MODEL_QUANTIZE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ropeway::model {

// ggml's numbers of the element types that this room converts from and to.
namespace ggml_type {
inline constexpr uint32_t kF32 = 0;
inline constexpr uint32_t kF16 = 1;
inline constexpr uint32_t kQ40 = 2;
inline constexpr uint32_t kQ80 = 8;
inline constexpr uint32_t kBf16 = 30;
inline constexpr uint32_t kMxfp4 = 39;
}  // namespace ggml_type

// Whether `type` is F32, F16 or BF16.
bool IsFloatType(uint32_t type);

// Elements of a row in a float type as floats, exactly. REQUIRES: IsFloatType(type).
void WidenRow(uint32_t type, const std::byte* from, std::span<float> to);

// One row in Q8_0 or Q4_0, to the bit as gguf-py's `quants.quantize` makes it. False if a number is
// not finite, or too large for a scale in f16; `to` is then not defined.
// REQUIRES: row.size() is a multiple of 32.
bool QuantizeRow(uint32_t type, std::span<const float> row, std::byte* to);

// The type in which --quantize `quantize` ("q8_0", "q4_0") keeps a tensor of GGUF's name, type and
// shape (the contiguous dimension first). Matrices in a float type become `quantize`, but with q4_0
// the embedding and the output matrix become Q8_0, as they cost most quality. Routers of experts,
// learned positions, norms and biases stay, and so does all that is quantised already.
uint32_t QuantizedType(std::string_view quantize, std::string_view name, uint32_t type,
                       std::span<const uint64_t> shape);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_QUANTIZE_H_
