// The formats of strings in JSON Schemas.
#ifndef ROPEWAY_GRAMMAR_FORMAT_EBNF_H_
#define ROPEWAY_GRAMMAR_FORMAT_EBNF_H_

#include "grammar/pattern_ebnf.h"

namespace ropeway::grammar {

// JSON strings of the keyword `format` of `place`: date, time, date-time, uuid, email or ipv4.
// Throws Rejected for other formats, and for keywords beside it that limit the string, too.
//
// Dates are those of the calendar, in the years 1000 to 9999. Times have an offset or Z, and at
// most six decimals of a second; there are no leap seconds. E-mail addresses are of ASCII letters,
// digits and few other characters; their parts are short, and their domain has two to four labels.
Ebnf::Node FormatString(const Place& place, PatternWriter* patterns);

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_FORMAT_EBNF_H_
