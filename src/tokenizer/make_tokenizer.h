// The tokenizer of a vocabulary, of any kind.
#ifndef ROPEWAY_TOKENIZER_MAKE_TOKENIZER_H_
#define ROPEWAY_TOKENIZER_MAKE_TOKENIZER_H_

#include <memory>

#include "ropeway/status.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace ropeway::tokenizer {

// The only function that knows all kinds: byte-level BPE, SentencePiece's BPE and unigram model,
// WordPiece (vocabulary.h has the names). User-defined tokens are recognised in any text, control
// tokens with parse_special only. Texts are encoded in pieces of any length; with `most` a text
// that is far too long is found out by the lengths of the tokens, where those say something.
//
// Fails with one sentence that names the GGUF field at fault.
StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(Vocabulary vocabulary);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_MAKE_TOKENIZER_H_
