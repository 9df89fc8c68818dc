// Loops that run at the limits of an instruction set, to compare kernels with: multiply-adds from
// registers alone, and a sweep over memory. One set of loops per table of kernels
// (kernels/kernels.h), compiled like that table.
//
// Thread rule: pure functions; for the limit of a machine run them on all its cores at once.
#ifndef ROPEWAY_BENCH_KERNELS_PEAKS_H_
#define ROPEWAY_BENCH_KERNELS_PEAKS_H_

#include <cstddef>
#include <cstdint>

namespace ropeway::bench {

struct PeakLoops {
  const char* name;  // Of the table of kernels that has these instructions.

  // Runs `rounds` rounds of dot products of unsigned with signed bytes, summed in 32 bits, in
  // enough independent chains to hide their latency: int8_ops operations per round (a
  // multiplication and its addition are 2). The result depends on every chain, so that the compiler
  // omits none. AVX2 has no such instruction: vpmaddubsw sums pairs in 16 bits, and after eight of
  // them vpmaddwd widens, as the kernels of 4-bit weights must before they overflow.
  uint64_t (*int8_dot)(int64_t rounds);
  double int8_ops;

  // The same of fused multiply-adds in f32.
  uint64_t (*f32_fma)(int64_t rounds);
  double f32_ops;

  // Reads `bytes` bytes once, in order, with the widest loads; returns a sum of them.
  // REQUIRES: memory 64-byte aligned, bytes a multiple of kSweepBytes.
  uint64_t (*sweep)(const std::byte* memory, size_t bytes);
};

enum : size_t { kSweepBytes = 1024 };

// The loops of a table by its name; nullptr if unknown, or if this CPU cannot run it.
const PeakLoops* PeakLoopsByName(const char* name);

// Every table's name, best first, ended by a nullptr.
extern const char* const kTableNames[];

extern const PeakLoops kReferencePeaks;
extern const PeakLoops kAvx2Peaks;        // Call only where kAvx2Kernels may be called.
extern const PeakLoops kAvx512VnniPeaks;  // Call only where kAvx512VnniKernels may be called.

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_KERNELS_PEAKS_H_
