// Characters as `tokenizers` sees them where it encodes for BERT.
#ifndef ROPEWAY_TOKENIZER_BERT_CHARACTERS_H_
#define ROPEWAY_TOKENIZER_BERT_CHARACTERS_H_

#include "tokenizer/characters.h"

namespace ropeway::tokenizer {

// As KindOf, by the tables of `tokenizers`, which are Unicode 8's: younger punctuation, marks and
// format characters are kOther, as are those that are not assigned.
CharacterKind BertKindOf(char32_t c);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_BERT_CHARACTERS_H_
