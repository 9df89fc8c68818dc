// Whether a block is cheaper to read from a tier than to compute again: from what both took.
#ifndef ROPEWAY_KVCACHE_READ_COST_H_
#define ROPEWAY_KVCACHE_READ_COST_H_

#include <cstdint>

#include "base/clock.h"

namespace ropeway {

// Two moving means, of seconds per byte read and of seconds per token computed in prefill steps.
// Before the first measurement of one of them, reading counts as cheaper: that is how it is learnt.
//
// Thread rule: the engine thread.
class ReadCost {
 public:
  // `bytes` came after `took`.
  void OnRead(int64_t bytes, Duration took);
  // A step with `tokens` prompt tokens, and hardly anything else, took so long.
  void OnPrefill(int32_t tokens, Duration took);

  // Whether reading `bytes` is expected to take less time than computing `tokens`. Reading that was
  // found too slow is tried again after kProbeAfter refusals: the disk may have been busy.
  bool ReadIsCheaper(int64_t bytes, int32_t tokens);

  // What reading `bytes` is given before it is given up: ten times what is expected, between
  // kLeastLimit and 20 s: less than what counts as a stall.
  Duration ReadLimit(int64_t bytes) const;

  double seconds_per_byte() const { return seconds_per_byte_; }    // 0: not measured.
  double seconds_per_token() const { return seconds_per_token_; }  // 0: not measured.

  static constexpr int kProbeAfter = 50;
  static constexpr Duration kLeastLimit = std::chrono::seconds(2);

 private:
  double seconds_per_byte_ = 0;
  double seconds_per_token_ = 0;
  int refused_ = 0;  // In a row.
};

}  // namespace ropeway

#endif  // ROPEWAY_KVCACHE_READ_COST_H_
