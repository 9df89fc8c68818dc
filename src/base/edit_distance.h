// How far two names are apart: for "did you mean".
#ifndef ROPEWAY_BASE_EDIT_DISTANCE_H_
#define ROPEWAY_BASE_EDIT_DISTANCE_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

namespace ropeway::base {

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

#endif  // ROPEWAY_BASE_EDIT_DISTANCE_H_
