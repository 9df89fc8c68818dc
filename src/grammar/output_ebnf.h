// From the form that a request asks for to a grammar.
#ifndef ROPEWAY_GRAMMAR_OUTPUT_EBNF_H_
#define ROPEWAY_GRAMMAR_OUTPUT_EBNF_H_

#include <string>
#include <vector>

#include "grammar/ebnf.h"
#include "grammar/json_rules.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::grammar {

// The grammar, in EBNF, of the texts of this form. kInvalidArgument says what is wrong with it or
// not supported. Takes under a second whatever the form says, and usually under a millisecond.
// REQUIRES: format.kind is not kText.
StatusOr<std::string> OutputEbnf(const OutputFormat& format);

// The same as a part of a larger grammar, which gets rules of its own. kInvalidArgument too if
// these have more text than a grammar of the form alone may have. REQUIRES: `json` spells values as
// JSON.
StatusOr<Ebnf::Node> OutputText(const OutputFormat& format, Ebnf* ebnf, JsonRules* json);

// The grammar of one of these texts, as they are. kInvalidArgument: there are none or too many of
// them, or they are too long.
StatusOr<std::string> ChoiceEbnf(const std::vector<std::string>& choices);

// `error` as the sender of this form is told it: with the field that asked for the form.
Status OfField(const OutputFormat& format, const Status& error);

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_OUTPUT_EBNF_H_
