// From the tools of a chat to a grammar of the answers that call them.
#ifndef ROPEWAY_GRAMMAR_TOOL_EBNF_H_
#define ROPEWAY_GRAMMAR_TOOL_EBNF_H_

#include <functional>
#include <map>
#include <string>

#include "answer/answer_format.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::grammar {

// The control tokens that a form names, by their text; not those at which generation ends.
using ControlTokens = std::map<std::string, TokenId, std::less<>>;

// Whether answers to this chat are held to a grammar by its tools alone: where a call is required,
// or a tool strict.
bool ConstrainsCalls(const Chat& chat);

// The grammar, in EBNF, of answers by the form of `format.calls`; it says nothing of a thought
// before the answer, but for Harmony, whose thoughts are messages. kRequired: calls alone, by the
// tools' schemas. kAuto: any text in which all that is read as a call is one of a tool, the strict
// ones by their schemas, the others with any arguments. kAuto beside a form of `text`: calls alone,
// of these, or a text of that form, which no parser with calls_alone takes for calls.
//
// The answer::AnswerParser of `format` reads each call as it was meant. `format` is as Resolve
// leaves it, and `controls` has its control tokens. kInvalidArgument names a tool and what of its
// name or its schema is not supported, or the field of `text`, which may begin as calls do;
// kUnimplemented a form without a grammar. Takes as long as OutputEbnf. REQUIRES:
// ConstrainsCalls(chat), or kAuto and `text` is a form.
StatusOr<std::string> ToolEbnf(const answer::AnswerFormat& format, const ControlTokens& controls,
                               const Chat& chat, const OutputFormat& text = {});

}  // namespace ropeway::grammar

#endif  // ROPEWAY_GRAMMAR_TOOL_EBNF_H_
