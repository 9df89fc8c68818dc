// From JSON Schema to a grammar of the JSON texts that are valid by it.
#ifndef ROPEWAY_GRAMMAR_SCHEMA_EBNF_H_
#define ROPEWAY_GRAMMAR_SCHEMA_EBNF_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::grammar {

// The bounds of a schema. What they bound would take too much work to compile.
inline constexpr size_t kMaxEbnfBytes = 64 << 10;
inline constexpr int kMaxEnumValues = 1'000;    // In the schema.
inline constexpr int kMaxObjectOptional = 256;  // Optional properties of one object.
inline constexpr int kMaxOptional = 1'000;      // Optional properties in the schema.
inline constexpr int kMaxMinLength = 8;
inline constexpr int kMaxMaxLength = 100'000;
inline constexpr int kMaxMinItems = 1'000;
inline constexpr int kMaxMaxItems = 100'000;

// The grammar, in EBNF, of JSON texts that are valid by `schema` (JSON Schema 2020-12, of which
// docs/structured_output.md has the supported part). Each text of the grammar is valid. Not each
// valid text is one of the grammar: properties come in the schema's order, objects with
// `properties` have no others, there is no white space but single spaces.
//
// kInvalidArgument for whatever the grammar would not enforce: the message has the place in the
// schema, as a JSON pointer, the keyword at fault and what was expected.
StatusOr<std::string> SchemaToEbnf(const nlohmann::ordered_json& schema);

// The grammar of JSON objects.
std::string AnyObjectEbnf();

// The grammar of one of these texts, as they are. kInvalidArgument: there are none or too many of
// them, or they are too long.
StatusOr<std::string> ChoiceEbnf(const std::vector<std::string>& choices);

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_SCHEMA_EBNF_H_
