// Answers of models that write in OpenAI's harmony format.
#ifndef ROPEWAY_ANSWER_HARMONY_PARSER_H_
#define ROPEWAY_ANSWER_HARMONY_PARSER_H_

#include <memory>

#include "answer/answer_parser.h"

namespace ropeway::answer {

// The prompt ends behind "<|start|>assistant", or, in a thought, in a message of the analysis
// channel. An answer is messages: <|start|>, a role, perhaps a recipient, <|channel|> with a
// channel, perhaps a recipient and <|constrain|> with a type, <|message|>, what it says, and
// <|end|>, <|return|> or <|call|>. What stands outside of a well-formed message is text.
//
// If calls are of another form, they stand in the text; what goes to recipients is text.
//
// Its marks are control tokens if format.controls names them. `format` must outlive it.
std::unique_ptr<AnswerParser> MakeHarmonyParser(const AnswerFormat& format,
                                                const AnswerOptions& options);

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_HARMONY_PARSER_H_
