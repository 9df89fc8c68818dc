// Answers with thoughts between two marks, then text with calls of tools.
#ifndef ROPEWAY_ANSWER_TAGGED_PARSER_H_
#define ROPEWAY_ANSWER_TAGGED_PARSER_H_

#include <memory>

#include "answer/answer_parser.h"

namespace ropeway::answer {

// `format` must outlive it.
std::unique_ptr<AnswerParser> MakeTaggedParser(const AnswerFormat& format,
                                               const AnswerOptions& options);

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_TAGGED_PARSER_H_
