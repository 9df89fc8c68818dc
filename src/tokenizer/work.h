// How much of a long computation one call does.
#ifndef ROPEWAY_TOKENIZER_WORK_H_
#define ROPEWAY_TOKENIZER_WORK_H_

#include <algorithm>
#include <cstddef>

namespace ropeway::tokenizer {

// The work left to one call. A unit is what merging a byte of a text takes, about a tenth of a
// microsecond; looking through kScanned bytes is as much. Counted, not timed, so that what a call
// does depends on its input alone.
class Work {
 public:
  static constexpr size_t kScanned = 16;

  explicit Work(size_t units) : left_(units) {}

  bool left() const { return left_ > 0; }
  void Spend(size_t units) { left_ -= std::min(units, left_); }
  // Bytes that were looked through; at least a unit, so that many small looks end too.
  void SpendScan(size_t bytes) { Spend(1 + bytes / kScanned); }
  // Bytes to look through before the next check of left(). REQUIRES: left().
  size_t window() const { return std::min(left_, kMostAtOnce / kScanned) * kScanned; }

 private:
  static constexpr size_t kMostAtOnce = size_t{64} << 10U;
  size_t left_;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_WORK_H_
