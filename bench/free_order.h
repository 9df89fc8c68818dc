// Kernels that may add floats in any order: what Ropeway's fixed order is measured
// against. Built into ropeway-bench alone.
#ifndef ROPEWAY_BENCH_FREE_ORDER_H_
#define ROPEWAY_BENCH_FREE_ORDER_H_

#include "kernels/kernels.h"

namespace ropeway::bench {

// One kernel whose sums have the order that is fastest.
struct FreeKernel {
  const char* name;
  void (*put)(kernels::Kernels* table);  // Replaces the table's own.
};

// For AVX-512 with VNNI, from the same headers as the production table. Put them only into a copy
// of that one.
inline constexpr int kNumFreeKernels = 4;
extern const FreeKernel kFreeKernels[kNumFreeKernels];

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_FREE_ORDER_H_
