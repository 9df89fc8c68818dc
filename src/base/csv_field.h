// A field of a table of comma-separated values.
#ifndef ROPEWAY_BASE_CSV_FIELD_H_
#define ROPEWAY_BASE_CSV_FIELD_H_

#include <string>
#include <string_view>

namespace ropeway::base {

// A field by RFC 4180: if it contains a comma, a quote or a line end, in double quotes, with inner
// quotes doubled; else unchanged.
std::string CsvField(std::string_view text);

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_CSV_FIELD_H_
