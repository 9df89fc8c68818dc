// The formats of strings in JSON Schemas.
#ifndef ROPEWAY_GRAMMAR_FORMAT_EBNF_H_
#define ROPEWAY_GRAMMAR_FORMAT_EBNF_H_

#include <optional>

#include "grammar/pattern_ebnf.h"

namespace ropeway::grammar {

// JSON strings of the keyword `format` of `place`: those of JSON Schema that can be written as
// regular expressions, and some of Pydantic's. nullopt: the format is an annotation that any string
// fits. Throws Rejected for other formats, and for keywords beside it that may limit the string,
// too.
//
// Dates are those of the calendar, in the years 1000 to 9999. Times have an offset or Z, and at
// most six decimals of a second; there are no leap seconds. Numbers in durations have at most four
// digits. E-mail addresses, host names and URIs are of ASCII letters, digits and few other
// characters; their parts are short, their domain has at most four labels, and URIs are of http and
// https.
std::optional<Ebnf::Node> FormatString(const Place& place, PatternWriter* patterns);

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_FORMAT_EBNF_H_
