// Times one matrix product as the executor runs it.
#ifndef ROPEWAY_BENCH_KERNELS_MATMUL_BENCH_H_
#define ROPEWAY_BENCH_KERNELS_MATMUL_BENCH_H_

#include <memory>
#include <vector>

#include "base/page_arena.h"
#include "base/worker_team.h"
#include "bench/kernels/shapes.h"
#include "bench/timing.h"
#include "kernels/kernels.h"
#include "ropeway/status.h"

namespace ropeway::bench {

// Divides the work among workers as the executor does. The product's weights are random, and there
// are so many copies of them, used in turn, that they come from memory. Activations are packed anew
// in each phase, and that counts. Thread rule: one thread at a time, the team's.
class MatMulBench {
 public:
  // Makes at least one copy of the weights, and as many as fill `rotate_bytes`, for up to
  // `max_rows` rows. `kernels` and `team` must outlive it. kResourceExhausted where memory is
  // short.
  static StatusOr<std::unique_ptr<MatMulBench>> Make(const MatMulShape& shape, int max_rows,
                                                     size_t rotate_bytes,
                                                     const kernels::Kernels& kernels,
                                                     base::WorkerTeam* team);
  ~MatMulBench();
  MatMulBench(const MatMulBench&) = delete;
  MatMulBench& operator=(const MatMulBench&) = delete;

  // Bytes that Make takes.
  static size_t MemoryFor(const MatMulShape& shape, int max_rows, size_t rotate_bytes, int workers);

  // Whether each worker has rows of its own; for logits the executor always splits the columns.
  bool ByRows(int rows) const;

  // REQUIRES: 1 <= rows <= max_rows.
  Timing Measure(int rows, const TimingBudget& budget);

  static Work WorkOf(const MatMulShape& shape, int rows);

 private:
  struct Buffers;  // Of one worker.

  MatMulBench(const MatMulShape& shape, const kernels::Kernels& kernels, base::WorkerTeam* team);
  Status FillWeights(size_t rotate_bytes);
  void Multiply(int worker, int rows, int copy);
  void MultiplyTile(Buffers* buffers, const float* x, int rows, int part, int parts, float* y,
                    int copy);

  void FindLargest(Buffers* buffers, const kernels::Matrix& matrix, int rows, int part, int parts);

  const MatMulShape shape_;
  const kernels::Kernels& kernels_;
  base::WorkerTeam* const team_;
  base::PageArena weights_;
  std::vector<std::vector<kernels::Matrix>> copies_;  // [copy][matrix of the shape]
  std::vector<float> x_;                              // [max_rows][k]
  std::vector<Buffers> buffers_;
};

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_KERNELS_MATMUL_BENCH_H_
