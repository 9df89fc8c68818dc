// From JSON Schema to a grammar of the JSON texts that are valid by it.
#ifndef ROPEWAY_GRAMMAR_SCHEMA_EBNF_H_
#define ROPEWAY_GRAMMAR_SCHEMA_EBNF_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "grammar/ebnf.h"
#include "grammar/json_rules.h"
#include "grammar/schema_limits.h"
#include "ropeway/status.h"

namespace ropeway::grammar {

// The grammar, in EBNF, of JSON texts that are valid by `schema` (JSON Schema 2020-12;
// docs/structured_output.md lists the supported part). Each text of the grammar is valid. Not each
// valid text is one of the grammar: properties come in the schema's order, objects with
// `properties` have no others, there is no white space but single spaces.
//
// kInvalidArgument for whatever the grammar would not enforce: the message has the place in the
// schema, as a JSON pointer, the keyword at fault and what was expected.
StatusOr<std::string> SchemaToEbnf(const nlohmann::ordered_json& schema);

// The same as a part of a larger grammar, for schemas of objects alone, which are the arguments of
// a call by the syntax of `json`. Its size is for the caller to bound.
StatusOr<Ebnf::Node> ArgumentsEbnf(const nlohmann::ordered_json& schema, Ebnf* ebnf,
                                   JsonRules* json);
// Any arguments: in JSON any object.
Ebnf::Node AnyArguments(Ebnf* ebnf, JsonRules* json);
// Values of any schema, as a part of a larger grammar. REQUIRES: `json` spells them as JSON.
StatusOr<Ebnf::Node> ValueEbnf(const nlohmann::ordered_json& schema, Ebnf* ebnf, JsonRules* json);

// The grammar of JSON objects.
std::string AnyObjectEbnf();

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_SCHEMA_EBNF_H_
