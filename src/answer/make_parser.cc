#include "answer/make_parser.h"

#include "answer/harmony_parser.h"
#include "answer/tagged_parser.h"

namespace ropeway::answer {

std::unique_ptr<AnswerParser> MakeAnswerParser(const AnswerFormat& format,
                                               const AnswerOptions& options) {
  return HasChannels(format) ? MakeHarmonyParser(format, options)
                             : MakeTaggedParser(format, options);
}

}  // namespace ropeway::answer
