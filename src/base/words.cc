#include "base/words.h"

#include <utility>

namespace ropeway::base {

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string PercentDecoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// The distance of "optimal string alignment", a row for each letter of `a`. Cells further than
// `most` from the diagonal cost more than `most`, so they are not looked at.
size_t EditDistance(std::string_view a, std::string_view b, size_t most) {
  const size_t difference = a.size() < b.size() ? b.size() - a.size() : a.size() - b.size();
  if (difference > most) return most + 1;
  const size_t far = most + 1;
  std::vector<size_t> row(b.size() + 1, far);
  std::vector<size_t> above(row);
  std::vector<size_t> two_above(row);
  for (size_t j = 0; j <= std::min(most, b.size()); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_above, above);
    std::swap(above, row);
    const size_t first = i > most ? i - most : 0;
    const size_t last = std::min(b.size(), i + most);
    if (first > 0) row[first - 1] = far;
    for (size_t j = first; j <= last; ++j) {
      if (j == 0) {
        row[0] = i;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      size_t cost = above[j - 1] + (same ? 0 : 1);
      cost = std::min({cost, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost = std::min(cost, two_above[j - 2] + 1);
      }
      row[j] = std::min(cost, far);
    }
    if (last < b.size()) row[last + 1] = far;
  }
  return row[b.size()];
}

}  // namespace ropeway::base
