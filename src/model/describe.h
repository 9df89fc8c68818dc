// What `ropeway inspect FILE` prints.
#ifndef ROPEWAY_MODEL_DESCRIBE_H_
#define ROPEWAY_MODEL_DESCRIBE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "model/gguf.h"

namespace ropeway {

// A report for a person, in several lines: version and size, metadata (long values abbreviated),
// the table of tensors, totals per type, and whether Ropeway can run the model or what stands
// against it. Whatever the file holds, the text is valid UTF-8 without control characters but line
// feeds.
std::string DescribeGguf(const GgufFile& file);

// `text` in quotes, at most about `max_bytes` of it, with control characters and what is not UTF-8
// written as escapes.
std::string QuoteForTerminal(std::string_view text, size_t max_bytes);

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_DESCRIBE_H_
