// Rotary position embedding: frequencies with their scaling, and the table of cosines and sines.
#ifndef ROPEWAY_MODEL_ROPE_H_
#define ROPEWAY_MODEL_ROPE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/page_arena.h"
#include "ropeway/status.h"

namespace ropeway::model {

// kLongRope: frequencies are divided by factors of the file. It has one list for sequences up to
// the original context length and one for longer ones (LongRoPE, Ding et al. 2024). A longer
// sequence has the second list at all of its positions.
enum class RopeScaling { kNone, kLinear, kYarn, kLongRope };

struct RopeParams {
  int32_t dim = 0;  // Even: dim / 2 pairs of each head are rotated.
  double freq_base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                  // Contexts are stretched by so much; at least 1.
  int32_t original_context_length = 0;  // Before stretching; kYarn and kLongRope.
  double attention_factor = 1.0;        // Multiplies cosine and sine.
  double beta_fast = 32.0;              // kYarn: pairs that turn more often are not stretched.
  double beta_slow = 1.0;               // kYarn: pairs that turn less often are stretched in full.
  bool yarn_whole_pairs = true;         // kYarn: these bounds are rounded to whole pairs.
};

// Radians per position of each of the dim / 2 pairs. `divisors`: one per pair, or empty
// (Llama 3.1's scaling, which its files carry ready-made as the tensor rope_freqs.weight).
std::vector<double> RopeFrequencies(const RopeParams& params, std::span<const float> divisors);

// The factor on cosine and sine.
double RopeMagnitude(const RopeParams& params);

// Writes the row of one position: cos[dim / 2], then sin[dim / 2], computed in double and rounded
// once.
// REQUIRES: position * frequency < 2^28.
void FillRopeRow(std::span<const double> frequencies, double magnitude, int32_t position,
                 float* row);

// Elementary functions in plain double arithmetic: they give the same bits on every machine, which
// the C library does not, since it chooses a variant by CPU.

// e^x, to about 1e-15 relative. REQUIRES: |x| <= 700.
double PortableExp(double x);

// The natural logarithm, to about 1e-15 relative. REQUIRES: x is finite, normal and > 0.
double PortableLog(double x);

// base^exponent. REQUIRES: base as for PortableLog; |exponent * log(base)| <= 700.
double PortablePow(double base, double exponent);

struct SinCos {
  double sin;
  double cos;
};

// Both to about 1e-15 absolute. REQUIRES: |x| < 2^28.
SinCos PortableSinCos(double x);

// The rows of cosines and sines of a model's positions, computed when they are first asked for:
// most contexts that models allow are much longer than what they are used with.
// Thread rule: all calls from any thread.
class RopeTable {
 public:
  // `frequencies` and `magnitude` as for FillRopeRow. It takes address space for all rows at
  // once, and memory as they are filled. kResourceExhausted if the system denies it. May throw
  // bad_alloc.
  static StatusOr<std::unique_ptr<RopeTable>> Make(std::vector<double> frequencies,
                                                   double magnitude, int32_t positions);

  // Bytes of a table whose rows are all filled. `dim`: RopeParams'.
  static uint64_t Bytes(int32_t positions, int32_t dim) {
    return static_cast<uint64_t>(positions) * static_cast<uint64_t>(dim) * sizeof(float);
  }

  // See FillRopeRow. REQUIRES: 0 <= position < positions.
  const float* row(int32_t position) const {
    const auto at = static_cast<size_t>(position);
    if (!filled_[at / kGroup].load(std::memory_order_acquire)) Fill(at / kGroup);
    return rows() + at * row_floats();
  }

 private:
  // Positions that are filled together: a tenth of a millisecond of work.
  static constexpr size_t kGroup = 16;

  RopeTable(std::vector<double> frequencies, double magnitude, int32_t positions,
            base::PageArena arena);

  size_t row_floats() const { return 2 * frequencies_.size(); }
  float* rows() const { return reinterpret_cast<float*>(arena_.data()); }
  void Fill(size_t group) const;

  const std::vector<double> frequencies_;
  const double magnitude_;
  const size_t positions_;
  const base::PageArena arena_;
  mutable std::mutex mutex_;  // Held to fill a group.
  const std::unique_ptr<std::atomic<bool>[]> filled_;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_ROPE_H_
