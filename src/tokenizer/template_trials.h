// Finds out what a chat template takes, by rendering small chats with it.
#ifndef ROPEWAY_TOKENIZER_TEMPLATE_TRIALS_H_
#define ROPEWAY_TOKENIZER_TEMPLATE_TRIALS_H_

#include <string_view>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/template_traits.h"

namespace ropeway::tokenizer {

// The traits of the template `body`, whose text is `source`. Renders a few dozen chats of a few
// words, under bounds that keep a hostile template to a part of a second.
TemplateTraits FindTraits(const jinja::Body& body, std::string_view source);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TEMPLATE_TRIALS_H_
