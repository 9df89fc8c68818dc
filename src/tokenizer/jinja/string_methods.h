// What filters share with the methods of strings.
#ifndef ROPEWAY_TOKENIZER_JINJA_STRING_METHODS_H_
#define ROPEWAY_TOKENIZER_JINJA_STRING_METHODS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/jinja/context.h"

namespace ropeway::jinja {

// `text` without the characters of `set` at its ends.
std::string_view StripSet(std::string_view text, std::string_view set, bool left, bool right,
                          Context& context);

// str.replace(); at most `count` times, unless that is negative.
std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to,
                        int64_t count, Context& context);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_STRING_METHODS_H_
