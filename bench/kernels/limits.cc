#include "bench/kernels/limits.h"

#include <algorithm>

namespace ropeway {

const char* BoundName(Bound bound) {
  switch (bound) {
    case Bound::kInt8:
      return "int8";
    case Bound::kF32:
      return "f32";
    case Bound::kMemory:
      return "memory";
  }
  return "unknown";
}

Reached Compare(const Work& work, double seconds, const Limits& limits) {
  const double int8_seconds = work.int8_ops / limits.int8_ops;
  const double f32_seconds = work.f32_ops / limits.f32_ops;
  const double memory_seconds = work.bytes / limits.bytes;
  const double compute_seconds = int8_seconds + f32_seconds;
  if (memory_seconds > compute_seconds) return {Bound::kMemory, memory_seconds / seconds};
  return {int8_seconds >= f32_seconds ? Bound::kInt8 : Bound::kF32, compute_seconds / seconds};
}

}  // namespace ropeway
