// The bounds of a request's OutputFormat, which are the same where a body is read and where a
// grammar is made.
#ifndef ROPEWAY_CORE_OUTPUT_BOUNDS_H_
#define ROPEWAY_CORE_OUTPUT_BOUNDS_H_

#include <cstddef>

#include "base/json.h"

namespace ropeway::core {

inline constexpr base::JsonBounds kSchemaBounds = {.max_depth = 64, .max_values = 20'000};
inline constexpr size_t kMaxSchemaBytes = 256 << 10;
inline constexpr size_t kMaxChoices = 1'000;

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_OUTPUT_BOUNDS_H_
