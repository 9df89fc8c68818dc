// Numbers and names in sentences.
#ifndef ROPEWAY_BASE_WORDS_H_
#define ROPEWAY_BASE_WORDS_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace ropeway::base {

// "1 thread", "2 threads". `noun`: one that takes an s.
template <typename Count>
std::string Counted(Count count, std::string_view noun) {
  std::string text = std::to_string(count) + " " + std::string(noun);
  if (count != 1) text += 's';
  return text;
}

// "'a', 'b' and 3 more": at most `most` of them by their names; "none".
inline std::string Listed(const std::vector<std::string>& names, size_t most) {
  if (names.empty()) return "none";
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  }
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_WORDS_H_
