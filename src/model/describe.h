// A model's tables as a report (`ropeway inspect FILE`) and as a digest.
#ifndef ROPEWAY_MODEL_DESCRIBE_H_
#define ROPEWAY_MODEL_DESCRIBE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "model/gguf.h"

namespace ropeway::model {

// A report in several lines: format and size, metadata (long values abbreviated), the table of
// tensors and totals per type. The text is valid UTF-8 without control characters other than line
// feeds, whatever the file holds. Whether the model can be run: engine::CheckModel.
std::string DescribeGguf(const GgufFile& file);

// Returns at most about `max_bytes` of `text` in quotes, with control characters and invalid UTF-8
// escaped.
std::string QuoteForTerminal(std::string_view text, size_t max_bytes);

// A digest of the tables, for which none of the weights is read: the SHA-256, in hex, of all
// metadata but the model's name, and of each tensor's name, shape, type and place. It is the same
// on every machine, wherever the model lies, and another one for a model of another vocabulary,
// configuration, type or layout; two sets of weights with equal tables have the same.
std::string TableDigest(const GgufFile& file);

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_DESCRIBE_H_
