// Numbers between the bounds of a JSON Schema.
#ifndef ROPEWAY_GRAMMAR_RANGE_EBNF_H_
#define ROPEWAY_GRAMMAR_RANGE_EBNF_H_

#include <optional>

#include "grammar/ebnf.h"
#include "grammar/schema_tree.h"

namespace ropeway::grammar {

// The integers or numbers, by `type`, that the keywords minimum, maximum, exclusiveMinimum and
// exclusiveMaximum of `place` allow; nullopt: it has none of them. Throws Rejected where a bound is
// no number or too large, and where nothing lies between the bounds.
//
// Each text is valid whether a reader takes it as a decimal or rounds it to a double. So numbers
// have no exponent and at most 17 decimals; beside an exclusive bound they have at most 15 digits.
// A side without a bound ends at 18 digits before the point.
std::optional<Ebnf::Node> NumericRange(const Place& place, Type type, Ebnf* ebnf);

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_RANGE_EBNF_H_
