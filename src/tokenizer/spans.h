// Parts of a text: which of its bytes came from where.
#ifndef ROPEWAY_TOKENIZER_SPANS_H_
#define ROPEWAY_TOKENIZER_SPANS_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ropeway::tokenizer {

// The bytes [begin, end) of a text.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

// In order; none is empty, and none overlaps or touches the next.
using Spans = std::vector<Span>;

// Appends [begin, end), joined with the last span where they touch. REQUIRES: it is not before the
// last one.
inline void AddSpan(size_t begin, size_t end, Spans* spans) {
  if (begin == end) return;
  if (!spans->empty() && spans->back().end == begin) {
    spans->back().end = end;
  } else {
    spans->push_back({begin, end});
  }
}

// The first of `spans` that ends after `at`.
inline Spans::const_iterator FirstSpanAfter(const Spans& spans, size_t at) {
  return std::upper_bound(spans.begin(), spans.end(), at,
                          [](size_t wanted, const Span& span) { return wanted < span.end; });
}

// The parts of `spans` within [begin, end), counted from `begin`.
inline Spans SpansWithin(const Spans& spans, size_t begin, size_t end) {
  Spans within;
  for (auto it = FirstSpanAfter(spans, begin); it != spans.end() && it->begin < end; ++it) {
    AddSpan(std::max(it->begin, begin) - begin, std::min(it->end, end) - begin, &within);
  }
  return within;
}

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_SPANS_H_
