// Makes what reads the answers of a format.
#ifndef ROPEWAY_ANSWER_MAKE_PARSER_H_
#define ROPEWAY_ANSWER_MAKE_PARSER_H_

#include <memory>

#include "answer/answer_format.h"
#include "answer/answer_parser.h"

namespace ropeway::answer {

// `format` must outlive it.
std::unique_ptr<AnswerParser> MakeAnswerParser(const AnswerFormat& format,
                                               const AnswerOptions& options);

}  // namespace ropeway::answer

#endif  // ROPEWAY_ANSWER_MAKE_PARSER_H_
