#include "net/sse_parser.h"

#include <utility>

namespace ropeway::net {

bool SseParser::EndLine(std::string_view line) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (std::exchange(at_start_, false) && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) {
    if (!has_data_) type_.clear();
    return std::exchange(has_data_, false);
  }
  const size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  if (field != "data" && field != "event") return false;
  std::string_view value =
      colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    type_ = value;
    return false;
  }
  if (has_data_) data_ += '\n';
  data_ += value;
  has_data_ = true;
  return false;
}

}  // namespace ropeway::net
