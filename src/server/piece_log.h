// The pieces of an output, in order. Copies share the pieces that they have.
#ifndef ROPEWAY_SERVER_PIECE_LOG_H_
#define ROPEWAY_SERVER_PIECE_LOG_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "ropeway/request.h"

namespace ropeway::server {

// Grows at its end. Thread rule: one thread at a time; a copy that Share has made is another
// object.
class PieceLog {
 public:
  PieceLog() = default;
  explicit PieceLog(std::vector<Delta> pieces) : tail_(std::move(pieces)) {}

  void Add(Delta piece) { tail_.push_back(std::move(piece)); }
  size_t size() const { return shared_size_ + tail_.size(); }
  bool empty() const { return size() == 0; }
  // REQUIRES: Add was called after the last Share.
  const Delta& last() const { return tail_.back(); }

  // A copy in which later pieces are not. Copies no piece: what there is by now is immutable from
  // then on. Takes time only for each earlier call between which pieces came. Throws std::bad_alloc
  // with nothing changed.
  PieceLog Share() {
    if (!tail_.empty()) {
      auto segment = std::make_shared<std::vector<Delta>>();
      segments_.push_back({shared_size_, segment});
      segment->swap(tail_);
      shared_size_ += segment->size();
    }
    PieceLog copy;
    copy.segments_ = segments_;
    copy.shared_size_ = shared_size_;
    return copy;
  }

  // Calls fn(piece) for those from `begin` to before `end`. REQUIRES: end <= size().
  template <typename Fn>
  void ForEach(size_t begin, size_t end, const Fn& fn) const {
    auto segment = std::upper_bound(segments_.begin(), segments_.end(), begin,
                                    [](size_t at, const Segment& s) { return at < s.begin; });
    if (segment != segments_.begin()) --segment;
    for (; segment != segments_.end() && segment->begin < end; ++segment) {
      const std::vector<Delta>& pieces = *segment->pieces;
      const size_t last = std::min(end - segment->begin, pieces.size());
      for (size_t i = begin - std::min(begin, segment->begin); i < last; ++i) fn(pieces[i]);
    }
    for (size_t i = std::max(begin, shared_size_); i < end; ++i) fn(tail_[i - shared_size_]);
  }

  // Copies of the first `count`.
  std::vector<Delta> First(size_t count) const {
    std::vector<Delta> pieces;
    pieces.reserve(count);
    ForEach(0, count, [&pieces](const Delta& piece) { pieces.push_back(piece); });
    return pieces;
  }

 private:
  struct Segment {
    size_t begin = 0;  // The pieces before it.
    std::shared_ptr<const std::vector<Delta>> pieces;
  };
  std::vector<Segment> segments_;
  size_t shared_size_ = 0;  // Pieces in segments.
  std::vector<Delta> tail_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_PIECE_LOG_H_
