#include "net/sse_parser.h"

namespace ropeway::net {

bool SseParser::EndLine(std::string_view line) {
  if (line.empty()) {
    const bool complete = has_data_;
    has_data_ = false;
    return complete;
  }
  const size_t colon = line.find(':');
  if (line.substr(0, colon) != "data") return false;
  std::string_view value =
      colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += value;
  has_data_ = true;
  return false;
}

}  // namespace ropeway::net
