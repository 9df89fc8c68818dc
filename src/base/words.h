// Numbers and names in sentences, numbers that are a whole text, the nearest of some names, fields
// of tables, and parts of URLs.
#ifndef ROPEWAY_BASE_WORDS_H_
#define ROPEWAY_BASE_WORDS_H_

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
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

// The number that all of `text` is, by the rules of std::from_chars.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

// A field by RFC 4180: if it contains a comma, a quote or a line end, in double quotes, with inner
// quotes doubled; else unchanged.
std::string CsvField(std::string_view text);

// The text of a part of a URL (RFC 3986, section 2.1): "a%2Fb" is "a/b". What is no encoding stays
// as it is.
std::string PercentDecoded(std::string_view text);

// The edits that make `b` of `a`: a letter added, left out, replaced, or swapped with its
// neighbour. `most + 1` stands for all that are more than `most`. Takes time and memory that are
// bounded by the shorter text's size times `most`, whatever the other one's size.
size_t EditDistance(std::string_view a, std::string_view b, size_t most);

// The one of `names` that is nearest to `name`, of equally near ones the first. Null where none is
// within `most` edits or, so that short names do not all resemble each other, within a third of the
// letters of `name`. `name_of` makes a text of an element.
template <typename Names, typename NameOf = std::identity>
auto Nearest(std::string_view name, const Names& names, size_t most, NameOf name_of = {}) {
  const auto none = std::end(names);
  auto nearest = none;
  most = std::min(most, name.size() / 3);
  size_t least = most + 1;
  for (auto it = std::begin(names); it != none && least > 0; ++it) {
    const size_t distance = EditDistance(name, std::invoke(name_of, *it), least - 1);
    if (distance >= least) continue;
    least = distance;
    nearest = it;
  }
  return nearest == none ? nullptr : std::addressof(*nearest);
}

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_WORDS_H_
