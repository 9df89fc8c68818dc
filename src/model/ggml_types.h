// The numbers by which GGUF names a tensor's element type, and how many bytes each takes.
#ifndef ROPEWAY_MODEL_GGML_TYPES_H_
#define ROPEWAY_MODEL_GGML_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/kernels.h"

namespace ropeway {

struct GgmlTypeInfo {
  uint32_t number;
  const char* name;
  uint32_t block_elements;  // Consecutive elements of a row that are stored together.
  uint32_t block_bytes;
};

// nullptr for an unknown number.
const GgmlTypeInfo* FindGgmlType(uint32_t number);

// "F32", "Q4_1", ...; "type 99" for an unknown one.
std::string GgmlTypeName(uint32_t number);

// The kernels' name of a type; nullopt for one that they do not compute with.
std::optional<WeightType> WeightTypeOf(uint32_t number);
uint32_t GgmlTypeOf(WeightType type);

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_GGML_TYPES_H_
