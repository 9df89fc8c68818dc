// The batch form of `ropeway tokenize`: JSON lines in, JSON lines out.
#ifndef ROPEWAY_TOKENIZER_TOKENIZE_LINES_H_
#define ROPEWAY_TOKENIZER_TOKENIZE_LINES_H_

#include <iosfwd>

#include "ropeway/status.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::tokenizer {

// Reads one JSON object per line, {"text": "..."} or {"base64": "..."} (any bytes), and writes one
// line for each, {"ids": [...], "text_base64": "<the ids' bytes, special tokens included>"}. A line
// may have "add_special" and "parse_special" (booleans, both true if absent). Empty lines are
// skipped. Fails at the first invalid line and names it.
Status TokenizeLines(const Tokenizer& tokenizer, std::istream& in, std::ostream& out);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_TOKENIZE_LINES_H_
