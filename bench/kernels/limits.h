// The roofline (Williams, Waterman and Patterson 2009): no work takes less time than its operations
// at the machine's peak, nor than its bytes at the memory's speed. What of that is reached?
#ifndef ROPEWAY_BENCH_KERNELS_LIMITS_H_
#define ROPEWAY_BENCH_KERNELS_LIMITS_H_

namespace ropeway {

// A machine's limits, with all threads at work.
struct Limits {
  double int8_ops = 0;  // Operations per second of int8 dot products; a multiply-add is two.
  double f32_ops = 0;   // The same of f32 multiply-adds.
  double bytes = 0;     // Bytes per second from memory.
};

// What a measured piece of code had to do.
struct Work {
  double int8_ops = 0;
  double f32_ops = 0;
  double bytes = 0;  // That had to come from memory at least once.
};

enum class Bound { kInt8, kF32, kMemory };
const char* BoundName(Bound bound);  // "int8", "f32", "memory".

// The limit that the work comes up against first, and the share of it that a run of `seconds`
// reached: the least possible time over the time taken. f32 and int8 operations use the same units
// of a core, so their times add up; the larger one gives the bound its name.
struct Reached {
  Bound bound = Bound::kMemory;
  double share = 0;
};
Reached Compare(const Work& work, double seconds, const Limits& limits);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_KERNELS_LIMITS_H_
