// The bounds of JSON Schemas and regular expressions that become grammars.
#ifndef ROPEWAY_GRAMMAR_SCHEMA_LIMITS_H_
#define ROPEWAY_GRAMMAR_SCHEMA_LIMITS_H_

#include <cstddef>

namespace ropeway::grammar {

// What they bound would take too much work to compile. Bounds of a schema's text are core's
// (output_bounds.h).
inline constexpr size_t kMaxKeyBytes = 256;  // Of a name in a path to a schema.
inline constexpr size_t kMaxEbnfBytes = 64 << 10;
inline constexpr size_t kMaxToolsEbnfBytes = 256 << 10;  // Of all tools of a chat together.
// Larger ones have spaces only where they usually are.
inline constexpr size_t kMaxSpacedToolsEbnfBytes = 24 << 10;
// Properties or values of a set, times what minProperties, maxProperties and the like count of
// them.
inline constexpr size_t kMaxCounted = 20'000;
inline constexpr int kMaxEnumValues = 1'000;    // In the schema.
inline constexpr int kMaxObjectOptional = 256;  // Optional properties of one object.
inline constexpr int kMaxOptional = 1'000;      // Optional properties in the schema.
inline constexpr int kMaxMinLength = 8;
inline constexpr int kMaxMaxLength = 100'000;
inline constexpr int kMaxMinItems = 1'000;
inline constexpr int kMaxMaxItems = 100'000;
inline constexpr size_t kMaxAlternatives = 256;  // Of one anyOf or oneOf.

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_SCHEMA_LIMITS_H_
