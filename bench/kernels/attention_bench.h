// Times the attention of one layer as the executor runs it.
#ifndef ROPEWAY_BENCH_KERNELS_ATTENTION_BENCH_H_
#define ROPEWAY_BENCH_KERNELS_ATTENTION_BENCH_H_

#include <memory>
#include <vector>

#include "base/page_arena.h"
#include "base/worker_team.h"
#include "bench/kernels/shapes.h"
#include "bench/timing.h"
#include "kernels/kernels.h"
#include "ropeway/status.h"

namespace ropeway::bench {

// Some sequences of one length. Decode: one row each, which sees `context` positions, its own
// among them. Prefill: `rows` rows each, behind `context` positions.
struct AttentionCase {
  int sequences = 1;
  int rows = 1;
  int context = 1;

  int start() const { return rows == 1 ? context - 1 : context; }  // Position of the first row.
};

// K and V lie in 16-token blocks as in the executor's pool, [block][layer][KV head], and a
// sequence's blocks do not lie side by side. There are so many sequences and layers that they come
// from memory.
//
// Thread rule: one thread at a time, the team's.
class AttentionBench {
 public:
  // `rotate_bytes`: about how much of K and V is read before the same is read again. The pool takes
  // at most `max_bytes` or, where these are more, LeastPoolBytes. Errors and lifetimes as for
  // MatMulBench.
  static StatusOr<std::unique_ptr<AttentionBench>> Make(const AttentionShape& shape,
                                                        const AttentionCase& problem,
                                                        size_t rotate_bytes, size_t max_bytes,
                                                        const kernels::Kernels& kernels,
                                                        base::WorkerTeam* team);
  // The bytes of as many layers of all sequences as hold `rotate_bytes`; at least one layer.
  static size_t LeastPoolBytes(const AttentionShape& shape, const AttentionCase& problem,
                               size_t rotate_bytes);
  AttentionBench(const AttentionBench&) = delete;
  AttentionBench& operator=(const AttentionBench&) = delete;

  Timing Measure(const TimingBudget& budget);

  // The dot products of scores and values in f32; each K and V read from memory once.
  static Work WorkOf(const AttentionShape& shape, const AttentionCase& problem);

 private:
  // Rows of one sequence against one KV head, over some splits of the context.
  struct Unit {
    int sequence;
    int row;
    int rows;
    int head;
    int split_begin;
    int split_end;
  };

  AttentionBench(const AttentionShape& shape, const AttentionCase& problem,
                 const kernels::Kernels& kernels, base::WorkerTeam* team);
  Status MakePool(size_t rotate_bytes, size_t max_bytes);
  void MakeUnits();
  void Attend(int worker, int phase);
  Status MakePartials();
  float* PartialAt(size_t index) const;
  // `next`: what the same worker computes after it; may be nullptr.
  void AttendUnit(const Unit& unit, const Unit* next, int layer, int set, float* partial);
  const std::byte* KvOf(const Unit& unit, int layer) const;
  const int32_t* BlocksOf(const Unit& unit, int set) const;
  std::vector<std::byte> RandomBlocks() const;
  void Merge(const Unit& unit, int splits, const float* partials);
  int SplitsOf(int row) const;

  const AttentionShape shape_;
  const AttentionCase problem_;
  const kernels::Kernels& kernels_;
  base::WorkerTeam* const team_;
  int layers_ = 1;  // Of the pool.
  int sets_ = 1;    // Of `sequences` sequences each.
  int blocks_per_sequence_ = 1;
  size_t block_bytes_ = 0;  // All layers and heads.
  size_t head_bytes_ = 0;   // K and V of one head.
  base::PageArena pool_;
  std::vector<int32_t> blocks_;  // [set][sequence][block]
  std::vector<float> q_;         // [sequence][row][head][query of its group][head_dim]
  std::vector<float> out_;       // As q_.
  bool deferred_ = false;        // Units of one split each, merged after a barrier.
  std::vector<Unit> units_;
  size_t partial_floats_ = 0;  // Of one buffer in:
  base::PageArena partials_;
};

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_KERNELS_ATTENTION_BENCH_H_
