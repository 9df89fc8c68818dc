// How filters name a part of their items.
#ifndef ROPEWAY_TOKENIZER_JINJA_ATTRIBUTE_PATH_H_
#define ROPEWAY_TOKENIZER_JINJA_ATTRIBUTE_PATH_H_

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace ropeway::jinja {

// What `path`, an index or "name.name.0", leads to from `item`. Throws
// std::invalid_argument.
Value AtPath(const Value& item, const Value& path, Context& context);

}  // namespace ropeway::jinja

#endif  // ROPEWAY_TOKENIZER_JINJA_ATTRIBUTE_PATH_H_
