// The batch form of `ropeway tokenize`: JSON lines in, JSON lines out.
#ifndef ROPEWAY_TOKENIZER_TOKENIZE_LINES_H_
#define ROPEWAY_TOKENIZER_TOKENIZE_LINES_H_

#include <iosfwd>

#include "ropeway/status.h"
#include "tokenizer/tokenizer.h"

namespace ropeway {

// Reads one JSON object a line, {"text": "..."} or {"base64": "..."} (any bytes), and for each
// writes one line, {"ids": [...], "text_base64": "<the ids' bytes together, special tokens
// included>"}. A line may carry "add_special" and "parse_special" (booleans, both true if absent).
// Empty lines are passed over. Fails at the first line that is none of this, naming the line.
Status TokenizeLines(const Tokenizer& tokenizer, std::istream& in, std::ostream& out);

}  // namespace ropeway

#endif  // ROPEWAY_TOKENIZER_TOKENIZE_LINES_H_
