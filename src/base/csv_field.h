// A field of a table of comma-separated values.
#ifndef ROPEWAY_BASE_CSV_FIELD_H_
#define ROPEWAY_BASE_CSV_FIELD_H_

#include <string>
#include <string_view>

namespace ropeway {

// A field as RFC 4180 has it: in double quotes, which are doubled inside, if it holds a comma, a
// quote or the end of a line; else as it is.
std::string CsvField(std::string_view text);

}  // namespace ropeway

#endif  // ROPEWAY_BASE_CSV_FIELD_H_
