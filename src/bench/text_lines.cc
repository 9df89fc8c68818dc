#include "bench/text_lines.h"

#include <fmt/format.h>

namespace ropeway {

bool TextLines::Next() {
  while (std::getline(file_, line_)) {
    ++number_;
    if (line_.ends_with('\r')) line_.pop_back();
    if (line_.find_first_not_of(" \t") != std::string::npos) return true;
  }
  return false;
}

Status TextLines::Unreadable() const {
  return {StatusCode::kNotFound, fmt::format("The file '{}' cannot be read.", path_)};
}

Status TextLines::Wrong(std::string_view what) const {
  return InvalidArgument(fmt::format("{}, line {}: {}.", path_, number_, what));
}

Status TextLines::Empty() const {
  return InvalidArgument(fmt::format("{} holds no requests.", path_));
}

}  // namespace ropeway
